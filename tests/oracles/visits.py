"""Searches, the clicks that follow them, and what is counted of both."""

from __future__ import annotations

import datetime as dt
from collections import Counter

from tests.oracles import Row, first_taken_in
from tests.oracles.web import as_of

__all__ = ["clicks_with_search", "page_stats", "query_top_results", "result_clicks"]
__all__ += ["silver_searches", "user_activity", "zip_stats"]

_VIEW = ("click_id", "user_id", "page", "clicked_at")


def silver_searches(rows: list[Row]) -> list[Row]:
    """Each search once, its query in one spelling."""
    return [
        {
            "search_id": row["search_id"],
            "user_id": row["user_id"],
            "query": " ".join(row["query"].lower().split()),
            "searched_at": row["searched_at"],
            "partition": row["_partition"],
            "offset": row["_offset"],
        }
        for row in first_taken_in(rows, ("search_id",), dt.timedelta(hours=1))
    ]


def clicks_with_search(
    clicks: list[Row], searches: list[Row], watermark: dt.datetime | None
) -> list[Row]:
    """Clicks that the watermark has passed, each with the newest search of its last second."""
    found = []
    for click in clicks:
        at = click["clicked_at"]
        if watermark is None or at >= watermark:
            continue
        near = [
            search
            for search in searches
            if click["user_id"] is not None
            and search["user_id"] == click["user_id"]
            and at - dt.timedelta(seconds=1) <= search["searched_at"] <= at
        ]
        near.sort(key=lambda search: (search["searched_at"], search["search_id"]))
        chosen = near[-1] if near else {}
        names = ("search_id", "query", "searched_at")
        found.append({**{c: click[c] for c in _VIEW}, **{name: chosen.get(name) for name in names}})
    return found


def user_activity(views: list[Row], users: list[Row]) -> list[Row]:
    found = []
    for view in views:
        user = as_of(view["user_id"], view["clicked_at"], users)
        found.append(
            {
                **{column: view[column] for column in (*_VIEW, "search_id", "query")},
                "known": bool(user),
                "user_name": user.get("name"),
                **{name: user.get(name) for name in ("country", "zip_code", "tier")},
            }
        )
    return found


def page_stats(clicks: list[Row]) -> list[Row]:
    every = Counter(click["page"] for click in clicks)
    known = Counter(click["page"] for click in clicks if click["user_id"] is not None)
    return [{"page": p, "clicks": n, "logged_in": known[p]} for p, n in every.items()]


def zip_stats(enriched: list[Row]) -> list[Row]:
    seen = Counter((c["country"] or "unknown", c["zip_code"] or "unknown") for c in enriched)
    return [{"country": c, "zip_code": z, "clicks": n} for (c, z), n in seen.items()]


def result_clicks(views: list[Row]) -> list[Row]:
    seen = Counter((v["query"], v["page"]) for v in views if v["query"] is not None)
    return [{"query": q, "page": p, "clicks": n} for (q, p), n in seen.items()]


def query_top_results(results: list[Row]) -> list[Row]:
    """More clicks first, then the alphabet."""
    found = []
    for query in {row["query"] for row in results}:
        rows = [row for row in results if row["query"] == query]
        best = sorted(rows, key=lambda row: (-row["clicks"], row["page"]))[0]
        found.append(
            {
                "query": query,
                "page": best["page"],
                "clicks": best["clicks"],
                "all_clicks": sum(row["clicks"] for row in rows),
            }
        )
    return found
