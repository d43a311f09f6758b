"""What is written is private, whole, and never rewritten without need."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from penstock.errors import EnvironmentProblem
from penstock.platform.files import render, write_private
from penstock.platform.postgres_admin import scram_verifier
from penstock.platform.secrets import ensure_secrets, secret_names
from penstock.platform.spec import PlatformSpec
from penstock.settings import Settings


def test_private_files_are_0600_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        file = write_private(tmp_path / "a" / "b", "text")
    finally:
        os.umask(old)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert [f.name for f in file.parent.iterdir()] == ["b"]


def test_a_file_that_says_the_same_is_left_alone(tmp_path: Path) -> None:
    file = write_private(tmp_path / "a", "text")
    before = file.stat().st_ino
    write_private(file, "text")
    assert file.stat().st_ino == before
    write_private(file, "other")
    assert file.read_text() == "other"


def test_a_file_that_became_readable_is_closed_again(tmp_path: Path) -> None:
    file = write_private(tmp_path / "a", "text")
    file.chmod(0o644)
    write_private(file, "text")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_placeholder_that_nothing_fills_is_named(settings: Settings) -> None:
    with pytest.raises(EnvironmentProblem, match=r"kafka/server.properties.*placeholder"):
        render(settings, "kafka/server.properties", {"broker_port": 1})
    with pytest.raises(EnvironmentProblem, match="is missing"):
        render(settings, "kafka/none", {})


def test_secrets_are_made_once_private_and_different(settings: Settings) -> None:
    spec = PlatformSpec.load(settings.project)
    made = ensure_secrets(settings, spec)
    assert sorted(made) == sorted(secret_names(spec))
    folder = settings.home / "secrets"
    values = {name: (folder / name).read_text() for name in made}
    assert len(set(values.values())) == len(values)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {f.stat().st_mode & 0o777 for f in folder.iterdir()} == {0o600}
    assert ensure_secrets(settings, spec) == []
    assert values == {name: (folder / name).read_text() for name in made}


def test_a_lost_secret_is_made_anew_and_an_empty_one_counts_as_lost(settings: Settings) -> None:
    spec = PlatformSpec.load(settings.project)
    ensure_secrets(settings, spec)
    (settings.home / "secrets" / "kafka-watch").unlink()
    (settings.home / "secrets" / "kafka-connect").write_text("")
    assert sorted(ensure_secrets(settings, spec)) == ["kafka-connect", "kafka-watch"]


def test_secrets_need_no_quoting_anywhere(settings: Settings) -> None:
    spec = PlatformSpec.load(settings.project)
    for name in ensure_secrets(settings, spec):
        assert re.fullmatch(r"[A-Za-z0-9_=-]{32,}", settings.secret(name)), name


def test_the_verifier_is_the_one_of_rfc_7677() -> None:
    """The example exchange of the RFC: user "user", password "pencil"."""
    import base64
    import hashlib
    import hmac

    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    verifier = scram_verifier("pencil", salt)
    stored, server = (base64.b64decode(part) for part in verifier.split("$")[2].split(":"))
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = hmac.digest(server, message, "sha256")
    assert base64.b64encode(signature) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client = bytes(
        a ^ b for a, b in zip(proof, hmac.digest(stored, message, "sha256"), strict=True)
    )
    assert hashlib.sha256(client).digest() == stored
