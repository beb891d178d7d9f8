"""Choosing among 1,000 offers on 10 numbers of nodes: `python benchmarks/choice.py`."""

from __future__ import annotations

import time

from cloudgan.cost.estimation.candidates import PricedJob, candidates, cheapest_within, pareto_front
from cloudgan.cost.estimation.measured_runs import (
    PAPER_NETWORK,
    PAPER_SHOWERS,
    paper_measurements,
)
from cloudgan.cost.estimation.throughput_model import NODE_COUNTS, build_throughput_model
from cloudgan.cost.prices.catalog import load_catalog

OFFERS = 1000
ROUNDS = 5


def main() -> None:
    """Chooses a few times, refitting the curves each time, and prints the range of seconds."""
    many = [row for row in load_catalog().find() if not row.accelerator.startswith("TPU")]
    rows = [
        many[number % len(many)].model_copy(update={"usd_per_hour": 1 + number / 100})
        for number in range(OFFERS)
    ]
    took, found = [], ()
    for _ in range(ROUNDS):
        start = time.perf_counter()
        known = build_throughput_model(PAPER_NETWORK, PAPER_SHOWERS, paper_measurements())
        found = candidates(rows, known, PricedJob(60), NODE_COUNTS).known
        pareto_front(found)
        cheapest_within(found, deadline_seconds=7200)
        took.append(time.perf_counter() - start)
    print(
        f"{OFFERS} offers x {len(NODE_COUNTS)} numbers of nodes, {len(found)} candidates:"
        f" {min(took):.3f} to {max(took):.3f} s"
    )


if __name__ == "__main__":
    main()
