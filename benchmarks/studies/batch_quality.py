"""What a larger global batch costs in quality: runs that see equally many showers, validated after their last step.

    python benchmarks/studies/batch_quality.py mini 20000 16,32,64,128 3

Trains a preset with each batch and each seed from 0 on the same simulated showers, with one replica and the learning
rate of the preset, in whole epochs, after which a run is validated. Prints the table of docs/measurements/scaling.md: medians over
the seeds; a number that is not finite for one of them is unknown. 20000 showers need some minutes per run of mini.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from cloudgan.data.held_out import LEAST_TO_JUDGE, MOST_TO_JUDGE
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.stop_criterion import METRICS

EVERY = 10
"""One shower of so many is held out."""
LEAST_STEPS = 40


def cloudgan(*words: object) -> None:
    """Runs the program; its output goes to standard error."""
    command = (sys.executable, "-m", "cloudgan", *map(str, words))
    subprocess.run(command, check=True, stdout=sys.stderr)  # noqa: S603


def figures(path: Path) -> dict[str, float]:
    """Returns the numbers of a run that has ended."""
    found = record.read(RunFolder(path).record_file)
    epochs, metrics = found.epochs(), found.validations()[-1].metrics
    return {
        "steps": sum(epoch.steps for epoch in epochs),
        **{name: metrics.get(name, math.nan) for name in METRICS},
        "s per shower": 1 / (found.samples_per_second() or math.nan),
    }


def main(preset: str, showers: str, batches: str, seeds: str = "1") -> None:
    """Trains all runs and prints the table."""
    sizes, trained = [int(size) for size in batches.split(",")], int(showers)
    least = max((EVERY - 1) * LEAST_TO_JUDGE, LEAST_STEPS * max(sizes))
    if trained < least:
        sys.exit(f"{trained} showers: a validation and the largest batch need {least} or more")
    epochs = max(1, trained // ((EVERY - 1) * MOST_TO_JUDGE))
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "showers.h5"
        cloudgan("simulate", data, f"--showers={trained // epochs * EVERY // (EVERY - 1)}")
        flags = (f"--preset={preset}", f"--epochs={epochs}", f"--validate-every={epochs}")
        columns: tuple[str, ...] = ()
        for size in sizes:
            rows = []
            for seed in range(int(seeds)):
                run = Path(folder) / f"{size}-{seed}"
                own = (f"--global-batch={size}", f"--seed={seed}", f"--run={run}")
                cloudgan("train", data, *flags, *own)
                rows.append(figures(run))
            if not columns:
                columns = ("showers per step", *rows[0])
                print("| " + " | ".join(columns) + " |\n|" + " --- |" * len(columns))
            cells = [median(row[name] for row in rows) for name in rows[0]]
            unknown = {name for name in rows[0] for row in rows if not math.isfinite(row[name])}
            shown = (
                "unknown" if name in unknown else f"{value:,.4g}"
                for name, value in zip(rows[0], cells, strict=True)
            )
            print(f"| {size} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
