"""The command `compare`: runs side by side, their scaling, their cost to a quality, or those of the paper."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from cloudgan.api.cost import price
from cloudgan.api.quality_comparison import cost_to_quality
from cloudgan.api.run import open_run
from cloudgan.api.scaling_comparison import compare_scaling, published_scaling
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.money.catalog import load_catalog
from cloudgan.money.comparison import Comparison, summarize
from cloudgan.money.paper_replay import replay
from cloudgan.reports.result import Result
from cloudgan.schema.options.money import CompareOptions
from cloudgan.schema.run_folder import RunFolder


@command
def compare(options: CompareOptions) -> Result:
    """Compares runs.

    Raises:
        ConfigError: The runs cannot be compared, or there is none.
        DataError: A folder holds no record.
        UnknownNameError: No offer or metric has this name.
    """
    offer = options.price_as
    if options.paper:
        return published_scaling() if options.scaling else replay(load_catalog())
    named = [open_run(path) for path in _folders(options.runs)]
    # With none, the first one says what it lacks.
    runs = [run for run in named if run.folder.record_file.exists()] or named
    left_out = tuple(run.folder.path.resolve().name for run in named if run not in runs)
    if options.scaling:
        scaling = compare_scaling(runs, price_as=offer)
        return scaling.model_copy(update={"left_out": left_out})
    if options.to_quality:
        quality = cost_to_quality(runs, until=options.until, price_as=offer)
        return quality.model_copy(update={"left_out": left_out})
    records = [run.record for run in runs]
    configs = [run.folder.read_config() for run in runs]
    networks = [config.model.network_name if config else None for config in configs]
    return Comparison(
        runs=tuple(
            summarize(
                own,
                price(run.folder, offer=offer).report,
                # Runs of the same network can recommend a larger batch.
                [other for other, name in zip(records, networks, strict=True) if name == network],
            )
            for run, own, network in zip(runs, records, networks, strict=True)
        ),
        left_out=left_out,
    )


def _folders(named: Sequence[str]) -> list[str]:
    """Returns folders of runs: what the shell expanded, comma lists, or quoted globs."""
    paths: list[str] = []
    for part in (word for name in named for word in name.split(",")):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        several = len(found) > 1 or len(named) > 1
        paths += [
            path
            for path in found
            if not several or RunFolder(path).record_file.exists() or not Path(path).exists()
        ]
    if not paths:
        raise ConfigError(f"{', '.join(named)}: no folder matches that holds a run (record.jsonl)")
    return list(dict.fromkeys(paths))
