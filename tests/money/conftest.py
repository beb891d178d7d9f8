from __future__ import annotations

import pytest

from cloudgan.core.hardware import Hardware
from cloudgan.schema.record import Epoch, Line, Numerics, Resumed, RunRecord, Started, Stopped

NUMERICS = Numerics.model_construct()  # no cost depends on what is in it


def started(step: int = 0) -> Started:
    return Started(
        time="2026-11-21T12:00:00Z",
        step=step,
        config_hash="abc",
        training_showers=100,
        held_out_showers=10,
        hardware=Hardware(processor="a chip", cores=2, memory_gib=4),
        numerics=NUMERICS,
        versions={},
        git_commit="c0ffee",
        strategy="one",
        loop="custom",
        learning_rate=0.001,
        notes=(),
        startup_seconds=5,
    )


def epoch(number: int, seconds: float, *, first: bool = False, rate: float = 100) -> Epoch:
    return Epoch(
        time="2026-11-21T12:00:00Z",
        step=10 * (number + 1),
        epoch=number,
        first=first,
        complete=True,
        steps=10,
        samples=320,
        carried_samples=0,
        dropped_samples=0,
        train_seconds=seconds,
        trace_seconds=1 if first else 0,
        validation_seconds=2,
        checkpoint_seconds=1,
        samples_per_second=rate,
        losses={},
        held_out_losses=None,
    )


def stopped(step: int, seconds: float) -> Stopped:
    return Stopped(
        time="2026-11-21T12:00:00Z",
        step=step,
        reason="finished",
        program_seconds=seconds,
        train_seconds=seconds,
    )


def resumed(step: int) -> Resumed:
    return Resumed(time="2026-11-21T12:00:00Z", step=step, path="p", reproducibility_changes=())


def plain_run(seconds: float) -> tuple[Line, ...]:
    """A start of 5 s, a tracing epoch of 20 s, three of 10 s, and the end after `seconds`."""
    return (
        started(),
        epoch(0, 20, first=True, rate=90),
        epoch(1, 10),
        epoch(2, 10),
        epoch(3, 10),
        stopped(40, seconds),
    )


@pytest.fixture
def lines() -> tuple[Line, ...]:
    return plain_run(65)


@pytest.fixture
def record(lines: tuple[Line, ...]) -> RunRecord:
    return RunRecord(lines=lines)
