"""Spark's own way to an object store: Hadoop's S3 client, for sessions that read tables by name.

**Purpose.** Streams, backfills and queries read copies of data files (``penstock/bucket.py``). The
marts are SQL over tables in a metastore: there Spark opens the tables itself.

**How it works.** The jars are fetched when they are first needed: hadoop-aws of Spark's own Hadoop
and the few modules of Amazon's SDK it calls, 14 MB instead of the usual bundle of 600. Address and
keys are in a file of a private folder on the class path, as the metastore's are: Spark's own
settings end up on a command line. An address is written as everywhere else, ``s3://``.

**What it does not do.** Write shared tables: Spark's Delta writer is for tables one process writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from penstock.errors import EnvironmentProblem
from penstock.platform.files import private_folder, write_private
from penstock.platform.jars import fetch_optional

if TYPE_CHECKING:
    from penstock.bucket import Bucket
    from penstock.settings import Settings

__all__ = ["class_path"]

_FILE_SYSTEM = "org.apache.hadoop.fs.s3a.S3AFileSystem"


def class_path(settings: Settings) -> list[str]:
    """What a session needs on its class path to read the warehouse; nothing for one on disk.

    Raises:
        EnvironmentProblem: the warehouse is in a store that Spark cannot be taught to read here.
    """
    if settings.bucket is None:
        return []
    if urlsplit(settings.bucket.uri).scheme != "s3":
        raise EnvironmentProblem(
            f"Spark reads tables on a disk or in S3; those of this stack are in "
            f"{settings.bucket.uri}.",
            remedy="See docs/object-store.md, what is not there.",
        )
    jars = sorted(fetch_optional(settings, "s3a").glob("*.jar"))
    return [str(_configured(settings.bucket, settings.home)), *map(str, jars)]


def _configured(bucket: Bucket, home: Path) -> Path:
    body = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in sorted(_properties(bucket).items())
    )
    folder = private_folder(home / "etc" / "object-store")
    write_private(folder / "core-site.xml", f"<configuration>\n{body}</configuration>\n")
    return folder


def _properties(bucket: Bucket) -> dict[str, str]:
    options = bucket.options
    found = {"fs.s3.impl": _FILE_SYSTEM, "fs.s3a.endpoint.region": options["AWS_REGION"]}
    named = {
        "fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
        "fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
        "fs.s3a.session.token": "AWS_SESSION_TOKEN",
        "fs.s3a.endpoint": "AWS_ENDPOINT_URL",
    }
    found |= {name: options[option] for name, option in named.items() if option in options}
    if "AWS_ENDPOINT_URL" in options:
        found["fs.s3a.path.style.access"] = "true"
    return found
