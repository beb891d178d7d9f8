"""Grids of cells beside single GANs that saw as many samples: the ring, several seeds.

    python benchmarks/studies/coevolution.py [--seeds=1,2,3] [--out=FOLDER] [--learning-rate=0.005 ...]

A single GAN is a grid of one cell without neighbours, with four times the iterations of the 2x2 grid. All
else is equal. The figures are those of new samples of the best mixture of each run. Further flags are those of
`cloudgan evolve`, for the grid and the single GAN alike.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import fire

import cloudgan as cg

_SINGLE = {"grid": "1x1", "neighbourhood": "none", "tournament": 1}
_RING = {
    "task": "ring",
    "iterations": 30,
    "batches": 100,
    "batch": 100,
    "learning_rate": 1e-3,
    "discriminator_every": 1,
    "score_samples": 2000,
    "threads": 1,
}
_CELLS = 4


def main(seeds: str = "1,2,3", out: str | None = None, **more: Any) -> None:
    """Trains all runs that `out` does not hold yet, and prints the tables."""
    folder = Path(out or tempfile.mkdtemp(prefix="coevolution-"))
    rows = []
    for seed in map(int, _listed(seeds)):
        for name, own in (("grid", {}), ("single", _SINGLE)):
            options: dict[str, Any] = {"seed": seed} | _RING | more | own
            if own:
                options["iterations"] *= _CELLS
            run = folder / f"{name}-{seed}"
            found = cg.evolve(run=run, **options).quality
            if found is None:
                raise SystemExit(f"{run} was not measured")
            rows.append((name, seed, "mixture", found.mixture))
            if not own:
                rows.append((name, seed, "best generator", found.best_generator))
                rows.append((name, seed, "equal weights", found.uniform))
            _print(rows[-1 if own else -3 :])
    _summarise(rows)


def _print(rows: list[Any]) -> None:
    for name, seed, what, quality in rows:
        details = ", ".join(f"{key} {value:.3g}" for key, value in quality.details.items())
        print(f"{name} seed {seed} {what}: score {quality.score:.4g}, {details}", flush=True)


def _summarise(rows: list[Any]) -> None:
    kinds = dict.fromkeys((name, what) for name, _, what, _ in rows)
    for kind in kinds:
        found = [quality for name, _, what, quality in rows if (name, what) == kind]
        parts = [_mean("score", [each.score for each in found])]
        parts += [_mean(key, [each.details[key] for each in found]) for key in found[0].details]
        print(f"{kind[0]}, {kind[1]}: {', '.join(parts)}")


def _mean(name: str, values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{name} {statistics.mean(values):.4g} ± {spread:.2g}"


def _listed(text: Any) -> list[str]:
    parts = text if isinstance(text, tuple | list) else str(text).split(",")
    return [str(part).strip() for part in parts]


if __name__ == "__main__":
    sys.exit(fire.Fire(main))
