"""`cloudgan status`, `logs` and `serve`: what a person, or Prometheus, sees of runs while they go on."""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

from rich.console import Console
from rich.text import Text

from cloudgan.cli.emit import emit, print_json
from cloudgan.core.clock import utc_now
from cloudgan.core.command import body_of, command
from cloudgan.core.errors import CloudganError, ConfigError, OutputError, Terminated
from cloudgan.core.progress import Progress
from cloudgan.core.user_text import printable
from cloudgan.launch.operations import runs
from cloudgan.launch.operations.run_status import RunList, RunStatus, State
from cloudgan.reports.result import Result
from cloudgan.schema.options.runs import LogsOptions, ServeOptions, StatusOptions

_SECONDS = 2.0
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")


@command
def status(
    options: StatusOptions,
    *,
    progress: Progress,
    as_json: bool = False,
    verbose: bool = False,
) -> RunStatus | RunList | None:
    """Returns the state, or shows it until Ctrl-C."""
    if options.metrics and (as_json or options.watch):
        raise ConfigError("--metrics, --json and --watch are the whole output: give one of them")
    refresh = functools.partial(body_of(runs.status), options, progress=progress)
    if options.watch:
        seconds = _SECONDS if options.watch is True else options.watch
        watch(refresh, functools.partial(emit, as_json=as_json, verbose=verbose), seconds)
        return None
    found: RunStatus | RunList = refresh()
    if options.metrics:
        print(exposition(run_metrics(found)), end="")
        return None
    return found


@command
def logs(options: LogsOptions, *, as_json: bool = False) -> None:
    """Prints each line when it comes, one colour per worker."""
    console = Console(highlight=False, soft_wrap=True)
    for line in body_of(runs.logs)(options):
        if as_json:
            print(json.dumps({"worker": line.index, "time": line.time, "text": line.text}))
        else:
            prefix = Text(f"[{line.index}] ", style=_COLOURS[line.index % len(_COLOURS)])
            console.print(prefix + Text.from_ansi(line.text))
        sys.stdout.flush()


@command
def serve(options: ServeOptions, *, as_json: bool = False) -> None:
    """Serves all runs of this folder as a page until Ctrl-C, and prints the address."""
    from cloudgan.launch.operations.run_pages import RunServer

    with RunServer(options.port) as server:
        if as_json:
            print_json({"schema_version": 1, "url": server.url})
        else:
            print(server.url)
            print("all runs of this folder, for this machine only; Ctrl-C ends it", flush=True)
        server.wait()


_CLEAR = "\x1b[H\x1b[J"
"""Cursor to the first row, then erase to the end (ECMA-48, CUP and ED)."""
LEAST_SECONDS = 1.0


def watch(refresh: Callable[[], Result], show: Callable[[Result], None], seconds: float) -> None:
    """Shows what `refresh` returns every `seconds`: on a terminal in place, elsewhere one block below the other.

    Ctrl-C is its ordinary end. An error of a later refresh is shown, and the next one may succeed.

    Args:
        refresh: Returns the newest result.
        show: Prints it.
        seconds: Pause between two refreshes.

    Raises:
        ConfigError: The pause is too short.
        CloudganError: Of the first refresh.
    """
    if not seconds >= LEAST_SECONDS:
        raise ConfigError(f"--watch={seconds:g}: expected at least {LEAST_SECONDS:g} (seconds)")
    has_begun, is_terminal = False, sys.stdout.isatty()
    try:
        while True:
            result = problem = None
            try:
                result = refresh()
            except CloudganError as error:
                if not has_begun:
                    raise
                problem = error
            # After the refresh, which takes a while: the screen is never empty.
            print(_CLEAR if is_terminal else "\n" * has_begun, end="")
            print(f"{utc_now()}, every {seconds:g} s; Ctrl-C ends this, not the run")
            try:
                if result is not None:
                    show(result)
            except OutputError:
                raise
            except CloudganError as error:  # the problem of a result that is shown
                problem = error
            if problem is not None:
                print(printable(f"cloudgan: {problem}"))
            sys.stdout.flush()
            has_begun = True
            time.sleep(seconds)
    except Terminated:
        raise
    except KeyboardInterrupt:
        print()


class Metric(NamedTuple):
    """A metric with its samples: labels and value of each."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def exposition(metrics: Iterable[Metric]) -> str:
    """Returns metrics in Prometheus' text format, for a textfile collector or a Pushgateway.

    An unknown value has no sample: zero would be a value. A metric without samples is left out.

    Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (2026-11-22), version 0.0.4.
    """
    lines = []
    for metric in metrics:
        if metric.samples:
            lines.append(f"# HELP {metric.name} {_escaped(metric.help)}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
        for labels, value in metric.samples:
            pairs = ",".join(
                f'{name}="{_escaped(text, quote=True)}"' for name, text in labels.items()
            )
            lines.append(f"{metric.name}{{{pairs}}} {value!r}")
    return "".join(f"{line}\n" for line in lines)


def run_metrics(found: RunStatus | RunList) -> Iterator[Metric]:
    """Yields the metrics of runs; each has the labels run and provider."""
    runs = found.runs if isinstance(found, RunList) else (found,)
    yield Metric(
        "cloudgan_run_state",
        "gauge",
        "1 for the state of the run, 0 for the others.",
        tuple(
            (_labels(one) | {"state": state}, int(one.state == state))
            for one in runs
            for state in get_args(State)
        ),
    )
    for name, kind, text, value_of in _VALUES:
        known = ((one, value_of(one)) for one in runs)
        samples = tuple((_labels(one), value) for one, value in known if value is not None)
        yield Metric(f"cloudgan_run_{name}", kind, text, samples)


_Value = tuple[str, Literal["counter", "gauge"], str, Callable[[RunStatus], float | None]]
_VALUES: tuple[_Value, ...] = (
    (
        "usd_total",
        "counter",
        "USD so far of all that is billed, of all attempts.",
        lambda one: one.usd,
    ),
    (
        "usd_per_hour",
        "gauge",
        "USD per hour of the nodes that run now.",
        lambda one: one.usd_per_hour,
    ),
    ("epoch", "gauge", "Finished epochs.", lambda one: one.done if one.unit == "epochs" else None),
    ("step", "gauge", "Finished training steps.", lambda one: one.step),
    (
        "showers_per_second",
        "gauge",
        "Showers per second of all workers.",
        lambda one: one.showers_per_second,
    ),
)


def _labels(found: RunStatus) -> dict[str, str]:
    return {"run": found.run, "provider": found.provider}


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
