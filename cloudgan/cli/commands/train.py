"""`cloudgan train`: trains on this machine."""

from __future__ import annotations

import time

from cloudgan.api.train import train_run
from cloudgan.api.training_result import describe_training, training_result
from cloudgan.cli.views.output import print_json, print_table
from cloudgan.core import settings
from cloudgan.core.command import command
from cloudgan.core.progress import Progress
from cloudgan.ranks.placement import describe_ranks, layout_table, local_layout
from cloudgan.reports.result import Result
from cloudgan.schema.config import RunConfig
from cloudgan.schema.options.training import TrainOptions
from cloudgan.training.run_options import resolve

_BEGAN = time.perf_counter()


@command
def train(options: TrainOptions, *, progress: Progress, as_json: bool = False) -> Result | None:
    """Returns what was trained; None: worker processes print their own results."""
    keys, file = options.training
    config, folder = resolve(keys, config=file, run=options.run)
    if options.describe and config.parallel.has_ranks:
        _print_layout(config, as_json=as_json)
        return None
    if options.describe:
        return describe_training(config, folder)
    outcome = train_run(
        config,
        folder,
        progress,
        json=as_json,
        began_seconds=_BEGAN,
        allow_open_ports=options.allow_open_ports,
    )
    drawn = None
    if options.writes_report and not settings.tf_config():
        from cloudgan.api.run_report import write_report  # imports all of the physics

        drawn = write_report(folder, progress)
    return training_result(outcome, folder, config, *(drawn or ())) if outcome else None


def _print_layout(config: RunConfig, *, as_json: bool) -> None:
    layout = local_layout(config)
    if as_json:
        print_json(describe_ranks(config, layout))
    else:
        print_table(layout_table(layout))
