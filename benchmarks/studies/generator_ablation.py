"""What each part of the `mini` generator adds to the physics: `python benchmarks/studies/generator_ablation.py OUT`.

Trains every variant with several seeds for the same number of steps on the same parametric showers, and
validates it against showers of another seed. Finished runs in OUT are kept: the same command continues.
Prints a Markdown table of mean and standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from cloudgan.core.documents import parse_json

PLAIN_OUTPUT = {
    "cell_marginals": False,
    "angle": "measured",
    "condition": "concatenate",
    "energy_scaled_output": True,
    "calibrated_output": True,
    "output_activation": "squared_relu",
    "learning_rate": 1e-3,
}
"""The output layer and rate of `smoke`."""
NO_ADVERSARIAL_LOSS = {"real_fake": 0.0, "energy": 0.0, "ecal_sum": 0.0, "angle": 0.0}
VARIANTS: dict[str, dict[str, object]] = {
    "mini": {},
    "no shape loss": {"loss_weights": {"shape": 0.0, "angle": 0.0}},
    "no adversarial loss": {"loss_weights": {"shape": 40.0, **NO_ADVERSARIAL_LOSS}},
    "no marginals": {**PLAIN_OUTPUT, "loss_weights": {"shape": 40.0, "longitudinal": 20.0}},
    "no marginals, no shape loss": {**PLAIN_OUTPUT, "loss_weights": {"longitudinal": 20.0}},
}
COLUMNS = (
    ("AUC, high", "auc", "high level"),
    ("AUC, low", "auc", "low level"),
    ("FPD", "fpd", ""),
    ("KPD", "kpd", ""),
    ("profile x", "profile_x", ""),
    ("profile y", "profile_y", ""),
    ("tail", "tail", ""),
    ("filled cells", "sparsity", ""),
    ("hits", "hits", "0.1 MeV"),
    ("spectrum", "spectrum", ""),
    ("angle slope", "angle_slope", ""),
    ("diversity", "diversity", ""),
    ("correlations", "correlation", "features, rms"),
    ("authors' metric", "metric", ""),
)
"""Column, measure and its part."""
TRAIN_SEED, TEST_SEED = 11, 12


def cloudgan(*words: object) -> str:
    """Runs a command of cloudgan and returns its standard output."""
    command = [sys.executable, "-m", "cloudgan", *(str(word) for word in words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return done.stdout


def simulated(path: Path, showers: int, seed: int) -> Path:
    """Returns the path of parametric showers, simulated unless they exist."""
    if not path.exists():
        cloudgan("simulate", path, f"--showers={showers}", f"--seed={seed}")
    return path


def validated(out: Path, variant: str, seed: int, steps: int) -> dict[str, float]:
    """Returns the value of each column after training one variant."""
    folder = out / f"{variant.replace(', ', '-').replace(' ', '-')}-{seed}"
    verdict = folder / "ablation.json"
    if not verdict.exists():
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            "schema_version": 1,
            "name": folder.name,
            "data": {"path": str(out / "train.h5")},
            "model": {"preset": "mini", **VARIANTS[variant]},
        }
        yaml = out / f"{folder.name}.yaml"
        yaml.write_text(json.dumps(config), encoding="utf-8")
        options = ("--epochs=1000", f"--max-steps={steps}", f"--seed={seed}")
        cloudgan("train", f"--config={yaml}", f"--run={folder}", *options)
        verdict.write_text(
            cloudgan("validate", folder, f"--against={out / 'test.h5'}", "--json"), encoding="utf-8"
        )
    found = parse_json(verdict.read_bytes(), str(verdict))["assessment"]["measures"]
    values = {(measure["name"], measure["where"]): measure["value"] for measure in found}
    return {title: values[name, where] for title, name, where in COLUMNS}


def main() -> None:
    """Trains, validates and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--showers", type=int, default=4000)
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    simulated(options.out / "train.h5", options.showers, TRAIN_SEED)
    simulated(options.out / "test.h5", 1000, TEST_SEED)
    print("| " + " | ".join(["variant", *(title for title, _, _ in COLUMNS)]) + " |")
    print("|" + " --- |" * (len(COLUMNS) + 1))
    for variant in options.variants:
        rows = [
            validated(options.out, variant, seed, options.steps) for seed in range(options.seeds)
        ]
        cells = []
        for title, _, _ in COLUMNS:
            values = [row[title] for row in rows]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{statistics.mean(values):.3g} ± {spread:.1g}")
        print("| " + " | ".join([variant, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
