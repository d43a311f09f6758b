"""The web shop's visitors: they search, open a result a moment later, and wander about.

By the five users of the demo shop, by strangers, and by nobody. Few words are looked for most of
the time, and of what is found the first results are opened most.
"""

from __future__ import annotations

import datetime as dt
import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "clicks"]

USERS = (1, 2, 3, 4, 5)  # infra/postgres/shop.sql
_BUSY = (35, 25, 20, 12, 8)  # how much of the traffic each of them is
STRANGERS = (901, 902, 903)  # logged in somewhere, but not in the shop's table
_PAGES = ("/", "/shoes/runner", "/shoes/boot", "/shoes/sandal", "/cart", "/checkout")
# What is looked for, the most common first, and what is found.
_FOUND = {
    "running shoes": ("/shoes/runner", "/guides/running", "/shoes/trail"),
    "winter boots": ("/shoes/boot", "/shoes/hiking", "/guides/winter"),
    "sandals": ("/shoes/sandal", "/sale/summer"),
    "sale": ("/sale/summer", "/sale/last-pairs", "/shoes/loafer"),
    "loafer": ("/shoes/loafer",),
    "size guide": ("/guides/sizes", "/help/returns"),
    "trail runner": ("/shoes/trail", "/shoes/runner"),
    "return policy": ("/help/returns",),
}
_QUERIES = tuple(_FOUND)
_LOOKED_FOR = tuple(1 / (rank + 1) for rank in range(len(_QUERIES)))
_SEARCHES = 0.3  # of what visitors begin, how much is a search
_OPENS = 0.9  # how many searches are followed by a click on a result
FLAWS = {
    "clicks": Flaws(time="clicked_at", spoilt=({"page": "javascript:alert(1)"}, {"user_id": 0})),
    "searches": Flaws(time="searched_at", spoilt=({"query": ""}, {"user_id": 0})),
}


@dataclass
class _Visits:
    """Clicks that are still to come: a result is opened some time after its search."""

    run: str
    number: int = 0
    waiting: list[tuple[dt.datetime, int, int | None, str]] = field(default_factory=list)

    def name(self, kind: str) -> str:
        """A name holds the moment its run began."""
        self.number += 1
        return f"{kind}-{self.run}-{self.number}"

    def click(self, user: int | None, page: str, at: dt.datetime) -> Event:
        row = {"click_id": self.name("c"), "user_id": user, "page": page, "clicked_at": at}
        return Event("clicks", str(user or self.run), at, row)


def clicks(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Searches and page views."""
    visits = _Visits(run=f"{int(clock().timestamp()):x}")
    while True:
        now = clock()
        if visits.waiting and visits.waiting[0][0] <= now:
            at, _, user, page = heapq.heappop(visits.waiting)
            yield visits.click(user, page, at)
            continue
        known = dice.choices(USERS, _BUSY)[0]
        user = dice.choices((known, dice.choice(STRANGERS), None), (80, 8, 12))[0]
        if dice.random() < _SEARCHES:
            yield _searched(dice, visits, user, now)
        else:
            yield visits.click(user, dice.choice(_PAGES), now)


def _searched(dice: random.Random, visits: _Visits, user: int | None, now: dt.datetime) -> Event:
    query = dice.choices(_QUERIES, _LOOKED_FOR)[0]
    found = _FOUND[query]
    if dice.random() < _OPENS:
        page = dice.choices(found, [2.0**-place for place in range(len(found))])[0]
        at = now + dt.timedelta(seconds=dice.lognormvariate(-0.7, 0.6))  # half a second, or more
        heapq.heappush(visits.waiting, (at, visits.number, user, page))
    typed = dice.choice((query, query, query.title(), f" {query}", query.replace(" ", "  ")))
    name = visits.name("q")
    row = {"search_id": name, "user_id": user, "query": typed, "searched_at": now}
    return Event("searches", str(user or visits.run), now, row)
