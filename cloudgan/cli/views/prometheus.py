"""Metrics of runs in Prometheus' text format, for a textfile collector or a Pushgateway.

An unknown value has no sample: zero would be a value.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (2026-11-22), version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

from cloudgan.launch.operations.run_status import RunList, RunStatus, State


class Metric(NamedTuple):
    """A metric with its samples: labels and value of each."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: tuple[tuple[Mapping[str, str], float], ...]


def exposition(metrics: Iterable[Metric]) -> str:
    """Returns metrics in the text format; one without samples is left out."""
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
    ("usd_total", "counter", "USD for nodes so far, of all attempts.", lambda one: one.usd),
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
