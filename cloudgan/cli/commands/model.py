"""`cloudgan train`, `validate` and `demo`: a GAN on this machine, and its verdict."""

from __future__ import annotations

import time
from pathlib import Path

from cloudgan.api.train import train_run
from cloudgan.api.training_result import describe_training, training_result
from cloudgan.cli.emit import print_json, print_table, write_report_file
from cloudgan.core import settings
from cloudgan.core.command import body_of, command
from cloudgan.core.progress import Progress
from cloudgan.ranks.placement import describe_ranks, layout_table, local_layout
from cloudgan.reports.result import Result
from cloudgan.schema.options.showers import DemoOptions, ValidateOptions
from cloudgan.schema.options.training import TrainOptions
from cloudgan.training.run_options import resolve

_BEGAN = time.perf_counter()


@command
def train(options: TrainOptions, *, progress: Progress, as_json: bool = False) -> Result | None:
    """Returns what was trained; None: worker processes print their own results."""
    keys, file = options.training
    config, folder = resolve(keys, config=file, run=options.run)
    if options.describe and config.parallel.has_ranks:
        layout = local_layout(config)
        if as_json:
            print_json(describe_ranks(config, layout))
        else:
            print_table(layout_table(layout))
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
        from cloudgan.api.run_page import write_report  # imports all of the physics

        drawn = write_report(folder, progress)
    return training_result(outcome, folder, config, *(drawn or ())) if outcome else None


@command
def validate(options: ValidateOptions, *, progress: Progress) -> Result:
    """Returns the verdict and its measures."""
    from cloudgan.api import validate as api
    from cloudgan.validation.gates import load_gates

    gates = load_gates(Path(options.gate)) if isinstance(options.gate, str) else None
    found = body_of(api.validate)(options, gates=gates, progress=progress)
    if options.report:
        progress.start("drawing the report")
        write_report_file(found.page(), options.report)
    return found.result(report=options.report, gate=bool(options.gate))


@command
def demo(options: DemoOptions, *, progress: Progress) -> Result:
    """Returns the verdict, the time and the cost."""
    from cloudgan.api import demo as api

    return body_of(api.demo)(options, progress=progress).result()
