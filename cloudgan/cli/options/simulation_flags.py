"""The flags of `plan` and `deploy` for tasks other than one training: simulated showers, trials of a search."""

from __future__ import annotations

from typing import Any, Literal, get_args

from cloudgan.cli.options.values import parse_range
from cloudgan.core import ranges
from cloudgan.schema.particle import Particle
from cloudgan.schema.simulation import Task


def simulation_flags(
    *,
    task: Literal["train", "simulate", "join", "showers", "ring"] | None = None,
    join: str | None = None,
    engine: Literal["geant4"] | None = None,
    showers: int | None = None,
    energy: str | None = None,
    theta: str | None = None,
    particle: Particle | None = None,
    cut_mm: float | None = None,
    records_per_shard: int | None = None,
) -> dict[str, Any]:
    """Returns the given options by their dotted keys in run.yaml.

    Args:
        task: Program of the workers: train (default), or simulate showers with Geant4 into the store. With
            --grid: what its cells train, showers (default) or ring.
        join: Name of a search (`cloudgan search --store`) whose trials the workers train, each one after
            another, until it ends.
        engine: Simulation; the parametric source needs one core only (`cloudgan simulate`).
        showers: Showers that all workers simulate together. Default: 1000.
        energy: Range of the primary energy in GeV, flat. Default: 10:100.
        theta: Range of the polar angle in degrees, flat. Default: 60:120.
        particle: Primary particle. Default: electron.
        cut_mm: Range cut of Geant4 in mm. Default: 0.7.
        records_per_shard: Showers per file, which a killed worker may lose. Default: 256.
    """
    ranges.check(showers=showers, cut_mm=cut_mm, records_per_shard=records_per_shard)
    is_program = task in get_args(Task)
    return {
        "task": "join" if join is not None and task is None else task if is_program else None,
        "join": join,
        "grid.task": None if is_program else task,
        "simulation.engine": engine,
        "simulation.showers": showers,
        "simulation.energy_gev": parse_range("energy", energy) if energy is not None else None,
        "simulation.theta_deg": parse_range("theta", theta) if theta is not None else None,
        "simulation.particle": particle,
        "simulation.cut_mm": cut_mm,
        "simulation.showers_per_shard": records_per_shard,
    }
