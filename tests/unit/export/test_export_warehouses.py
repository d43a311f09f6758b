"""What docs/export.md says of loading an export into a warehouse, as far as it can run here."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from export_world import World

from penstock.cli import cli
from penstock.settings import Settings

_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.fixture
def blocks(project: Path) -> dict[str, list[str]]:
    text = (project / "docs/export.md").read_text()
    _, _, section = text.partition("### Into a warehouse")
    found: dict[str, list[str]] = {}
    for language, block in _BLOCK.findall(section.partition("\n## ")[0]):
        found.setdefault(language, []).append(block)
    return found


@pytest.fixture
def exported(settings, monkeypatch) -> Path:
    monkeypatch.setattr(Settings, "load", classmethod(lambda cls: settings))
    World(settings, seed=8)
    assert CliRunner().invoke(cli, ["export", "--to", "parquet"]).exit_code == 0
    monkeypatch.chdir(settings.home)
    return settings.home / "export" / "parquet" / "gold.sums" / "latest"


def _run(blocks: dict[str, list[str]]) -> dict:
    (script,) = blocks["python"]
    names: dict = {}
    exec(compile(script.replace("gold.sensor_5m", "gold.sums"), "docs/export.md", "exec"), names)
    return names


def test_a_whole_export_passes_and_makes_a_manifest_for_redshift(blocks, exported):
    uris = _run(blocks)["uris"]
    manifest = json.loads((exported / "manifest.json").read_text())
    assert uris == [f"s3://lake/gold.sums/{exported.resolve().name}/part-0.parquet"]
    (entry,) = json.loads(Path("redshift.manifest").read_text())["entries"]
    size = manifest["files"][0]["bytes"]
    assert entry == {"url": uris[0], "mandatory": True, "meta": {"content_length": size}}


@pytest.mark.parametrize("word", ["rows", "checksum"])
def test_rows_that_are_not_the_ones_told_are_noticed(blocks, exported, word):
    told = json.loads((exported / "manifest.json").read_text())
    told[word] = told[word] + 1 if word == "rows" else "1"
    (exported / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(AssertionError):
        _run(blocks)


def test_a_file_that_did_not_arrive_whole_is_noticed(blocks, exported):
    (exported / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(AssertionError, match=r"part-0\.parquet"):
        _run(blocks)


def test_the_specs_can_be_read(blocks):
    (druid,) = map(json.loads, blocks["json"])
    (pinot,) = map(yaml.safe_load, blocks["yaml"])
    assert druid["spec"]["ioConfig"]["inputFormat"] == {"type": "parquet"}
    assert pinot["recordReaderSpec"]["dataFormat"] == "parquet"
    assert len(blocks["sql"]) == 3
