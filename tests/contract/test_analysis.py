"""What a bundle's tables come to is worked out once, and never taken from elsewhere."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from penstock.runtime.code.bundle import store_bundle, tree_address
from penstock.runtime.declared import analysis
from penstock.runtime.declared.analysis import analysed_bundle
from tests.contract.test_fingerprint import HEAD, PLAIN

pytestmark = pytest.mark.spark

BROKEN = """
@table("silver.broken", inputs={"s": S}, kind=Rows())
def broken(s):
    return s.select("no_such_column")
"""


class Lab:
    """A project, and how often its tables were planned."""

    def __init__(self, spark, settings, monkeypatch) -> None:
        self.spark, self.settings, self.planned = spark, settings, 0
        real = analysis.analyse

        def counting(*given):
            self.planned += 1
            return real(*given)

        monkeypatch.setattr(analysis, "analyse", counting)

    def write(self, body: str) -> str:
        jobs = self.settings.project / "jobs"
        jobs.mkdir(parents=True, exist_ok=True)
        (jobs / "__init__.py").write_text("")
        (jobs / "t.py").write_text(HEAD + body)
        address = store_bundle(self.settings.project, "jobs", self.settings.bundles)
        assert tree_address(self.settings.project, "jobs") == address
        return address

    def found(self, address: str):
        return analysed_bundle(self.spark, self.settings, address)

    def remembered(self, address: str) -> Path:
        (file,) = (self.settings.bundles / address).glob(".analysed-*")
        return file


@pytest.fixture
def lab(spark, base_settings, tmp_path, monkeypatch) -> Lab:
    settings = replace(
        base_settings, project=tmp_path / "project", home=tmp_path / "home", jobs="jobs"
    )
    return Lab(spark, settings, monkeypatch)


def test_the_same_code_is_planned_once(lab):
    address = lab.write(PLAIN + BROKEN)
    first, again = lab.found(address), lab.found(address)
    assert lab.planned == 1
    assert again.revisions == first.revisions
    assert again.schemas == first.schemas
    assert again.broken == first.broken
    assert len(again.broken) == 1


def test_other_code_is_planned_itself(lab):
    first = lab.found(lab.write(PLAIN))
    other = lab.found(lab.write(PLAIN.replace("> 10", "> 11")))
    assert lab.planned == 2
    assert other.revisions != first.revisions


def test_another_engine_works_it_out_itself(lab, monkeypatch):
    address = lab.write(PLAIN)
    lab.found(address)
    monkeypatch.setattr(analysis, "_engine", lambda: "another")
    lab.found(address)
    assert lab.planned == 2


def test_the_engine_is_every_module_of_it(tmp_path, monkeypatch):
    copy = shutil.copytree(Path(penstock.__file__).parent, tmp_path / "penstock")
    monkeypatch.setattr(penstock, "__file__", str(copy / "__init__.py"))
    before = analysis._engine.__wrapped__()
    (copy / "model" / "kinds.py").write_text("# means something else\n")
    assert analysis._engine.__wrapped__() != before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"tables": {"silver.t": {}}}'])
def test_what_is_not_whole_is_worked_out_again(lab, damage):
    address = lab.write(PLAIN)
    first = lab.found(address)
    lab.remembered(address).write_text(damage)
    assert lab.found(address).revisions == first.revisions
    assert lab.planned == 2
