"""Which schemas a contract may have, and which may follow which; and what the registry is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.errors import DefinitionError, ServiceFailed
from penstock.model import Contract, Json
from penstock.model.contract_changes import breaking_changes
from penstock.runtime.decode.schemas import SchemaRegistry
from penstock.runtime.ingest.subjects import ensure_subjects
from tests.unit.contracts.conftest import DECIMAL, LOCAL, MICROS, declared, record


def enum(*symbols: str, **more) -> dict:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


# --- sound schemas ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (record(("x", ["int", "string"])), "'x' is a union of several types"),
        (record(("x", "null")), "'x' can only be null"),
        (record(("x", "integer")), "'x' is of the unknown type 'integer'"),
        (record(("x", {**DECIMAL, "precision": 50})), "a precision is 1 to 38"),
        (record(("x", {"type": "int", "logicalType": "time-millis"})), "is a time of day"),
        (record(("x", "int"), ("x", "int")), "'x' is declared twice"),
        (record(("x", ["null", "int"], 3)), "put that type first"),
        (record(("x", "int", "three")), "the default of field 'x' does not fit"),
        (record(("x", "int", None)), "the default of field 'x' is null"),
        (record(("x", enum())), "an enum without symbols"),
        (record(("x", {"type": "array", "items": "tests.Row"})), "'x[]' contains itself"),
        (record(("Upper", "int")), "'Upper' of x is not a valid name"),
    ],
)
def test_unsound_schemas_name_the_field(schema, said):
    assert any(said in problem for problem in Contract("x", schema).problems())


def test_named_types_may_be_used_again():
    inner = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
    assert Contract("x", record(("a", inner), ("b", "Point"))).problems() == []


# --- changes ------------------------------------------------------------------------------------
BASE = record(("a", "int"), ("b", "string", ""), ("c", DECIMAL))


@pytest.mark.parametrize(
    "new",
    [
        BASE,
        record(("a", "int"), ("b", "string", ""), ("c", DECIMAL), ("d", "long", 0)),
        record(("a", "int"), ("c", DECIMAL)),
        record(("c", DECIMAL), ("a", "int", 5), ("b", "string", "x")),
        record(("a", "int"), ("c", DECIMAL), ("d", ["null", "string"], None)),
    ],
)
def test_changes_that_old_and_new_code_can_read(new):
    assert breaking_changes(BASE, new) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (record(("a", "int")), record(("a", "int"), ("d", "int")), "'d' is new and has no default"),
        (record(("a", "int"), ("b", "int")), record(("a", "int")), "'b' is gone but had no"),
        (record(("a", "int")), record(("a", "long")), "cannot read long as int"),
        (record(("a", "long")), record(("a", "int")), "Avro cannot read one as the other"),
        (record(("a", "string")), record(("a", "bytes")), "what it means would change"),
        (record(("a", "long")), record(("a", MICROS)), "was long and is timestamp"),
        (record(("a", MICROS)), record(("a", LOCAL)), "is local timestamp"),
        (record(("a", "int")), record(("a", ["null", "int"])), "'a' may be null now"),
        (record(("a", ["null", "int"])), record(("a", "int")), "may no longer be null"),
        (record(("a", DECIMAL)), record(("a", {**DECIMAL, "scale": 2})), "decimal(12,2)"),
        (record(("a", DECIMAL)), record(("a", {**DECIMAL, "precision": 20})), "decimal(20,4)"),
        (record(("a", enum("x", "y"))), record(("a", enum("x"))), "enum 'a' lost y"),
        (record(("a", enum("x"))), record(("a", enum("x", "y"))), "enum 'a' gained y"),
        (
            record(("a", {"type": "array", "items": "int"})),
            record(("a", {"type": "array", "items": "string"})),
            "field 'a[]' was int",
        ),
        (record(("a", "int")), {"type": "string"}, "not an Avro record"),
    ],
)
def test_breaking_changes_name_the_field_and_what_to_do(old, new, said):
    assert any(said in problem for problem in breaking_changes(old, new))


def test_a_rename_needs_an_alias_and_a_default():
    old, plain = record(("a", "int", 0)), record(("b", "int", 0))
    aliased = json.loads(json.dumps(plain))
    aliased["fields"][0]["aliases"] = ["a"]
    assert breaking_changes(old, aliased) == []
    hard = breaking_changes(record(("a", "int")), aliased)
    assert any("code from before looks for 'a'" in problem for problem in hard)


def test_an_enum_with_a_default_symbol_may_grow_and_shrink():
    old = record(("a", enum("x", "y", "other", default="other")))
    new = record(("a", enum("x", "z", "other", default="other")))
    assert breaking_changes(old, new) == []


# --- the registry -------------------------------------------------------------------------------
class Fake:
    """As much of a registry as the calls need; every answer can be overridden by path."""

    def __init__(self) -> None:
        self.schemas: dict[str, list[str]] = {}
        self.levels: dict[str, str] = {}
        self.calls: list[tuple[str, str]] = []
        self.forced: dict[str, tuple[int, bytes]] = {}

    def answer(self, method: str, path: str, body: dict) -> tuple[int, bytes]:
        self.calls.append((method, path))
        if path in self.forced:
            return self.forced[path]
        parts = path.strip("/").split("/")
        if parts[0] == "config":
            if method == "PUT":
                self.levels[parts[1]] = body["compatibility"]
            if parts[1] not in self.levels:
                return 404, b'{"error_code": 40408}'
            return 200, json.dumps({"compatibilityLevel": self.levels[parts[1]]}).encode()
        known = self.schemas.get(parts[1], [])
        if method == "POST":
            if body["schema"] not in known:
                known = [*known, body["schema"]]
            self.schemas[parts[1]] = known
            return 200, json.dumps({"id": known.index(body["schema"]) + 1}).encode()
        if not known:
            return 404, b'{"error_code": 40401}'
        if len(parts) == 4:
            return 200, json.dumps({"schema": known[int(parts[3]) - 1]}).encode()
        return 200, json.dumps([*range(1, len(known) + 1)]).encode()


@pytest.fixture
def fake() -> Iterator[tuple[Fake, SchemaRegistry]]:
    state = Fake()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(size)) if size else {}
            status, text = state.answer(self.command, self.path, body)
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = _serve

        def log_message(self, *args) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield state, SchemaRegistry(f"http://127.0.0.1:{server.server_port}", timeout=2)
    server.shutdown()
    server.server_close()


def test_subjects_are_held_to_full_transitive_and_registered_once(fake):
    state, registry = fake
    streams = [declared(BASE), declared(BASE, Json())]
    assert ensure_subjects(registry, streams) == {"x-value": 1}
    assert ensure_subjects(registry, streams) == {"x-value": 1}
    assert state.levels == {"x-value": "FULL_TRANSITIVE"}
    assert len(state.schemas["x-value"]) == 1
    assert len([call for call in state.calls if call[0] == "PUT"]) == 1


def test_a_breaking_schema_never_reaches_the_registry(fake):
    state, registry = fake
    ensure_subjects(registry, [declared(BASE)])
    ensure_subjects(registry, [declared(record(*_parts(BASE), ("d", "int", 0)))])
    state.calls.clear()
    bad = declared(record(("a", "int"), ("b", "string", ""), ("c", DECIMAL), ("d", "string", "")))
    with pytest.raises(DefinitionError) as caught:
        ensure_subjects(registry, [bad])
    assert "field 'd' was int and is string" in str(caught.value)
    assert "version 2 of x-value" in str(caught.value)
    assert {method for method, _ in state.calls} == {"GET"}


def _parts(schema: dict) -> list[tuple]:
    return [
        (f["name"], f["type"], *([f["default"]] if "default" in f else []))
        for f in schema["fields"]
    ]


@pytest.mark.parametrize("status", [409, 422])
def test_the_registrys_own_refusal_is_the_same_error(fake, status):
    state, registry = fake
    state.forced["/subjects/x-value/versions"] = (status, b'{"message": "incompatible"}')
    with pytest.raises(DefinitionError, match="incompatible"):
        registry.register("x-value", json.dumps(BASE))


def test_only_the_registry_itself_can_deny(fake):
    state, registry = fake
    state.forced["/schemas/ids/9"] = (404, b'{"error_code": 40403}')
    assert registry.writer(9) is None
    for answer in [(404, b"<html>gateway</html>"), (404, b"[]"), (503, b"busy"), (500, b"{}")]:
        state.forced["/schemas/ids/10"] = answer
        with pytest.raises(ServiceFailed):
            registry.writer(10)
        state.forced["/subjects/x-value/versions"] = answer
        with pytest.raises(ServiceFailed):
            ensure_subjects(registry, [declared(BASE)])
    state.forced["/schemas/ids/10"] = (200, json.dumps({"schema": '"string"'}).encode())
    assert registry.writer(10) == '"string"'


def test_a_registry_that_is_gone_denies_nothing():
    registry = SchemaRegistry("http://127.0.0.1:9", timeout=0.5)
    with pytest.raises(ServiceFailed, match="does not answer"):
        registry.writer(1)
    with pytest.raises(ServiceFailed, match="does not answer"):
        ensure_subjects(registry, [declared(BASE)])
