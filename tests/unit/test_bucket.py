"""Where a stack's tables are, and how it gets at them: settings, keys, and what is not said."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.bucket import Bucket, storage_options
from penstock.errors import EnvironmentProblem
from penstock.location import Remote
from penstock.platform.stack import Stack
from penstock.settings import Settings

PROJECT = Path(__file__).resolve().parents[2]
KEYS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "hush-hush"}
URI = "s3://lake/tables"


def test_the_usual_variables_are_all_it_takes():
    found = storage_options(URI, {**KEYS, "AWS_REGION": "eu-central-1", "AWS_SESSION_TOKEN": "t"})
    assert found == {**KEYS, "AWS_REGION": "eu-central-1", "AWS_SESSION_TOKEN": "t"}


def test_without_keys_the_clients_look_for_themselves():
    assert set(storage_options(URI, {})) == {"AWS_REGION"}
    assert storage_options("gs://lake", KEYS) == {}


@pytest.mark.parametrize("near", ["http://127.0.0.1:9000", "http://localhost:1", "http://[::1]:1"])
def test_in_the_clear_only_on_this_machine(near: str):
    assert storage_options(URI, {**KEYS, "AWS_ENDPOINT_URL": near})["AWS_ALLOW_HTTP"] == "true"


@pytest.mark.parametrize("far", ["http://10.0.0.7:9000", "http://s3.example.com", "http://"])
def test_keys_are_not_sent_in_the_clear(far: str):
    with pytest.raises(EnvironmentProblem, match="not encrypted"):
        storage_options(URI, {**KEYS, "AWS_ENDPOINT_URL": far})
    assert "AWS_ALLOW_HTTP" not in storage_options(URI, {}, endpoint="https://s3.example.com")


def test_a_variable_wins_over_the_declared_endpoint():
    env = {"AWS_ENDPOINT_URL_S3": "https://one", "AWS_ENDPOINT_URL": "https://two"}
    assert storage_options(URI, env, endpoint="https://three")["AWS_ENDPOINT_URL"] == "https://one"
    assert storage_options(URI, {}, endpoint="https://t")["AWS_ENDPOINT_URL"] == "https://t"


def test_half_a_key_is_said(tmp_path: Path):
    with pytest.raises(EnvironmentProblem, match="only AWS_ACCESS_KEY_ID"):
        storage_options(URI, {"AWS_ACCESS_KEY_ID": "me"}, tmp_path)


def test_keys_may_lie_in_private_files(tmp_path: Path):
    for name, text in (("warehouse-access", "me\n"), ("warehouse-secret", "hush-hush\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    assert storage_options(URI, {}, tmp_path).items() >= KEYS.items()
    (tmp_path / "warehouse-secret").chmod(0o640)
    with pytest.raises(EnvironmentProblem, match="others may read"):
        storage_options(URI, {}, tmp_path)


def test_nothing_that_is_printed_holds_a_key(settings: Settings):
    bucket = Bucket(URI, KEYS)
    shown = replace(settings, bucket=bucket)
    for thing in (bucket, shown, Remote(bucket, "gold/t"), shown.warehouse / "gold"):
        assert "hush" not in f"{thing!r} {thing}"


def test_one_bucket_is_one_whatever_the_keys():
    assert Remote(Bucket(URI, KEYS), "a") == Remote(Bucket(URI), "a")
    assert hash(Remote(Bucket(URI, KEYS), "a")) == hash(Remote(Bucket(URI), "a"))


# --- settings -----------------------------------------------------------------------------------
@pytest.fixture
def project(tmp_path: Path, monkeypatch) -> Path:
    for name in [n for n in os.environ if n.startswith(("AWS_", "PENSTOCK_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "pyproject.toml").write_text("[tool.penstock]\n")
    (tmp_path / "infra").mkdir()
    shutil.copy(PROJECT / "infra" / "platform.toml", tmp_path / "infra")
    monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path))
    return tmp_path


def test_tables_are_below_home_unless_said_otherwise(project: Path, monkeypatch):
    assert Settings.load().warehouse == project / ".penstock" / "warehouse"
    monkeypatch.setenv("PENSTOCK_WAREHOUSE", f"{URI}/")
    assert str(Settings.load().warehouse / "gold") == f"{URI}/gold"
    assert Settings.load().environment()["PENSTOCK_WAREHOUSE"] == URI


def test_the_project_may_say_where(project: Path):
    text = f'[tool.penstock]\nwarehouse = "{URI}"\nwarehouse_endpoint = "https://there"\n'
    (project / "pyproject.toml").write_text(text)
    bucket = Settings.load().bucket
    assert bucket is not None
    assert bucket.uri == URI
    assert bucket.options["AWS_ENDPOINT_URL"] == "https://there"


@pytest.mark.parametrize("wrong", ["lake/tables", "ftp://lake", "s3://", "/mnt/lake"])
def test_what_is_no_bucket_is_refused(project: Path, monkeypatch, wrong: str):
    monkeypatch.setenv("PENSTOCK_WAREHOUSE", wrong)
    with pytest.raises(EnvironmentProblem, match="not the address of a bucket"):
        Settings.load()


def test_a_stack_stays_where_its_tables_are(project: Path, monkeypatch):
    """Later commands need no variable, and another one is refused: it would find no table."""
    monkeypatch.setenv("PENSTOCK_WAREHOUSE", URI)
    first = Settings.load()
    Stack(first).up(only=[])
    monkeypatch.delenv("PENSTOCK_WAREHOUSE")
    assert Settings.load().bucket == first.bucket
    Stack(Settings.load()).up(only=[])
    for other in ("s3://elsewhere", ""):
        monkeypatch.setenv("PENSTOCK_WAREHOUSE", other)
        with pytest.raises(EnvironmentProblem, match="the tables of this stack are in"):
            Stack(Settings.load()).up(only=[])
