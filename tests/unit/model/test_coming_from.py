"""The pages for people who know another system: their definitions hold, their links lead on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.model import Stream, Table
from penstock.model.catalog import Catalog

_PAGES = Path(__file__).parents[3] / "docs" / "coming-from"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_FENCED = re.compile(r"```.*?```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# What every page has to say, in this order.
_SECTIONS = [
    "What you know",
    "What it is here",
    "An example",
    "When the transformation changes",
    "What is missing here",
]

pages = pytest.mark.parametrize(
    "page", sorted(p for p in _PAGES.glob("*.md") if p.name != "README.md"), ids=lambda p: p.stem
)


def declared(page: Path) -> list[Stream | Table]:
    names: dict[str, Any] = {}
    for block in _BLOCK.findall(page.read_text()):
        exec(compile(block, str(page), "exec"), names)
    return [value for value in names.values() if isinstance(value, Stream | Table)]


def beside(jobs: Catalog, added: Iterable[Stream | Table]) -> Catalog:
    """The page's tables as if they had been typed into our own project."""
    return Catalog.build([*jobs.streams.values(), *jobs.tables.values(), *added])


def anchors(text: str) -> set[str]:
    """The names that headings get as places to link to."""
    headings = _HEADING.findall(_FENCED.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_a_page_declares_tables_that_fit_into_the_project(jobs, page):
    added = declared(page)
    assert any(isinstance(item, Table) for item in added)
    catalog = beside(jobs, added)
    assert catalog.broken == ()
    assert {item.name for item in added} <= {*catalog.streams, *catalog.tables}


@pages
def test_a_page_has_all_its_parts(page):
    assert re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE) == _SECTIONS


def test_the_index_names_every_page(project):
    named = {target for target, _ in _LINK.findall((_PAGES / "README.md").read_text())}
    assert {page.name for page in _PAGES.glob("*.md")} - {"README.md"} <= named
    assert "docs/coming-from/README.md" in (project / "README.md").read_text()


@pytest.mark.parametrize("page", sorted(_PAGES.glob("*.md")), ids=lambda p: p.stem)
def test_links_lead_somewhere(page):
    lost = []
    for target, anchor in _LINK.findall(page.read_text()):
        if target.startswith("http"):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.is_file() or (anchor and anchor not in anchors(file.read_text())):
            lost.append(f"{target}#{anchor}")
    assert lost == []


@pytest.mark.spark
def test_what_the_pages_declare_can_be_planned(spark, jobs):
    from penstock.runtime.declared.analysis import analyse

    added = [item for page in sorted(_PAGES.glob("*.md")) for item in declared(page)]
    whole = beside(jobs, added)
    needed, waiting = set(), [item.name for item in added if isinstance(item, Table)]
    while waiting:  # only what the pages read, however many tables the project has
        name = waiting.pop()
        if name in whole.tables and name not in needed:
            needed.add(name)
            waiting.extend(whole.tables[name].inputs.values())
    found = analyse(spark, Catalog(whole.streams, {name: whole.tables[name] for name in needed}))
    assert found.broken == []
    assert set(found.revisions) == needed
