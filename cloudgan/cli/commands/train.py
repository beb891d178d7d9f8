"""`cloudgan train`: trains on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cloudgan.api.ranks import describe_ranks, layout_table, local_layout, stages_table
from cloudgan.api.run_options import resolve
from cloudgan.api.train import describe_training, train_run, training_result
from cloudgan.cli.views.output import print_json, print_result, print_table, progress_bars
from cloudgan.core.command import command
from cloudgan.schema.options.training import TrainOptions

if TYPE_CHECKING:
    from cloudgan.schema.config import RunConfig

_BEGAN = time.perf_counter()


@command
def train(options: TrainOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    keys, file = options.training
    config, folder = resolve(keys, config=file, run=options.run)
    if options.describe and config.parallel.has_ranks:
        _print_layout(config, as_json=as_json)
        return
    if options.describe:
        found = describe_training(config)
        stages = [] if as_json else found.pop("stages", [])
        print_result(found, as_json=as_json)
        if stages:
            print_table(stages_table(stages))
        return
    with progress_bars(as_json=as_json) as progress:
        outcome = train_run(
            config,
            folder,
            progress,
            json=as_json,
            began_seconds=_BEGAN,
            allow_open_ports=options.allow_open_ports,
        )
    if outcome:
        print_result(training_result(outcome, folder, config.training), as_json=as_json)


def _print_layout(config: RunConfig, *, as_json: bool) -> None:
    layout = local_layout(config)
    if as_json:
        print_json(describe_ranks(config, layout))
    else:
        print_table(layout_table(layout))
