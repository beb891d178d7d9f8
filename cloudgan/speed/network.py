"""The throughput model of a run's network, as `plan`, `offers` and `cost` use it."""

from __future__ import annotations

from collections.abc import Iterable

from cloudgan.core.errors import CloudganError
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import read_if_whole
from cloudgan.schema.run_folder import RUNS, RunFolder
from cloudgan.speed.measured import (
    PAPER_NETWORK,
    MeasuredThroughput,
    measured_run,
    paper_measurements,
)
from cloudgan.speed.model import ThroughputModel, build_throughput_model, work_of

_CELLS, _UNKNOWN = "cells", "of this run"


def throughput_model(
    config: RunConfig | None, showers: int, run: RunFolder | None = None
) -> ThroughputModel:
    """Returns the throughput model of a configuration's network: of own runs, then of the paper's.

    Without a run of the network it has bounds from the paper's, by the work of both.

    Args:
        config: The configuration; None: unknown, so that only `run` is a run of its network.
        showers: Showers of the epoch to estimate.
        run: A run of the network, beside those of this folder.
    """
    if config is None:
        network = _UNKNOWN
    elif config.grid:
        network = _CELLS  # their batches are no steps
    else:
        network = config.model.network_name
    own = _own_measurements(network if config else None, [run] if run else [])
    is_paper = network == PAPER_NETWORK
    is_bounded = config is not None and not config.grid and not is_paper and not own
    measured = {one.accelerator for one in own}
    paper = paper_measurements() if is_paper or is_bounded else ()
    return build_throughput_model(
        network,
        showers,
        (*own, *(one for one in paper if one.accelerator not in measured)),
        drops_last=config is not None and config.data.last_batch == "drop",
        work=work_of(config.model) if config and is_bounded else None,
    )


def _own_measurements(
    network: str | None, runs: Iterable[RunFolder] = ()
) -> tuple[MeasuredThroughput, ...]:
    """Returns the runs that trained a network on accelerators that a cloud offers.

    Args:
        network: Name of the network; None: that of the given runs, whatever it is.
        runs: Besides those of this folder.
    """
    here = [RunFolder(file.parent) for file in sorted(RUNS.glob("*/record.jsonl"))]
    folders = {one.path.resolve(): one for one in (*runs, *(here if network else ()))}
    found = (
        measured_run(path.name, read_if_whole(folder.record_file))
        for path, folder in folders.items()
        if network is None or _trains(folder, network)
    )
    return tuple(one for one in found if not isinstance(one, str))


def _trains(folder: RunFolder, network: str) -> bool:
    try:
        config = folder.read_config()
    except CloudganError:
        return False  # its own commands report it
    return config is not None and config.trains_one and config.model.network_name == network
