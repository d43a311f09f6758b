"""What can be declared to be published, and what is said of what cannot."""

from __future__ import annotations

import json
import re

import pytest

from penstock.errors import DefinitionError, EnvironmentProblem, UsageError
from penstock.model import Avro, Json, Publication, Xml, changelog, events, notification
from penstock.model.catalog import Catalog
from penstock.publish.addresses import checked_address
from penstock.publish.declared import declared
from penstock.settings import NotifySettings


def test_the_topic_is_named_by_the_table():
    made = changelog("gold.inventory")
    assert made.topic == "out.gold.inventory"
    assert isinstance(made.format, Avro)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: changelog("gold.x", topic="trades"), "begin with 'out.'"),
        (lambda: changelog("gold.x", topic="out.a/b"), "begin with 'out.'"),
        (lambda: changelog("bronze.x"), "only silver and gold"),
        (lambda: changelog("gold.x", format=Xml()), "Avro\\(\\) or Json\\(\\)"),
        (lambda: changelog("gold.x", partitions=0), "partitions is"),
        (lambda: events("gold.x", retention="long"), "retention"),
        (lambda: changelog("x"), "not a table name"),
        (
            lambda: notification("gold.x", name="a b", to="who", subject="", text=""),
            "not a small word",
        ),
        (
            lambda: notification("gold.x", name="a", to="who", subject="{a.b}", text=""),
            "not a column's name",
        ),
        (
            lambda: notification("gold.x", name="a", to="who", subject="{a", text=""),
            "expected '}'",
        ),
        (
            lambda: notification("gold.x", name="a", to="who", subject="", text="", every="often"),
            "length of time",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(declare, said):
    with pytest.raises(DefinitionError, match=said) as raised:
        declare()
    assert "test_declaring.py:" in raised.value.message


def test_problems_that_need_the_table():
    told = notification("gold.x", name="a", to="who", subject="{size}", text="{who}")
    assert told.problems(("k",), ["k", "who", "size"]) == []
    assert len(told.problems((), ["k"])) == 4
    assert changelog("gold.x").problems((), ["k"]) != []
    assert events("gold.x").problems((), ["k"]) == []


def test_two_publications_to_one_topic_are_one_too_many():
    first = changelog("gold.a", topic="out.same")
    second = events("gold.b", topic="out.same")
    catalog = Catalog.build([first, second])
    assert catalog.published == (first,)
    assert "published to at" in catalog.broken[0].reason


def test_a_module_may_hold_a_list_of_them(tmp_path):
    from penstock.runtime.code.bundle import Bundle

    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "__init__.py").touch()
    (jobs / "out.py").write_text(
        "from penstock.model import changelog, events\n"
        "ONE = changelog('gold.a')\n"
        "PUBLISHED = [events('gold.b'), events('gold.c')]\n"
    )
    found = Bundle(tmp_path, "jobs").catalog()
    assert [p.topic for p in found.published] == ["out.gold.a", "out.gold.b", "out.gold.c"]


def test_the_manifest_is_what_the_publisher_reads(settings):
    assert declared(settings) == []
    settings.home.mkdir(parents=True)
    told = [events("gold.a", format=Json(), corrections=False).describe()]
    tables = [{"name": "gold.a", "keys": ["k"]}]
    settings.manifest.write_text(json.dumps({"tables": tables, "published": told}))
    (found,) = declared(settings)
    assert (found.kind, found.topic, found.format) == ("events", "out.gold.a", "json")
    assert found.keys == ("k",)
    assert not found.corrections
    assert found.retention_ms == 7 * 86_400_000
    settings.manifest.write_text("{")
    with pytest.raises(EnvironmentProblem, match="cannot be read"):
        declared(settings)


@pytest.mark.parametrize(
    "text", ["file", "smtp:a.b@example.com", "webhook:http://127.0.0.1:1/x", "webhook:https://a.b"]
)
def test_addresses(text):
    assert checked_address(text) == text


@pytest.mark.parametrize(
    "text", ["", "alice", "smtp:alice", "smtp:a@b\nBcc: c@d", "webhook:file:///etc/passwd",
             "file:/etc/passwd", "webhook:ftp://a.b", "webhook:http://[::1", "webhook:http://a:b/",
             "webhook:http://a:99999/", "webhook:http://a..b/", "webhook:http://xn--.com/",
             "webhook:http://a b/", "webhook:https://"]
)  # fmt: skip
def test_what_is_no_address(text):
    with pytest.raises(UsageError):
        checked_address(text)


SECRET = "T0K3N-of-the-hook"


@pytest.mark.parametrize(
    "text", [f"https://example.com/{SECRET}", f"Webhook:https://example.com/{SECRET}",
             f"webhook:{SECRET}", f"webhook:https//{SECRET}", f"webhook:http://a:{SECRET}/",
             SECRET, f"https://u:{SECRET}@example.com", f"example.com/{SECRET}@x"]
)  # fmt: skip
def test_what_may_be_a_secret_is_not_repeated(text):
    with pytest.raises(UsageError) as refused:
        checked_address(text)
    assert SECRET.lower() not in str(refused.value).lower()


def test_a_mailbox_is_repeated():
    with pytest.raises(UsageError, match=r"'alice@example\.com' is no address"):
        checked_address("alice@example.com")


def test_the_page_declares_what_can_be_declared(project):
    text = (project / "docs" / "publishing.md").read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "docs/publishing.md", "exec"), names)
    catalog = Catalog.build(v for v in names.values() if isinstance(v, Publication))
    assert {item.word for item in catalog.published} == {"changelog", "events", "notification"}
    for word in NotifySettings.__dataclass_fields__:
        assert f"\n{word} = " in text
