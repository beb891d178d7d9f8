"""Metrics of runs in Prometheus' text format, for a textfile collector or a Pushgateway.

An unknown value has no sample: zero would be a value.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ (2026-11-22), version 0.0.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from cloudgan.cost.estimation.measured_runs import CORES_PER_CHIP
from cloudgan.schema.run_state import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from cloudgan.api.runs import RunStatus
    from cloudgan.schema.plan import Plan


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


def run_metrics(runs: Iterable[RunStatus]) -> Iterator[Metric]:
    """Yields the metrics of runs; each has the labels run and provider."""
    found = tuple(runs)
    yield Metric(
        "cloudgan_run_state",
        "gauge",
        "1 for the state of the run, 0 for the others.",
        tuple(
            (_labels(one.plan) | {"state": state}, int(one.phase == state))
            for one in found
            for state in get_args(Phase)
        ),
    )
    values: dict[str, tuple[Literal["counter", "gauge"], str, Callable[[RunStatus], float | None]]]
    values = {
        "usd_total": ("counter", "USD for nodes so far, of all attempts.", _usd),
        "usd_per_hour": ("gauge", "USD per hour of the nodes that run now.", usd_per_hour),
        "epoch": ("gauge", "Current epoch, from 0.", _epoch),
        "step": ("gauge", "Finished training steps.", _step),
        "showers_per_second": ("gauge", "Showers per second of all workers.", showers_per_second),
    }
    for name, (kind, text, value_of) in values.items():
        known = ((one, value_of(one)) for one in found)
        samples = tuple((_labels(one.plan), value) for one, value in known if value is not None)
        yield Metric(f"cloudgan_run_{name}", kind, text, samples)


def usd_per_hour(found: RunStatus) -> float | None:
    """Returns the price of the nodes that run now; None: unknown."""
    price, state = found.plan.price, found.state
    if price is None:
        return None
    if state.nodes is not None:
        return price.hourly_usd(sum(node.terminated_at is None for node in state.nodes))
    if found.plan.node_pool:  # nodes of a cloud outlive their job: their number is unknown
        return 0.0 if state.phase == "absent" else None
    return 0.0 if state.is_over or state.phase == "waiting" else found.plan.usd_per_hour


def showers_per_second(found: RunStatus) -> float | None:
    """Returns the showers per second of all workers; None: unknown, or not training."""
    beat, plan = found.heartbeat, found.plan
    if found.phase != "running" or beat is None or beat.phase != "training":
        return None
    if not beat.steps_per_second:  # 0: the trainer has not finished two steps
        return None
    training, workers = plan.config.training, plan.workers
    accelerator = plan.price.accelerator if plan.price else workers.accelerator
    replicas = workers.accelerators_per_node * CORES_PER_CHIP.get(accelerator or "", 1)
    replicas = (replicas or training.replicas or 1) * workers.nodes
    batch = training.global_batch_size or plan.config.global_batch(replicas)
    return beat.steps_per_second * batch


def _usd(found: RunStatus) -> float | None:
    return found.usd_so_far


def _epoch(found: RunStatus) -> float | None:
    return found.heartbeat.epoch if found.heartbeat else None


def _step(found: RunStatus) -> float | None:
    return found.heartbeat.step if found.heartbeat else None


def _labels(plan: Plan) -> dict[str, str]:
    return {"run": plan.run, "provider": plan.target.provider}


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quote else text
