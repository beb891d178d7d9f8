"""The training step in turns, fast against published, then oneDNN against Eigen, on mini.

`python benchmarks/train_step.py`; its arguments go to both `cloudgan bench step`.
"""

from __future__ import annotations

import subprocess
import sys

AGAINST = ("published", "auto:TF_ENABLE_ONEDNN_OPTS=0")


def main() -> None:
    """Runs both comparisons."""
    for against in AGAINST:
        asked = ("--preset=mini", "--batch=32", f"--against={against}", *sys.argv[1:])
        subprocess.run([sys.executable, "-m", "cloudgan", "bench", "step", *asked], check=True)  # noqa: S603


if __name__ == "__main__":
    main()
