"""An agent with a typed state that buys what a camping trip needs, and goes wrong on one price.

    python shopping_agent.py

It looks up four prices and then buys what it can pay for, a checkpoint after each step. One shop answers without the
decimal point, so that the tent seems too dear. `time_travel.sh` shows how to find that, mend it and go on from there,
with this same program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

import holdfast

SHOPS = {"stove": "49.90", "lamp": "19.00", "tent": "18900", "rope": "12.50"}


@holdfast.register
@dataclass
class Trip:
    """What the agent knows, and has done."""

    budget: Decimal = Decimal("300.00")
    prices: dict[str, Decimal] = field(default_factory=dict)
    looked_up: datetime | None = None
    bought: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def step(trip: Trip) -> str | None:
    """Do the next thing and say what it was; None where nothing is left."""
    for item, answer in SHOPS.items():
        if item not in trip.prices:
            trip.prices[item] = Decimal(answer)
            trip.looked_up = datetime.now(UTC)
            return f"looked up {item}"
    for item, price in trip.prices.items():
        if item in trip.bought or item in trip.skipped:
            continue
        if price > trip.budget:
            trip.skipped += (item,)
            return f"skipped {item}"
        trip.budget -= price
        trip.bought += (item,)
        return f"bought {item}"
    return None


def main() -> None:
    """Go on from the newest checkpoint of the branch in use, or begin."""
    with holdfast.open() as store:
        session = store.session("camping", agent="shopper")
        trip = session.load() if session.exists("@") else Trip()
        number = len(trip.prices) + len(trip.bought) + len(trip.skipped)
        while (done := step(trip)) is not None:
            number += 1
            session.save(trip, done, step=number)
            print(f"step {number}: {done}")
        left = f"without {', '.join(trip.skipped)}" if trip.skipped else "with all it needs"
        print(f"ready {left}, {trip.budget} left")


if __name__ == "__main__":
    main()
