"""Every secret of a stack: generated at first start, one 0600 file each, never anywhere else.

Read a secret with ``settings.secret(name)``. Names: ``kafka-<user>``, ``postgres-<role>``,
``airflow-<what>``, ``connect-rest``, ``clickhouse-<user>``, ``api-bearer``. Values use letters,
digits, ``-`` and ``_`` only, so they fit JAAS lines, properties, URLs and SQL without quoting.
"""

from __future__ import annotations

import base64
import secrets as random
from collections.abc import Callable

import click

from penstock.platform.files import private_folder, write_private
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings

__all__ = ["ensure_secrets", "secret_names"]

POSTGRES_SUPERUSER = "postgres"
CLICKHOUSE_USER = "penstock"  # of the server in containers; the embedded one asks nobody


def _password() -> str:
    return random.token_urlsafe(24)


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(random.token_bytes(32)).decode()


def secret_names(spec: PlatformSpec) -> dict[str, Callable[[], str]]:
    """What each secret is called and how it is made."""
    passwords = [f"kafka-{user.name}" for user in spec.kafka_users]
    passwords += ["kafka-controller", "connect-rest", "api-bearer"]
    passwords += [f"postgres-{role.name}" for role in spec.roles]
    passwords += [f"postgres-{POSTGRES_SUPERUSER}"]
    passwords += [f"clickhouse-{CLICKHOUSE_USER}"]
    passwords += ["airflow-admin", "airflow-tasks", "airflow-jwt", "airflow-secret"]
    return dict.fromkeys(passwords, _password) | {"airflow-fernet": _fernet_key}


def ensure_secrets(settings: Settings, spec: PlatformSpec) -> list[str]:
    """Generate those that are missing; their names. Existing ones are never changed."""
    folder = private_folder(settings.secrets_folder)
    made = []
    for name, generate in secret_names(spec).items():
        file = folder / name
        if file.is_file() and file.stat().st_size:
            file.chmod(0o600)
            continue
        write_private(file, generate() + "\n")
        made.append(name)
    return made


@click.command()
def main() -> None:
    """Generate the secrets that are missing, and nothing else: compose reads them from the folder.

    Example: python -m penstock.platform.secrets
    """
    settings = Settings.load()
    made = ensure_secrets(settings, PlatformSpec.load(settings.project))
    click.echo(f"{len(made)} secrets made in {settings.secrets_folder}")


if __name__ == "__main__":
    main()
