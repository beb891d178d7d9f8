"""`cloudgan train`: trains on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from cloudgan.api.ranks import describe_ranks, layout_table, local_layout
from cloudgan.api.run_options import config_keys, resolve
from cloudgan.api.run_report import write_report
from cloudgan.api.train import train_run
from cloudgan.api.training_result import describe_training, training_result
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.options.training_flags import training_flags
from cloudgan.cli.views.output import emit, print_json, print_table, progress_bars
from cloudgan.core import settings

if TYPE_CHECKING:
    from cloudgan.schema.config import RunConfig

_BEGAN = time.perf_counter()


@with_flags(training=training_flags)
def train(
    *,
    run: str | None = None,
    engine: Literal["tensorflow", "jax"] | None = None,
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] | None = None,
    workers: int | None = None,
    checkpoints: str | None = None,
    init_from: str | None = None,
    allow_open_ports: bool = False,
    report: bool = True,
    describe: bool = False,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
) -> None:
    """Trains on this machine, and resumes an earlier `train` of the run.

    Args:
        run: Folder of the run. Default: runs/NAME of the run.yaml, else runs/PRESET.
        engine: tensorflow, or jax: the same training with the same checkpoints, compiled by XLA.
        strategy: auto uses all GPUs of this machine; multiworker joins TF_CONFIG or starts workers.
        workers: Processes to start on this machine, with --strategy=multiworker.
        checkpoints: gs://, s3:// or Azure Blob URL that receives a copy of each checkpoint.
        init_from: Folder of a run whose networks the training starts from: fine-tuning, with other
            showers or losses.
        allow_open_ports: Run several workers even where others can reach their ports, whose servers
            execute what they receive.
        report: Write report.html with figures into the run's folder at the end; --report=false omits it.
        describe: Print the configuration and the parameter counts, or with --parallel the layout of
            the ranks, and stop.
        json: Print the result as JSON.
        training: The shared training flags.
    """
    shared, file = training
    own = config_keys(
        {
            "engine": engine,
            "strategy": strategy,
            "workers": workers,
            "checkpoints": checkpoints,
            "init_from": init_from,
        }
    )
    config, folder = resolve(shared | own, config=file, run=run)
    if describe and config.parallel.has_ranks:
        _print_layout(config, as_json=json)
        return
    if describe:
        emit(describe_training(config), as_json=json)
        return
    with progress_bars(as_json=json) as progress:
        outcome = train_run(
            config,
            folder,
            progress,
            json=json,
            began_seconds=_BEGAN,
            allow_open_ports=allow_open_ports,
        )
        drawn = write_report(folder, progress) if report and not settings.tf_config() else None
    if outcome:
        emit(training_result(outcome, folder, config, *(drawn or ())), as_json=json)


def _print_layout(config: RunConfig, *, as_json: bool) -> None:
    layout = local_layout(config)
    if as_json:
        print_json(describe_ranks(config, layout))
    else:
        print_table(layout_table(layout))
