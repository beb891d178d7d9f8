"""`cloudgan bench parallel`: predicted speed-up of masters and workers, and the study of staleness."""

from __future__ import annotations

from typing import Any, Literal

from cloudgan.cli.options.values import parse_counts
from cloudgan.cli.views.output import (
    check_report,
    print_json,
    print_table,
    progress_bars,
    write_report_file,
)
from cloudgan.core import ranges
from cloudgan.core.errors import ConfigError
from cloudgan.core.ranges import Range
from cloudgan.schema.presets import find_preset

_COUNTS = Range(1, 4096)
"""Workers of a prediction: the simulation of 4096 takes ten seconds."""
_SLEEP_SECONDS = 0.05


def parallel(
    *,
    workers: str | None = None,
    predict: str = "8,20,100,128",
    masters: str = "1,4",
    preset: str = "mini",
    mode: Literal["downpour", "easgd", "gem"] = "easgd",
    sync_every: int = 1,
    step_seconds: float | None = None,
    service_seconds: float | None = None,
    message_seconds: float | None = None,
    seconds: float = 5.0,
    study: bool = False,
    report: str | None = None,
    json: bool = False,
) -> None:
    """Measures and predicts speed-up, staleness and load of masters for any number of workers.

    A discrete-event simulation from the times of a step, of a master's update and of a message, which
    are given or measured here. A prediction is marked as such. NNLO's published curve stands beside
    ours, with what explains both.

    Args:
        workers: Start a master and this many workers here, such as 1,2,4, whose step sleeps, and
            predict from the times of one.
        predict: Numbers of workers, such as 8,20,100,128.
        masters: Numbers of masters that serve them, such as 1,4; above 1, rank 0 is above them.
        preset: {presets}.
        mode: Update rule of the master.
        sync_every: Steps of a worker between two exchanges.
        step_seconds: Of a step. Default: measured here with one thread; with --workers 0.05.
        service_seconds: Of a master, per update. Default: its update, measured here, with two copies.
        message_seconds: One way. Default: a copy of the weights in memory.
        seconds: Duration of each measured world.
        study: Add the table of what staleness does to each update rule on a noisy quadratic (half a
            minute).
        report: File to write as well: .html, .md or .csv.
        json: Print the result as JSON.
    """
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

    find_preset(preset)
    check_report(report)
    layouts = parse_counts("predict", predict, _COUNTS), parse_counts("masters", masters, _COUNTS)
    worlds = parse_counts("workers", workers, ranges.FLAGS["workers"]) if workers else []
    if worlds and (service_seconds or message_seconds):
        raise ConfigError(
            "--workers measures the times of an exchange: omit --service-seconds and --message-seconds"
        )
    with progress_bars(as_json=json) as progress:
        shared: dict[str, Any] = {"preset": preset, "mode": mode, "sync_every": sync_every}
        if worlds:
            step = step_seconds or _SLEEP_SECONDS
            measured, times, origin = measure_worlds(
                worlds, step=step, seconds=seconds, progress=progress, **shared
            )
            found = forecast(times, origin, *layouts, measured)
        else:
            times, origin = find_times(
                step=step_seconds,
                service=service_seconds,
                message=message_seconds,
                progress=progress,
                **shared,
            )
            found = forecast(times, origin, *layouts)
        rows = run_study(progress) if study else []
    if json:
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
    if report:
        write_report_file(forecast_page(found, [study_table(rows)] if rows else []), report)
