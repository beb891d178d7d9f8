"""`cloudgan bench parallel`: predicted speed-up of masters and workers, and the study of staleness."""

from __future__ import annotations

from typing import Any

from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    write_report_file,
)
from cloudgan.core import ranges
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.ranges import Range, parse_counts
from cloudgan.schema.options.bench import BenchParallelOptions
from cloudgan.schema.presets import find_preset

_COUNTS = Range(1, 4096)
"""Workers of a prediction: the simulation of 4096 takes ten seconds."""
_SLEEP_SECONDS = 0.05


@command
def parallel(options: BenchParallelOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.bench.parallel import (
        explanation,
        find_times,
        forecast,
        forecast_json,
        forecast_page,
        forecast_table,
        measure_worlds,
        measured_table,
        nnlo_table,
    )
    from cloudgan.bench.staleness_study import study as run_study
    from cloudgan.bench.staleness_study import study_json, study_table

    find_preset(options.preset)
    check_report(options.report)
    layouts, worlds = _counts(options)
    with progress_bars(as_json=as_json) as progress:
        shared: dict[str, Any] = {
            "preset": options.preset,
            "mode": options.mode,
            "sync_every": options.sync_every,
        }
        if worlds:
            step = options.step_seconds or _SLEEP_SECONDS
            measured, times, origin = measure_worlds(
                worlds, step=step, seconds=options.seconds, progress=progress, **shared
            )
            found = forecast(times, origin, *layouts, measured)
        else:
            times, origin = find_times(
                step=options.step_seconds,
                service=options.service_seconds,
                message=options.message_seconds,
                progress=progress,
                **shared,
            )
            found = forecast(times, origin, *layouts)
        rows = run_study(progress) if options.study else []
    if as_json:
        more: dict[str, Any] = {"study": study_json(rows)} if rows else {}
        print_json(forecast_json(found) | more)
    else:
        print_table(forecast_table(found))
        if found.measured:
            print_table(measured_table(found))
        print_table(nnlo_table(found))
        print("\n".join(explanation(found)))
        if rows:
            print_table(study_table(rows))
    if options.report:
        write_report_file(forecast_page(found, [study_table(rows)] if rows else []), options.report)


def _counts(options: BenchParallelOptions) -> tuple[tuple[list[int], list[int]], list[int]]:
    """Returns the workers and masters of the prediction, and the workers of the measured worlds."""
    layouts = (
        parse_counts("--predict", options.predict, _COUNTS),
        parse_counts("--masters", options.masters, _COUNTS),
    )
    worlds = (
        parse_counts("--workers", options.workers, ranges.FLAGS["workers"])
        if options.workers
        else []
    )
    if worlds and (options.service_seconds or options.message_seconds):
        raise ConfigError(
            "--workers measures the times of an exchange: omit --service-seconds and --message-seconds"
        )
    return layouts, worlds
