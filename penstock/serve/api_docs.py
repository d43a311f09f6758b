"""What the API says of itself: the shapes of its answers for OpenAPI, and a page for people."""

from __future__ import annotations

from html import escape
from typing import Any

from pydantic import BaseModel, Field

__all__ = ["DESCRIPTION", "Health", "Rows", "Table", "Tables", "answers", "page"]

DESCRIPTION = (
    "Rows of live tables by key and by range. Every answer is of exactly one version of one table. "
    "Times are ISO 8601 in UTC, decimals are strings, bytes are base64, NULL is null; in a key, "
    "NULL is \\N. More: docs/asking.md."
)


class Health(BaseModel):
    status: str
    version: str


class _Fresh(BaseModel):
    table: str
    version: int = Field(description="The version of the table that was read.")
    committed_at: str | None = Field(description="When that version was committed.")
    behind: int | None = Field(
        description="Commits of its input not taken in yet (of a topic: records); null: not known."
    )


class Range(BaseModel):
    on: str
    from_: str | None = Field(alias="from")
    to: str | None


class Rows(_Fresh):
    keys: list[str]
    range: Range | None = None
    rows: list[dict[str, Any]]
    next: str | None = Field(description="Send it as `cursor` for the next page; null: no more.")


class _Column(BaseModel):
    name: str
    type: str


class Table(_Fresh):
    kind: str | None
    owner: str | None
    doc: str | None
    keys: list[str] = Field(description="What a row is named by, in this order.")
    time: str | None = Field(description="What a range is of, if nothing else is said.")
    columns: list[_Column]
    files: int
    bytes: int


class _Listed(BaseModel):
    table: str
    layer: str
    kind: str | None
    keys: list[str]
    owner: str | None
    doc: str | None
    has_data: bool


class Tables(BaseModel):
    tables: list[_Listed]


class Refusal(BaseModel):
    error: str = Field(description="What is wrong.")
    remedy: str = Field(description="What to do.")


_REFUSALS = {
    400: "A key, a range, a column or a cursor makes no sense.",
    401: "No token, or another one.",
    404: "No such table, or nothing in it yet.",
    410: "The version is cleaned up: begin again without a cursor.",
    413: "The range touches too much: narrow it, or use `penstock query`.",
    503: "Not now; the remedy says why.",
}


def answers(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: what a route may answer with."""
    told: dict[int | str, dict[str, Any]] = {200: {"model": model}}
    if model is not Tables:
        told[304] = {"description": "The version you have is the newest."}
    for status, text in _REFUSALS.items():
        told[status] = {"model": Refusal, "description": text}
    return told


_STYLE = "body{font:15px sans-serif;max-width:50em;margin:2em auto}td{padding:.2em 1em .2em 0}"


def page(document: dict[str, Any]) -> str:
    """The OpenAPI document for people: plain HTML, nothing fetched from anywhere."""
    parts = [
        f"<title>{escape(document['info']['title'])}</title><style>{_STYLE}</style>",
        f"<h1>{escape(document['info']['title'])}</h1>",
        f"<p>{escape(document['info']['description'])}</p>",
        '<p>Machine-readable: <a href="openapi.json">openapi.json</a></p>',
    ]
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            parts.append(_operation(path, method, about))
    return f"<!doctype html><meta charset=utf-8>{''.join(parts)}"


def _operation(path: str, method: str, about: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(p['name'])}</code><td>{escape(p['in'])}"
        f"<td>{escape(p.get('description', ''))}"
        for p in about.get("parameters", [])
    ]
    codes = [
        f"<tr><td><code>{code}</code><td><td>{escape(told.get('description', ''))}"
        for code, told in about["responses"].items()
    ]
    return (
        f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
        f"<p>{escape(about.get('description', ''))}</p><table>{''.join([*rows, *codes])}</table>"
    )
