"""A shoe shop that never sells what it does not have, nor takes back what it did not sell."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from spark_jobs.demo.event import Clock, Event, Flaws

__all__ = ["FLAWS", "shop"]

# model -> price of a pair; the shop pays half of it
_PRICES = {
    "runner": Decimal("89.90"),
    "boot": Decimal("149.00"),
    "sandal": Decimal("39.95"),
    "loafer": Decimal("119.50"),
}
SHOES = [(model, size) for model in _PRICES for size in ("39", "40.5", "42", "43.5", "45")]
_REASONS = ("too_small", "too_large", "damaged", "wrong_colour", "changed_mind")
_WANTED = 3  # pairs of a shoe below which more are ordered
_MEMORY = 200  # sales that may still come back
_CLUB = 120  # pairs that a club orders and takes at once: a sale that somebody hears of
FLAWS = {
    "shipments": Flaws(spoilt=({"quantity": 0}, {"unit_cost": Decimal("-1.00")})),
    "sales": Flaws(spoilt=({"quantity": -3}, {"size": "XXL"})),
    "returns": Flaws(spoilt=({"reason": "none of your business"}, {"quantity": 0})),
}


@dataclass
class _Books:
    """What is on the shelves, and which sales could still be returned."""

    run: str
    stock: dict[tuple[str, str], int] = field(default_factory=lambda: dict.fromkeys(SHOES, 0))
    sold: list[tuple[str, str, str, int]] = field(default_factory=list)
    number: int = 0

    def name(self, kind: str) -> str:
        """Names hold the moment the run began: the shop of tomorrow's run is another one."""
        self.number += 1
        return f"{kind}-{self.run}-{self.number}"


def shop(dice: random.Random, clock: Clock) -> Iterator[Event]:
    """Deliveries, sales and returns, in an order that could have happened."""
    books = _Books(run=f"{int(clock().timestamp()):x}")
    while True:
        low = [shoe for shoe, pairs in books.stock.items() if pairs < _WANTED]
        on_shelf = [shoe for shoe, pairs in books.stock.items() if pairs > 0]
        if not on_shelf or (low and dice.random() < 0.15):
            name, row = _delivered(dice, books, dice.choice(low))
        elif books.sold and dice.random() < 0.12:
            name, row = _returned(dice, books)
        else:
            name, row = _sold(dice, books, dice.choice(on_shelf))
        yield Event(name, f"{row['model']}/{row['size']}", clock(), row)


_Booked = tuple[str, dict[str, object]]


def _delivered(dice: random.Random, books: _Books, shoe: tuple[str, str]) -> _Booked:
    pairs = _CLUB if dice.random() < 0.02 else dice.choice((12, 24))
    books.stock[shoe] += pairs
    cost = (_PRICES[shoe[0]] / 2).quantize(Decimal("0.01"))
    return "shipments", {
        "shipment_id": books.name("shp"),
        "model": shoe[0],
        "size": shoe[1],
        "quantity": pairs,
        "unit_cost": cost,
    }


def _sold(dice: random.Random, books: _Books, shoe: tuple[str, str]) -> _Booked:
    pairs = min(books.stock[shoe], dice.choices((1, 2, 3), weights=(90, 8, 2))[0])
    if books.stock[shoe] >= _CLUB:
        pairs = _CLUB
    books.stock[shoe] -= pairs
    name = books.name("sal")
    books.sold = [*books.sold[1 - _MEMORY :], (name, *shoe, pairs)]
    return "sales", {
        "sale_id": name,
        "model": shoe[0],
        "size": shoe[1],
        "quantity": pairs,
        "unit_price": _PRICES[shoe[0]],
    }


def _returned(dice: random.Random, books: _Books) -> _Booked:
    sale, model, size, pairs = books.sold.pop(dice.randrange(len(books.sold)))
    back = dice.randint(1, pairs)
    books.stock[model, size] += back
    return "returns", {
        "return_id": books.name("ret"),
        "sale_id": sale,
        "model": model,
        "size": size,
        "quantity": back,
        "unit_price": _PRICES[model],
        "reason": dice.choice(_REASONS),
    }
