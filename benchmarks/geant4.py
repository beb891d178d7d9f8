"""Geant4 on one core and on two, in turns: `python benchmarks/geant4.py [ROUNDS]`."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from cloudgan.core.settings import geant4_data
from cloudgan.simulation.geant4.events import PrimaryRequest, primary
from cloudgan.simulation.geant4.workers import WorkerPool, prepare_geant4

ENERGY_GEV, EVENTS = (10.0, 20.0), 40


def main() -> None:
    """Simulates the same 40 showers with one and with two processes in each round."""
    if find_spec("geant4_pybind") is None:
        print("Geant4 is not here: pip install '.[geant4]'")
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    asked = PrimaryRequest(1, ENERGY_GEV, (60.0, 120.0))
    gev = sum(primary(asked, number).energy_gev for number in range(EVENTS))
    with tempfile.TemporaryDirectory() as folder:
        tables = prepare_geant4(Path(folder), geant4_data()).tables
        with WorkerPool(asked, tables, 1) as one, WorkerPool(asked, tables, 2) as two:
            for pool in (one, two):
                list(pool.events(range(4)))  # their detectors stand, their tables are read
            took = [(_turn(one), _turn(two)) for _ in range(rounds)]
    cpu = [1000 * alone[1] / gev for alone, _ in took]
    ratios = [alone[0] / both[0] for alone, both in took]
    print(
        f"{statistics.median(cpu):.2f} ms of CPU time per GeV ({min(cpu):.2f} to {max(cpu):.2f});"
        f" two processes are {statistics.median(ratios):.2f} times as fast as one"
        f" ({min(ratios):.2f} to {max(ratios):.2f}), {rounds} rounds in turns, electrons of"
        f" {ENERGY_GEV[0]:g} to {ENERGY_GEV[1]:g} GeV"
    )


def _turn(pool: WorkerPool) -> tuple[float, float]:
    """Wall and CPU seconds of all showers."""
    wall, cpu = time.perf_counter(), _cpu_seconds(pool)
    list(pool.events(range(EVENTS)))
    return time.perf_counter() - wall, _cpu_seconds(pool) - cpu


def _cpu_seconds(pool: WorkerPool) -> float:
    """CPU time of the processes until now, as Linux counts it."""
    ticks = 0
    for number in pool.process_ids:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
