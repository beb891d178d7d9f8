"""Speed-up of masters and workers: times measured here, and predictions for other numbers of workers.

Without times from ranks, the step is that of `bench step` with one thread, the service of a master is
its update and the copies of what it receives and sends, and a message is one more copy in memory: a
lower bound, as messages between nodes take longer.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.bench.measurement import spread
from cloudgan.bench.sleeping_ranks import SleepRequest, run_world
from cloudgan.bench.step import make_variant, measure_step
from cloudgan.models.footprint import learned
from cloudgan.parallel.prediction import NNLO, NNLO_PUBLISHED, Prediction, Times, predict
from cloudgan.parallel.update_rules import make_rule
from cloudgan.reports.page import Page, Paragraph, Section
from cloudgan.reports.plot_frame import Axis
from cloudgan.reports.scatter import BandLine, BandPlot, Point, PointSeries
from cloudgan.reports.table import Table
from cloudgan.schema.config import RunConfig
from cloudgan.schema.parallel import ParallelConfig
from cloudgan.schema.presets import find_preset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloudgan.bench.sleeping_ranks import MeasuredWorld
    from cloudgan.core.progress import Progress
    from cloudgan.reports.page import Block
    from cloudgan.schema.parallel import ParallelMode

_REPEATS = 30
_PLOT_WORKERS = (1, 2, 4, 8, 15, 20, 30, 40, 60, 80, 100)


@dataclass(frozen=True)
class Forecast:
    """Predicted layouts, and NNLO's curve beside them.

    Attributes:
        times: Of steps and exchanges.
        origin: Where each of the times is from.
        layouts: For each requested number of workers and of masters.
        curve: One master, for the plot.
        nnlo: With NNLO's times, for the workers of `curve`.
        measured: Worlds on this machine whose step sleeps; the first one gave the times.
    """

    times: Times
    origin: str
    layouts: tuple[Prediction, ...]
    curve: tuple[Prediction, ...]
    nnlo: tuple[Prediction, ...]
    measured: tuple[MeasuredWorld, ...] = ()


def measure_service(preset: str, mode: ParallelMode) -> tuple[float, float]:
    """Measures an update of a master, and a copy of the weights.

    Args:
        preset: Preset whose weights are exchanged.
        mode: Update rule.

    Returns:
        CPU seconds of an update with the two copies of a receive and a send, and of one copy: medians,
        which other load on the machine hardly changes.
    """
    size = sum(learned(find_preset(preset)))
    rng = np.random.default_rng(0)
    centre, received, answer = (rng.normal(size=size).astype(np.float32) for _ in range(3))
    rule = make_rule(ParallelConfig(mode=mode), workers=8, trainable=size, learning_rate=1e-3)
    service, copy = [], []
    for _ in range(_REPEATS):
        began = time.thread_time()
        answer[:] = received
        copied = time.thread_time()
        answer[:] = centre
        rule.at_master(centre, received, staleness=3)
        service.append(time.thread_time() - began)
        copy.append(copied - began)
    return spread(service).median, spread(copy).median


def measure_plain_step(preset: str, progress: Progress, rounds: int = 5) -> float:
    """Measures a training step of the preset with one thread, in seconds.

    Raises:
        CloudganError: The process of the measurement died.
    """
    variant = make_variant("auto", preset, {"threads": 1}, {})
    result = measure_step(variant, None, rounds=rounds, layers=False, progress=progress)
    return result.own.seconds.median


def find_times(
    *,
    preset: str,
    mode: ParallelMode,
    sync_every: int,
    step: float | None,
    service: float | None,
    message: float | None,
    progress: Progress,
) -> tuple[Times, str]:
    """Returns times and a sentence on their origin; measures those that are None.

    Args:
        preset: Preset whose step and weights are measured.
        mode: Update rule of the master.
        sync_every: Steps between two exchanges.
        step: Seconds of a step.
        service: Seconds of a master per update.
        message: Seconds of a message.
        progress: Receives each measurement.

    Raises:
        CloudganError: The process that measures the step died.
    """
    measured = {}
    if service is None or message is None:
        progress.start("timing the master's update")
        measured["service"], measured["message"] = measure_service(preset, mode)
    if step is None:
        measured["step"] = measure_plain_step(preset, progress)
    how = {
        "step": (step, "a step with one thread"),
        "service": (service, "the update with the copies of a receive and a send"),
        "message": (message, "a copy in memory, a lower bound"),
    }
    origin = "; ".join(
        f"{name} {1e3 * (measured[name] if value is None else value):.3g} ms,"
        f" {f'measured here ({text})' if value is None else 'given'}"
        for name, (value, text) in how.items()
    )
    step, service, message = (
        measured[name] if value is None else value for name, (value, _) in how.items()
    )
    return Times(step, service, message, sync_every=sync_every), f"Times: {origin}."


def measure_worlds(
    workers: Sequence[int],
    *,
    preset: str,
    mode: ParallelMode,
    step: float,
    sync_every: int,
    seconds: float,
    progress: Progress,
) -> tuple[tuple[MeasuredWorld, ...], Times, str]:
    """Measures worlds whose step sleeps, first that of one worker.

    Args:
        workers: Of each world.
        preset: Preset whose weights are exchanged.
        mode: Update rule.
        step: Seconds of a step.
        sync_every: Steps between two exchanges.
        seconds: Duration of each world.
        progress: Receives each world.

    Returns:
        The worlds; the times of the one with one worker, and their origin.

    Raises:
        ConfigError: mpiexec or mpi4py is not installed.
        CloudganError: A world failed.
    """
    counts = sorted({1, *workers})
    steps = sync_every * math.ceil(seconds / step / sync_every)
    found = []
    progress.start("ranks whose step sleeps", len(counts), "worlds")
    for count in counts:
        config = RunConfig.model_validate(
            {
                "model": {"preset": preset},
                "training": {"max_steps": steps * count},
                "parallel": {"mode": mode, "ranks": count + 1, "sync_every": sync_every},
            }
        )
        with TemporaryDirectory() as folder:
            request = SleepRequest(
                folder=Path(folder) / "run",
                config=config,
                values=sum(learned(find_preset(preset))),
                sleep_seconds=step,
            )
            found.append(run_world(request))
        progress.advance()
    one = found[0]
    times = Times(
        one.step_seconds,
        one.service_seconds,
        max(0.0, (one.exchange_seconds - one.service_seconds) / 2),
        sync_every=sync_every,
    )
    origin = (
        f"Times: measured with one worker whose step sleeps {1e3 * step:g} ms (takes"
        f" {1e3 * one.step_seconds:.3g} ms): service {1e3 * one.service_seconds:.3g} ms; message"
        f" {1e3 * times.message:.3g} ms."
    )
    return tuple(found), times, origin


def forecast(
    times: Times,
    origin: str,
    workers: Sequence[int],
    masters: Sequence[int],
    measured: tuple[MeasuredWorld, ...] = (),
) -> Forecast:
    """Predicts each number of workers under each number of masters that has a worker for each.

    The worlds that were measured are predicted with one master.
    """
    again = (predict(times, each.workers) for each in measured)
    return Forecast(
        times,
        origin,
        (*again, *(predict(times, n, masters=m) for n in workers for m in masters if m <= n)),
        tuple(predict(times, n) for n in _PLOT_WORKERS),
        tuple(predict(NNLO, n) for n in _PLOT_WORKERS),
        measured,
    )


def forecast_table(found: Forecast) -> Table:
    """Returns a row per layout, measured ones first."""
    measured = tuple(
        (
            "measured",
            each.workers,
            1,
            f"{each.speedup:.1f}",
            f"{each.speedup / each.workers:.2f}",
            f"{each.staleness:.1f}",
            f"{each.service_seconds * each.steps_per_second / found.times.sync_every:.0%}",
            "-",
            f"{1 - each.speedup / each.workers:.0%}",
        )
        for each in found.measured
    )
    rows = tuple(
        (
            "predicted",
            each.workers,
            each.masters,
            f"{each.speedup:.1f}",
            f"{each.speedup / each.workers:.2f}",
            f"{each.staleness:.1f}",
            f"{each.master_load:.0%}",
            "-" if each.top_load is None else f"{each.top_load:.0%}",
            f"{each.waiting:.0%}",
        )
        for each in found.layouts
    )
    heads = (
        *("kind", "workers", "masters", "speed-up", "per worker", "staleness"),
        *("master load", "rank 0 load", "workers wait"),
    )
    caption = "Predicted by discrete-event simulation, not measured"
    if measured:
        caption = "Ranks on this machine whose step sleeps, and discrete-event simulation"
    return Table(heads, (*measured, *rows), caption, "l" + "r" * 8)


def measured_table(found: Forecast) -> Table:
    """Returns what the exchange and the master cost in each measured world."""
    one = found.measured[0].steps_per_second
    rows = tuple(
        (
            each.workers,
            f"{each.steps_per_second:.1f}",
            f"{each.steps_per_second / each.workers / one:.2f}",
            f"{1e3 * each.exchange_seconds:.1f}",
            f"{1e3 * each.service_seconds:.1f}",
            f"{1e3 * each.service_cpu_seconds:.1f}",
            f"{each.waiting_cpu_share:.1%}",
            "-" if each.peak_memory_bytes is None else f"{each.peak_memory_bytes / 2**20:.0f}",
        )
        for each in found.measured
    )
    heads = (
        *("workers", "steps/s", "of n times one", "exchange ms", "master ms", "its CPU ms"),
        *("CPU while waiting", "peak MiB"),
    )
    return Table(heads, rows, "Exchange, and the master per update", "r" * 8)


def nnlo_table(found: Forecast) -> Table:
    """Returns NNLO's published speed-ups beside their reproduction and ours."""
    theirs = {each.workers: each for each in found.nnlo}
    ours = {each.workers: each for each in found.curve}
    rows = tuple(
        (
            n,
            f"{NNLO_PUBLISHED[n]:g}" if n in NNLO_PUBLISHED else "-",
            f"{theirs[n].speedup:.1f}",
            f"{theirs[n].master_load:.0%}",
            f"{ours[n].speedup:.1f}",
            f"{ours[n].master_load:.0%}",
        )
        for n in (2, 8, 15, 20, 40, 100)
    )
    heads = (
        *("workers", "NNLO, published", "NNLO, predicted", "master load"),
        *("cloudgan, predicted", "master load"),
    )
    return Table(heads, rows, "Speed-up under one master beside NNLO's", "r" * 6)


def explanation(found: Forecast) -> tuple[str, ...]:
    """Returns what explains both curves."""
    times = found.times
    plain = times.plain_step or times.step
    limit = plain * times.sync_every / times.service
    nnlo = (
        "NNLO's curve follows from two numbers: a distributed worker takes twice the time of a plain"
        " training, so each adds half a worker, and the master a twentieth of a plain step per update,"
        " so no number of workers exceeds 20."
    )
    ours = (
        f"Here a worker's step takes {times.step / plain:.3g} plain steps, and a master"
        f" {1e3 * times.service:.3g} ms for each update of {times.sync_every} steps, {1e3 * plain:.3g}"
        f" ms each: one master limits the speed-up to {limit:,.0f}. {found.origin}"
    )
    return nnlo, ours


def forecast_json(found: Forecast) -> dict[str, Any]:
    """Returns times, predictions, and NNLO's curve."""
    times = found.times
    return {
        "times": {
            "step_seconds": times.step,
            "plain_step_seconds": times.plain_step or times.step,
            "service_seconds": times.service,
            "message_seconds": times.message,
            "sync_every": times.sync_every,
            "origin": found.origin,
        },
        "measured": [
            each.model_dump(exclude={"centre"}) | {"speedup": each.speedup}
            for each in found.measured
        ],
        "predicted": [each.as_json() for each in found.layouts],
        "nnlo": {
            "published": {str(n): value for n, value in NNLO_PUBLISHED.items()},
            "predicted": [each.as_json() for each in found.nnlo],
        },
        "explanation": list(explanation(found)),
    }


def forecast_page(found: Forecast, more: Sequence[Table] = ()) -> Page:
    """Returns the tables, and the speed-up with the ideal line.

    Args:
        found: The predictions.
        more: Tables of other parts of the benchmark.
    """
    blocks: tuple[Block, ...] = (
        _plot(found),
        forecast_table(found),
        *([measured_table(found)] if found.measured else []),
        nnlo_table(found),
        *(Paragraph(text) for text in explanation(found)),
        *more,
    )
    return Page("Masters and workers", sections=(Section("Speed-up", blocks),))


def _plot(found: Forecast) -> BandPlot:
    published = tuple(
        Point(n, value, f"{n} workers", "published") for n, value in NNLO_PUBLISHED.items()
    )
    predicted = tuple(
        Point(each.workers, each.speedup, f"{each.workers} workers, {each.masters} masters")
        for each in found.layouts
    )
    measured = tuple(
        Point(each.workers, each.speedup, f"{each.workers} workers") for each in found.measured
    )
    xs = tuple(float(n) for n in _PLOT_WORKERS)
    return BandPlot(
        "Speed-up over a plain training",
        Axis("workers", from_zero=True),
        Axis("speed-up", from_zero=True),
        (
            PointSeries("measured, step sleeps", measured),
            PointSeries("predicted", predicted),
            PointSeries("NNLO, published", published),
        ),
        (
            BandLine("ideal", xs, xs),
            BandLine("one master, predicted", xs, tuple(each.speedup for each in found.curve)),
            BandLine("NNLO, predicted", xs, tuple(each.speedup for each in found.nnlo)),
        ),
    )
