"""The read API: the same answers, one version each, and refusals that say what to do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from fastapi.testclient import TestClient
from looked_up import UTC_US, KeyedTable, declare, on_disk

from penstock.serve import api_docs, limits
from penstock.serve.api import create_app
from penstock.serve.key_index import KeyIndex
from penstock.serve.lag import Lag
from penstock.serve.lookup import Reader
from penstock.settings import Settings
from tests.injections import CORPUS

TOKEN = "the-token"
START = dt.datetime(2026, 11, 1, 10, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [("sensor", pa.string()), ("window_start", UTC_US), ("mean", pa.decimal128(8, 3))]
)
ROWS = "/tables/gold.windows/rows"


class Beat:
    age_seconds, pid, state = 1.0, 1, "running"
    streams = [{"table": "gold.windows", "revision": "r1", "behind": 3}]  # noqa: RUF012


@pytest.fixture
def table(settings: Settings) -> KeyedTable:
    about = {"kind": "window", "revision": "r1", "doc": "Windows.", "owner": "plant"}
    made = KeyedTable(settings, "gold.windows", ["sensor", "window_start"], **about).create(SCHEMA)
    for minute in range(8):
        made.append(windows(minute))
    return made


def windows(minute: int, sensors: int = 3) -> pa.Table:
    at = START + dt.timedelta(minutes=minute)
    names = [f"s-{number}" for number in range(sensors)]
    means = pa.array([Decimal(number + minute) for number in range(sensors)], SCHEMA[2].type)
    return pa.Table.from_arrays(
        [pa.array(names), pa.array([at] * sensors, UTC_US), means], schema=SCHEMA
    )


@pytest.fixture
def nobody(settings: Settings) -> Iterator[TestClient]:
    """A client without the token."""
    lag = Lag(settings, lambda _: Beat())
    lag.behind("", "", wait_s=5)
    with Reader(settings, KeyIndex(1 << 20)) as reader:
        yield TestClient(create_app(reader, lag, TOKEN), base_url="http://127.0.0.1")


@pytest.fixture
def client(nobody: TestClient) -> TestClient:
    nobody.headers["Authorization"] = f"Bearer {TOKEN}"
    return nobody


# --- answers --------------------------------------------------------------------------------
def test_one_row(table: KeyedTable, client: TestClient) -> None:
    answer = client.get(ROWS, params={"key": ["s-1", "2026-11-01T10:04:00Z"]})
    assert answer.status_code == 200
    assert answer.json() == {
        "table": "gold.windows",
        "version": 8,
        "committed_at": "2026-01-01T00:00:08Z",
        "behind": 3,
        "keys": ["sensor", "window_start"],
        "rows": [{"sensor": "s-1", "window_start": "2026-11-01T10:04:00Z", "mean": "5.000"}],
        "next": None,
    }
    assert answer.headers["Penstock-Version"] == "8"


def test_no_row_is_an_answer_too(table: KeyedTable, client: TestClient) -> None:
    answer = client.get(ROWS, params={"key": ["s-9", "2026-11-01T10:04:00Z"]})
    assert (answer.status_code, answer.json()["rows"]) == (200, [])


def test_ranges_in_pages(table: KeyedTable, client: TestClient) -> None:
    asked: dict[str, Any] = {"key": "s-1", "from": "2026-11-01T10:02Z", "limit": 4, "order": "desc"}
    first = client.get(ROWS, params=asked).json()
    assert first["range"] == {"on": "window_start", "from": "2026-11-01T10:02Z", "to": None}
    table.append(windows(9))
    second = client.get(ROWS, params={**asked, "cursor": first["next"]}).json()
    seen = [row["mean"] for page in (first, second) for row in page["rows"]]
    assert seen == [f"{n}.000" for n in (8, 7, 6, 5, 4, 3)]
    assert (second["version"], second["next"]) == (first["version"], None)


def test_tables_and_what_one_is(table: KeyedTable, client: TestClient, settings: Settings) -> None:
    declare(settings, {"name": "gold.empty", "kind": "rows", "keys": ["k"]})
    listed = {t["table"]: t for t in client.get("/tables").json()["tables"]}
    assert (listed["gold.windows"]["has_data"], listed["gold.empty"]["has_data"]) == (True, False)
    about = client.get("/tables/gold.windows").json()
    assert about["columns"][2] == {"name": "mean", "type": "DECIMAL(8,3)"}
    assert (about["keys"], about["time"]) == (["sensor", "window_start"], "window_start")
    assert (about["files"], about["version"], about["behind"]) == (8, 8, 3)


def test_the_etag_holds_until_something_is_committed(table: KeyedTable, client: TestClient) -> None:
    asked = {"key": "s-1"}
    tag = client.get(ROWS, params=asked).headers["ETag"]
    again = client.get(ROWS, params=asked, headers={"If-None-Match": f'"x", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/tables/gold.windows", headers={"If-None-Match": tag}).status_code == 304
    table.append(windows(9))
    fresh = client.get(ROWS, params=asked, headers={"If-None-Match": tag})
    assert (fresh.status_code, len(fresh.json()["rows"])) == (200, 9)
    assert fresh.headers["ETag"] != tag


def test_older_versions_by_name(table: KeyedTable, client: TestClient) -> None:
    answer = client.get("/tables/gold.windows@version:2/rows", params={"key": "s-1"}).json()
    assert (answer["version"], len(answer["rows"]), answer["behind"]) == (2, 2, None)
    assert answer["table"] == "gold.windows@version:2"


# --- who may ask ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic dGhlLXRva2Vu", "the-token",
               "Bearer the-token2", "bearer THE-TOKEN"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/tables", "/tables/gold.windows", ROWS, "/tables/nope"])
def test_without_the_token_nothing_is_told(
    table: KeyedTable, nobody: TestClient, path: str, header: str | None
) -> None:
    answer = nobody.get(path, headers={"Authorization": header} if header is not None else {})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "api-bearer" in answer.json()["remedy"]
    assert "gold" not in answer.text


def test_a_page_of_somebody_else_cannot_ask_through_a_browser(client: TestClient) -> None:
    assert client.get("/tables", headers={"Host": "evil.example"}).status_code == 400
    answer = client.get("/tables", headers={"Origin": "http://evil.example"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(table: KeyedTable, client: TestClient, method: str) -> None:
    assert client.request(method, ROWS).status_code == 405


def test_health_and_docs_need_no_token_and_fetch_nothing(nobody: TestClient) -> None:
    assert nobody.get("/health").json()["status"] == "ok"
    page = nobody.get("/docs")
    assert "GET /tables/{name}/rows" in page.text
    assert "<script" not in page.text
    assert "http" not in page.text.replace("https://", "http://").replace("HTTP", "")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")


# --- refusals -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("path", "asked", "status", "said"),
    [
        ("gold.window", {"key": "a"}, 404, "Did you mean gold.windows?"),
        ("gold.empty", {"key": "a"}, 404, "no data yet"),
        ("gold.windows@candidat", {"key": "a"}, 400, "@candidate"),
        ("gold.windows@version:99", {"key": "a"}, 400, "newest version is 8"),
        ("gold.windows", {}, 400, "the keys sensor, window_start"),
        ("gold.windows", {"key": ["a", "b", "c"]}, 400, "3 values were given"),
        ("gold.windows", {"key": ["a", "b"]}, 400, "2026-11-01T10:00:00Z"),
        ("gold.windows", {"sensor": "s-1"}, 400, "Keys are given as key="),
        ("gold.windows", {"key": "a", "columns": "mean,nope"}, 400, "Its columns: sensor"),
        ("gold.windows", {"key": "a", "limit": "1001"}, 400, "1 to 1000 rows"),
        ("gold.windows", {"key": "a", "limit": "many"}, 400, "limit"),
        ("gold.windows", {"key": "a", "limit": "9" * 30}, 400, "limit"),
        ("gold.windows", {"key": "a", "order": "sideways"}, 400, "order"),
        ("gold.windows", {"key": "a", "cursor": "zzz"}, 400, "cursor"),
        ("gold.windows", {"from": "2026-11-02", "to": "2026-11-01"}, 400, "is empty"),
    ],
)
def test_mistakes(
    table: KeyedTable, client: TestClient, settings: Settings,
    path: str, asked: dict[str, Any], status: int, said: str,
) -> None:  # fmt: skip
    declare(settings, {"name": "gold.empty", "kind": "rows", "keys": ["k"]})
    answer = client.get(f"/tables/{path}/rows", params=asked)
    assert answer.status_code == status
    body = answer.json()
    assert set(body) == {"error", "remedy"}
    assert said in f"{body['error']} {body['remedy']}"
    assert body["remedy"]


def test_too_wide_and_gone(
    table: KeyedTable, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.get(ROWS, params={"key": "s-1", "limit": 3}).json()
    monkeypatch.setattr(limits, "_MOST_FILES", 3)
    wide = client.get(ROWS, params={"key": "s-1"})
    assert (wide.status_code, "narrower" in wide.json()["remedy"]) == (413, True)
    monkeypatch.undo()
    for path in on_disk(table.folder):
        (table.folder / path).unlink()
    gone = client.get(ROWS, params={"key": "s-1", "limit": 3, "cursor": first["next"]})
    assert (gone.status_code, "without a cursor" in gone.json()["remedy"]) == (410, True)
    assert client.get(ROWS, params={"key": "s-1"}).status_code == 503


def test_a_version_or_a_time_that_is_cleaned_up_is_gone(
    table: KeyedTable, client: TestClient
) -> None:
    DeltaTable(str(table.folder)).create_checkpoint()
    kept = DeltaTable(str(table.folder)).version()
    for commit in (table.folder / "_delta_log").glob("*.json"):
        if int(commit.stem) < kept:
            commit.unlink()
    for at in ("version:1", "2020-01-01T00:00Z"):
        answer = client.get(ROWS.replace("/rows", f"@{at}/rows"), params={"key": "s-1"})
        assert answer.status_code == 410, answer.text
        assert "cleaned up" in answer.json()["error"]


@pytest.mark.parametrize("kind", [
    pa.struct([("a", pa.int64())]), pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())
])  # fmt: skip
def test_a_range_of_what_no_cursor_could_name_is_refused_at_once(
    settings: Settings, client: TestClient, kind: pa.DataType
) -> None:
    schema = pa.schema([("sensor", pa.string()), ("parts", kind)])
    made = KeyedTable(settings, "gold.windows", ["sensor"]).create(schema)
    made.append(pa.table({"sensor": ["a", "b"], "parts": pa.nulls(2, kind)}, schema=schema))
    answer = client.get(ROWS, params={"on": "parts", "limit": 1})
    assert answer.status_code == 400, answer.text
    assert "nothing to look rows up by" in answer.json()["error"]


# --- strings of bad intent ------------------------------------------------------------------
def test_injections_are_values_and_nothing_else(table: KeyedTable, client: TestClient) -> None:
    before = on_disk(table.folder)
    for number, text in enumerate(text[:20_000] for text in CORPUS):  # no longer address is sent
        found = client.get(ROWS, params={"key": text})
        assert (found.status_code, found.json()["rows"]) == (200, []), text[:80]
        asked = ({"key": ["s-1", text]}, {"from": text}, {"key": "s-1", "on": text},
                 {"key": "s-1", "cursor": text},
                 {"key": "s-1", "columns": f"mean,{text}x"})  # fmt: skip
        refused = client.get(ROWS, params=asked[number % len(asked)])
        assert refused.status_code == 400, (number % len(asked), text[:80])
        assert len(refused.content) < 2000
        named = client.get(f"/tables/{quote(text, safe='')}/rows", params={"key": "s-1"})
        if text.strip() != "GOLD.STOCK_STATS":
            assert named.status_code in (400, 404, 307), text[:80]
    assert on_disk(table.folder) == before


def test_a_row_with_such_a_key_is_found_and_told_whole(
    settings: Settings, client: TestClient
) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    texts = [text for text in CORPUS if len(text) < 1000]
    made = KeyedTable(settings, "gold.texts", ["k"]).create(schema)
    made.append(pa.table({"k": texts, "n": list(range(len(texts)))}, schema))
    for number, text in enumerate(texts):
        found = client.get("/tables/gold.texts/rows", params={"key": text}).json()["rows"]
        assert found == [{"k": text, "n": number}]


# --- what it says of itself -----------------------------------------------------------------
def test_the_openapi_document_tells_what_is_answered(table: KeyedTable, client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert set(document["paths"]) == {"/health", "/tables", "/tables/{name}", "/tables/{name}/rows"}
    for path, methods in document["paths"].items():
        assert set(methods) == {"get"}
        told = methods["get"]
        assert told["description"], path
        assert "application/json" in told["responses"]["200"]["content"], path
        if path != "/health":
            assert told["security"] == [{"HTTPBearer": []}]
            assert {"400", "401", "404", "410", "413"} <= set(told["responses"])
    names = {p["name"] for p in document["paths"]["/tables/{name}/rows"]["get"]["parameters"]}
    assert names >= {"name", "key", "from", "to", "on", "columns", "limit", "order", "cursor"}
    api_docs.Rows.model_validate(client.get(ROWS, params={"key": "s-1", "to": "2026-12-01"}).json())
    api_docs.Table.model_validate(client.get("/tables/gold.windows").json())
    api_docs.Tables.model_validate(client.get("/tables").json())
    api_docs.Refusal.model_validate(client.get("/tables/nope").json())
