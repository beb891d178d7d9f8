"""What staleness does to each update rule, on a problem whose optimum is known: a noisy quadratic.

    python benchmarks/studies/staleness.py

Loss 0.5 sum(c w^2) in 50 dimensions with curvatures c from 0.02 to 1, gradients with Gaussian noise of 0.3, weights
from 3. Workers take steps of equal mean duration; each exchanges after every step. Prints the table of
docs/measurements/parallel.md, the mean loss of the centre in the last tenth of 300 steps per worker (the same wall-clock
time for any number of workers), in half a minute.
"""

from __future__ import annotations

import heapq
import math
from statistics import median
from types import SimpleNamespace

import numpy as np

from cloudgan.parallel.update_rules import make_rule
from cloudgan.schema.parallel import ParallelConfig

RULES = {
    "downpour, undamped": ParallelConfig(mode="downpour", damping="none"),
    "downpour, 1/staleness": ParallelConfig(mode="downpour"),
    "downpour, 1/workers": ParallelConfig(mode="downpour", damping="mean"),
    "easgd, force 0.9": ParallelConfig(mode="easgd"),
    "gem": ParallelConfig(mode="gem"),
}
RATES, WORKERS, SEEDS = (0.1, 0.5), (1, 2, 4, 8, 16), (0, 1)
DIMENSIONS, NOISE, START, STEPS, DIVERGED = 50, 0.3, 3.0, 300, 1e3


def final_loss(parallel: ParallelConfig, workers: int, rate: float, seed: int) -> float:
    """Returns the mean loss of the centre in the last tenth of a training; infinite if it diverges."""
    rng = np.random.default_rng(seed)
    curvature = np.geomspace(0.02, 1, DIMENSIONS).astype(np.float32)
    centre = np.full(DIMENSIONS, START, np.float32)
    options = {"workers": workers, "trainable": DIMENSIONS, "learning_rate": rate}
    team = []
    for _ in range(workers):
        rule = make_rule(parallel, **options)
        rule.begin(centre)
        team.append(SimpleNamespace(rule=rule, own=centre.copy(), fetched=centre.copy(), seen=0))
    master = make_rule(parallel, **options)

    def after(moment: float) -> float:
        return moment + max(0.1, 1 + 0.05 * float(rng.standard_normal()))

    events = [(after(0.0), number) for number in range(workers)]
    heapq.heapify(events)
    losses = []
    for update in range(STEPS * workers):
        moment, number = heapq.heappop(events)
        one = team[number]
        noise = (NOISE * rng.standard_normal(DIMENSIONS)).astype(np.float32)
        one.own -= np.float32(rate) * (curvature * one.own + noise)
        before = centre.copy()
        if one.rule.fetches_first:
            one.fetched[:] = before
        sent = one.rule.to_send(one.own, one.fetched)
        master.at_master(centre, sent.copy(), update - one.seen)
        early = one.rule.answers_first or one.rule.fetches_first
        answer = before if early else centre
        one.rule.at_worker(one.own, answer)
        one.fetched[:] = answer
        one.seen = update + 1
        heapq.heappush(events, (after(moment), number))
        if not np.abs(centre).max() < DIVERGED:
            return math.inf
        if update >= 0.9 * STEPS * workers:
            losses.append(0.5 * float(curvature @ (centre * centre)))
    return float(np.mean(losses))


def main() -> None:
    """Prints the table."""
    print("| rate | rule | n = 1 | 2 | 4 | 8 | 16 |\n| --- | --- | --- | --- | --- | --- | --- |")
    for rate in RATES:
        for name, rule in RULES.items():
            losses = [median(final_loss(rule, n, rate, seed) for seed in SEEDS) for n in WORKERS]
            cells = (f"{loss:.3g}" if math.isfinite(loss) else "diverged" for loss in losses)
            print(f"| {rate:g} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
