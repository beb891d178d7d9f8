"""Showers per second of the parametric source on one core: `python benchmarks/simulate.py`."""

from __future__ import annotations

import time

from cloudgan.simulation.gflash import simulate


def main() -> None:
    """Simulates 1,000 showers after 100 to warm up, and prints what a second holds."""
    for _ in simulate(100, seed=0):
        pass
    wall, cpu = time.perf_counter(), time.process_time()
    count = sum(len(showers) for showers in simulate(1000, seed=1))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        f"{count / wall:.0f} showers/s wall, {count / cpu:.0f} showers/s of CPU time"
        " (10-100 GeV, 51x51x25, with the measured angle)"
    )


if __name__ == "__main__":
    main()
