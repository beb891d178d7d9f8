"""Choosing among 1,000 offers on 10 numbers of nodes: `python benchmarks/choice.py`."""

from __future__ import annotations

import time

from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.choice import Job, candidates, cheapest_within, front
from cloudgan.cost.elsewhere import speeds
from cloudgan.cost.elsewhere_price import NODE_COUNTS
from cloudgan.cost.elsewhere_runs import PAPER_NETWORK, PAPER_SHOWERS, paper_measurements

OFFERS = 1000
ROUNDS = 5


def main() -> None:
    """Chooses a few times, curves fitted anew each time, and prints the least and most seconds."""
    many = [row for row in load_catalog().find() if not row.accelerator.startswith("TPU")]
    rows = [
        many[number % len(many)].model_copy(update={"usd_per_hour": 1 + number / 100})
        for number in range(OFFERS)
    ]
    took, found = [], ()
    for _ in range(ROUNDS):
        start = time.perf_counter()
        known = speeds(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
        found = candidates(rows, known, Job(60), NODE_COUNTS).known
        front(found)
        cheapest_within(found, deadline_seconds=7200)
        took.append(time.perf_counter() - start)
    print(
        f"{OFFERS} offers x {len(NODE_COUNTS)} numbers of nodes, {len(found)} candidates:"
        f" {min(took):.3f} to {max(took):.3f} s"
    )


if __name__ == "__main__":
    main()
