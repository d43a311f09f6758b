"""`penstock export` as it is typed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from export_world import World

from penstock.cli import cli
from penstock.export import targets
from penstock.lineage.ledger import measure, usage
from penstock.lineage.revisions import Revisions
from penstock.runtime.staging import Hold, Staging
from penstock.settings import Settings


@pytest.fixture
def world(settings, monkeypatch):
    monkeypatch.setattr(Settings, "load", classmethod(lambda cls: settings))
    World(settings, "silver.events", seed=4)
    return World(settings)


def typed(*words: str):
    return CliRunner().invoke(cli, ["export", *words], catch_exceptions=False)


def told(*words: str) -> dict:
    result = typed(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_gold_goes_by_itself_and_others_by_name(world):
    (duckdb,) = told()["targets"]
    assert [t["table"] for t in duckdb["tables"]] == ["gold.sums"]
    assert duckdb["place"].endswith("export/duckdb/live.duckdb")
    both = told("silver.events", "gold.sums", "--to", "parquet", "--to", "duckdb")["targets"]
    assert [(r["target"], [t["mode"] for t in r["tables"]]) for r in both] == [
        ("parquet", ["full", "full"]), ("duckdb", ["full", "unchanged"])
    ]  # fmt: skip
    assert told("--full")["targets"][0]["tables"][0]["reason"] == "asked for"


def test_settings_say_what_goes(world, monkeypatch):
    from dataclasses import replace

    wider = replace(world.settings, export_tables=("silver.*", "gold.sums"))
    assert targets.selected(wider, []) == ["silver.events", "gold.sums"]


def test_status_says_how_far_behind(world):
    assert "Nothing is exported yet" in typed("--status").output
    told("--to", "duckdb", "--to", "clickhouse", "--to", "parquet")
    world.append()
    world.append()
    found = told("--status")["exports"]
    assert [(h["target"], h["table"], h["behind"]) for h in found] == [
        (target, "gold.sums", 2) for target in ("duckdb", "clickhouse", "parquet")
    ]
    assert len({h["checksum"] for h in found}) == 1, "the same rows, wherever they are"
    assert "gold.sums" in typed("--status", "--to", "duckdb").output


def test_a_table_held_by_its_quality_checks_is_not_exported(world, monkeypatch):
    holds = {"gold.sums": Hold("gold.sums", "37 rows without a key", "quality", "now")}
    monkeypatch.setattr(Staging, "holds", lambda self: holds)
    result = typed("--json")
    assert result.exit_code == 1
    (table,) = json.loads(result.stdout)["targets"][0]["tables"]
    assert (table["mode"], table["reason"]) == (
        "blocked", "held by quality: 37 rows without a key"
    )  # fmt: skip
    holds["gold.sums"] = Hold("gold.sums", "no keys; I look", "quality, somebody", "now")
    assert typed().exit_code == 1, "whoever joins a check's hold does not open the export"
    holds["gold.sums"] = Hold("gold.sums", "holidays", "somebody", "now")
    assert typed().exit_code == 0, "it stands still, and is exported as it stands"


def test_without_a_registry_it_says_so_and_goes_on(world):
    result = typed()
    assert result.exit_code == 0
    assert "holds are not known" in result.stderr
    assert "gold.sums" in result.stdout


def test_the_ledger_counts_exports(world):
    told("--to", "duckdb", "--to", "clickhouse", "--to", "parquet")
    found = {
        place.folder: place.usage.bytes for place in measure(world.settings, Revisions()).places
    }
    for target in ("duckdb", "clickhouse", "parquet"):
        assert found[f"export/{target}"] > 0


def test_a_file_with_two_names_is_counted_once(tmp_path):
    """Generations of the embedded ClickHouse share their files."""
    for folder in ("g1", "g2"):
        (tmp_path / folder).mkdir()
    (tmp_path / "g1" / "data.bin").write_bytes(b"x" * 10)
    (tmp_path / "g2" / "data.bin").hardlink_to(tmp_path / "g1" / "data.bin")
    (tmp_path / "g2" / "own").write_bytes(b"x" * 5)
    assert (usage(tmp_path).files, usage(tmp_path).bytes) == (2, 15)


def test_a_manifest_tells_a_warehouse_what_to_load(world):
    import hashlib

    told("--to", "parquet")
    before = world.bag()
    world.update()
    told("--to", "parquet")
    folder = world.settings.home / "export" / "parquet" / "gold.sums" / "latest"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert folder.resolve().name == f"{world.version:020d}"
    assert manifest["delta_version"] == world.version
    assert (
        manifest["rows"] == sum(f["rows"] for f in manifest["files"]) == sum(world.bag().values())
    )
    assert [c["name"] for c in manifest["columns"]] == world.writer.schema.names
    for file in (*manifest["files"], manifest["changes"]):
        data = (folder / file["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["bytes"], file["sha256"])
    changes = manifest["changes"]
    assert changes["since"] == world.version - 1
    assert changes["deleted"] == sum((before - world.bag()).values())
    assert changes["inserted"] == sum((world.bag() - before).values())
