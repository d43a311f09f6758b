"""A real S3 server for tests: S3Proxy on a folder, from its own jar, on a free port of loopback."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from penstock.bucket import Bucket, storage_options
from penstock.platform.jars import fetch_optional
from penstock.platform.java import java_executable
from penstock.settings import Settings

BUCKET = "warehouse"


class S3Server:
    """One server process; buckets are folders below its own."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.folder = folder
        self.access, self.secret = "tester", secrets.token_hex(16)
        self.port = _free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        (folder / "data" / BUCKET).mkdir(parents=True)
        (jar,) = fetch_optional(settings, "s3proxy").glob("*.jar")
        properties = folder / "s3proxy.properties"
        properties.touch(mode=0o600)
        properties.write_text(
            f"s3proxy.endpoint={self.endpoint}\n"
            "s3proxy.authorization=aws-v4\n"
            f"s3proxy.identity={self.access}\n"
            f"s3proxy.credential={self.secret}\n"
            "jclouds.provider=filesystem-nio2\n"
            f"jclouds.filesystem.basedir={folder / 'data'}\n"
        )
        java = str(java_executable(settings))
        with (folder / "s3proxy.log").open("wb") as log:
            self.process = subprocess.Popen(
                [java, "-Xmx256m", "-jar", str(jar), "--properties", str(properties)],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self.endpoint, timeout=2)
            except urllib.error.HTTPError:  # it answers, and refuses who has no key
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError((self.folder / "s3proxy.log").read_text())

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access,
            "AWS_SECRET_ACCESS_KEY": self.secret,
        }

    def bucket(self, prefix: str, copies: Path) -> Bucket:
        uri = f"s3://{BUCKET}/{prefix}"
        return Bucket(uri, storage_options(uri, self.environment()), copies)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(20)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
