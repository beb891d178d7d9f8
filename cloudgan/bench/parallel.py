"""`bench parallel`: speed-up of masters and workers, from times measured here, and predictions for any number.

Without times from ranks, the step is that of `bench step` with one thread, the service of a master is its update
and the copies of what it receives and sends, and a message is one more copy in memory: a lower bound, as messages
between nodes take longer.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cloudgan.bench.harness import Measurement, Row
from cloudgan.bench.sleeping_ranks import run_world
from cloudgan.bench.step import plain_step
from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.progress import Progress
from cloudgan.gan.footprint import learned
from cloudgan.parallel.prediction import NNLO, NNLO_PUBLISHED, SteadyState, Times, predict
from cloudgan.parallel.update_rules import make_rule
from cloudgan.reports.charts import Axis, Line, Plot, Point, PointSeries
from cloudgan.reports.table import Cell, Table
from cloudgan.schema.config import RunConfig
from cloudgan.schema.options.bench import BenchParallelOptions
from cloudgan.schema.parallel import ParallelConfig
from cloudgan.schema.presets import find_preset

_SLEEP_SECONDS = 0.05
_REPEATS = 30
_CURVE_WORKERS = (1, 2, 4, 8, 15, 20, 30, 40, 60, 80, 100)
_TABLE_WORKERS = (2, 8, 15, 20, 40, 100)


def measure(options: BenchParallelOptions, progress: Progress) -> Measurement:
    """Measures the times that are not given, and predicts layouts from them."""
    if options.workers and (options.service_seconds or options.message_seconds):
        raise ConfigError(
            "--workers measures the times of an exchange: omit --service-seconds and --message-seconds"
        )
    if not options.workers and min(options.masters) > (most := max(options.predict)):
        raise ConfigError(
            f"--masters={','.join(map(str, options.masters))}: each master needs a worker, and --predict has at most"
            f" {most}"
        )
    measured: list[dict[str, Any]] = []
    if options.workers:
        measured, times, origin = measure_worlds(options, progress)
    else:
        times, origin = find_times(options, progress)
    return parallel_measurement(times, origin, options.predict, options.masters, measured)


def find_times(options: BenchParallelOptions, progress: Progress) -> tuple[Times, str]:
    """Returns times and a sentence on their origin; measures those that are not given."""
    given = {
        "step": options.step_seconds,
        "service": options.service_seconds,
        "message": options.message_seconds,
    }
    values = {name: value for name, value in given.items() if value is not None}
    how = dict.fromkeys(values, "given")
    if not {"service", "message"} <= values.keys():
        progress.start("timing the master's update")
        values = _service_and_message(options) | values
        how = {
            "service": "measured here (the update with the copies of a receive and a send)",
            "message": "measured here (a copy in memory, a lower bound)",
        } | how
    if "step" not in values:
        found = plain_step(options.preset, {"threads": 1}, 5, progress)
        values["step"] = found.spread("seconds_per_step").median
        how["step"] = "measured here (a step with one thread)"
    origin = "; ".join(f"{name} {1e3 * values[name]:.3g} ms, {how[name]}" for name in given)
    return Times(**values, sync_every=options.sync_every), f"Times: {origin}."


def _service_and_message(options: BenchParallelOptions) -> Row:
    """Returns CPU seconds of a master's update with the two copies of a receive and a send, and of one copy.

    They are medians, which other load on the machine hardly changes.
    """
    size = sum(learned(find_preset(options.preset)))
    rng = np.random.default_rng(0)
    centre, received, answer = (rng.normal(size=size).astype(np.float32) for _ in range(3))
    parallel = ParallelConfig(mode=options.mode)
    rule = make_rule(parallel, workers=8, trainable=size, learning_rate=1e-3)
    service, copy = [], []
    for _ in range(_REPEATS):
        began = time.thread_time()
        answer[:] = received
        copy.append(time.thread_time() - began)
        answer[:] = centre
        rule.at_master(centre, received, staleness=3)
        service.append(time.thread_time() - began)
    return {"service": statistics.median(service), "message": statistics.median(copy)}


def measure_worlds(
    options: BenchParallelOptions, progress: Progress
) -> tuple[list[dict[str, Any]], Times, str]:
    """Measures worlds whose step sleeps, first that of one worker.

    Returns:
        A row of `run_world` for each; the times of the one with one worker, and their origin.
    """
    counts, every = sorted({1, *options.workers}), options.sync_every
    sleep = options.step_seconds or _SLEEP_SECONDS
    steps = every * math.ceil(options.seconds / sleep / every)
    found = []
    progress.start("ranks whose step sleeps", len(counts), "worlds")
    for count in counts:
        asked = {
            "model": {"preset": options.preset},
            "training": {"max_steps": steps * count},
            "parallel": {"mode": options.mode, "ranks": count + 1, "sync_every": every},
        }
        config = RunConfig.model_validate(asked)
        with TemporaryDirectory() as folder:
            values = sum(learned(config.model))
            run = Path(folder) / "run"
            found.append(run_world(run, config, values=values, sleep_seconds=sleep))
        progress.advance()
    step, service = found[0]["step_seconds"], found[0]["service_seconds"]
    message = max(0.0, (found[0]["exchange_seconds"] - service) / 2)
    origin = (
        f"Times: measured with one worker whose step sleeps {1e3 * sleep:g} ms (takes {1e3 * step:.3g} ms):"
        f" service {1e3 * service:.3g} ms; message {1e3 * message:.3g} ms."
    )
    return found, Times(step, service, message, sync_every=every), origin


def parallel_measurement(
    times: Times,
    origin: str,
    workers: Sequence[int],
    masters: Sequence[int],
    measured: Sequence[Mapping[str, Any]] = (),
) -> Measurement:
    """Predicts layouts and shows them beside those that were measured, and beside NNLO's curve.

    Each number of workers is predicted under each number of masters that has a worker for each, those of a
    measured world, whose step sleeps, under one. `origin` says where each of the times is from.
    """
    layouts = [(int(each["workers"]), 1) for each in measured]
    layouts += [(n, m) for n in workers for m in masters if m <= n]
    predicted = [predict(times, n, masters=m) for n, m in layouts]
    ours, nnlo = ({n: predict(one, n) for n in _CURVE_WORKERS} for one in (times, NNLO))
    last, plain = predicted[-1], times.plain_step or times.step
    who = f"{counted(last.workers, 'worker')}, {counted(last.masters, 'master')}"
    said = f"{who}: speed-up {last.speedup:.1f}, predicted"
    theirs_said = (
        "NNLO's curve follows from two numbers: a distributed worker takes twice the time of a plain"
        " training, so each adds half a worker, and the master a twentieth of a plain step per update,"
        " so no number of workers exceeds 20."
    )
    ours_said = (
        f"Here a worker's step takes {times.step / plain:.3g} times a plain one, and a master"
        f" {1e3 * times.service:.3g} ms for each update of {counted(times.sync_every, 'step')}, {1e3 * plain:.3g}"
        f" ms each: one master limits the speed-up to {plain * times.sync_every / times.service:,.0f}."
        f" {origin}"
    )
    caption = "Predicted by discrete-event simulation, not measured"
    rows = [_layout("predicted", each) for each in predicted]
    worlds = []
    if measured:
        caption = "Ranks on this machine whose step sleeps, and discrete-event simulation"
        rows = [_layout("measured", _state_of(each, times)) for each in measured] + rows
        one = measured[0]["steps_per_second"]
        exchanges = [_exchange(each, one) for each in measured]
        worlds = [Table.of(exchanges, "Exchange, and the master per update", align="r" * 8)]
    return Measurement(
        title="How many workers can masters serve?",
        times={
            "step_seconds": times.step,
            "plain_step_seconds": plain,
            "service_seconds": times.service,
            "message_seconds": times.message,
            "sync_every": times.sync_every,
            "origin": origin,
        },
        measured=[
            {"name": counted(each["workers"], "worker")}
            | {key: each[key] for key in each if key != "centre"}
            for each in measured
        ],
        predicted=[each.as_json() for each in predicted],
        nnlo={
            "published": {str(n): value for n, value in NNLO_PUBLISHED.items()},
            "predicted": [each.as_json() for each in nnlo.values()],
        },
        explanation=[theirs_said, ours_said],
        lines=(said, theirs_said, ours_said),
        tables=(
            Table.of(rows, caption, align="l" + "r" * 8),
            *worlds,
            _beside_nnlo(nnlo, ours),
        ),
        pictures=lambda: (_plot(predicted, measured, ours, nnlo),),
    )


def _state_of(world: Mapping[str, Any], times: Times) -> SteadyState:
    """Returns a measured world as predictions are."""
    return SteadyState(
        workers=int(world["workers"]),
        masters=1,
        speedup=world["speedup"],
        staleness=world["staleness"],
        master_load=world["service_seconds"] * world["steps_per_second"] / times.sync_every,
        top_load=None,
        waiting=1 - world["speedup"] / world["workers"],
    )


def _layout(kind: str, one: SteadyState) -> dict[str, Cell]:
    return {
        "kind": kind,
        "workers": one.workers,
        "masters": one.masters,
        "speed-up": f"{one.speedup:.1f}",
        "per worker": f"{one.speedup / one.workers:.2f}",
        "staleness": f"{one.staleness:.1f}",
        "master load": f"{one.master_load:.0%}",
        "rank 0 load": "-" if one.top_load is None else f"{one.top_load:.0%}",
        "workers wait": f"{one.waiting:.0%}",
    }


def _exchange(one: Mapping[str, Any], of_one_worker: float) -> dict[str, Cell]:
    """Returns what the exchange and the master cost, and the speed over that of as many single workers."""
    memory = one["peak_memory_bytes"]
    return {
        "workers": one["workers"],
        "steps/s": f"{one['steps_per_second']:.1f}",
        "of n times one": f"{one['steps_per_second'] / one['workers'] / of_one_worker:.2f}",
        "exchange ms": f"{1e3 * one['exchange_seconds']:.1f}",
        "master ms": f"{1e3 * one['service_seconds']:.1f}",
        "its CPU ms": f"{1e3 * one['service_cpu_seconds']:.1f}",
        "CPU while waiting": f"{one['waiting_cpu_share']:.1%}",
        "peak MiB": "-" if memory is None else f"{memory / 2**20:.0f}",
    }


def _beside_nnlo(nnlo: dict[int, SteadyState], ours: dict[int, SteadyState]) -> Table:
    """Returns NNLO's published speed-ups beside their reproduction and ours."""
    heads = (
        *("workers", "NNLO, published", "NNLO, predicted", "master load"),
        *("cloudgan, predicted", "master load"),
    )
    rows: list[tuple[Cell, ...]] = []
    for n in _TABLE_WORKERS:
        published = f"{NNLO_PUBLISHED[n]:g}" if n in NNLO_PUBLISHED else "-"
        both = ((f"{one[n].speedup:.1f}", f"{one[n].master_load:.0%}") for one in (nnlo, ours))
        rows.append((n, published, *chain.from_iterable(both)))
    return Table(heads, tuple(rows), "Speed-up under one master beside NNLO's", "r" * 6)


def _plot(
    predicted: Sequence[SteadyState],
    measured: Sequence[Mapping[str, Any]],
    ours: dict[int, SteadyState],
    nnlo: dict[int, SteadyState],
) -> Plot:
    """Returns the speed-up over workers: points of layouts, and lines for one master."""
    points: dict[str, list[tuple[float, float, str]]] = {
        "measured, step sleeps": [(n["workers"], n["speedup"], "") for n in measured],
        "predicted": [
            (n.workers, n.speedup, f", {counted(n.masters, 'master')}") for n in predicted
        ],
        "NNLO, published": [(n, y, "") for n, y in NNLO_PUBLISHED.items()],
    }
    workers = tuple(map(float, _CURVE_WORKERS))
    lines = {
        "ideal": workers,
        "one master, predicted": tuple(one.speedup for one in ours.values()),
        "NNLO, predicted": tuple(one.speedup for one in nnlo.values()),
    }
    return Plot(
        "Speed-up over a plain training",
        Axis("workers", from_zero=True),
        Axis("speed-up", from_zero=True),
        tuple(
            PointSeries(
                name,
                tuple(Point(n, y, f"{counted(int(n), 'worker')}{more}") for n, y, more in several),
            )
            for name, several in points.items()
        ),
        tuple(Line(name, workers, y) for name, y in lines.items()),
    )
