from __future__ import annotations

import pytest

import records
from cloudgan.schema.record import Epoch, Line, Numerics, RunRecord, Started
from records import stopped

NUMERICS = Numerics.model_construct()  # no cost depends on what is in it


def started(step: int = 0) -> Started:
    sizes = {"training_showers": 100, "held_out_showers": 10}
    return records.started(step, numerics=NUMERICS, git_commit="c0ffee", **sizes)


def epoch(number: int, seconds: float, *, first: bool = False, rate: float = 100) -> Epoch:
    traced = {"first": first, "trace_seconds": 1 if first else 0}
    return records.epoch(number, seconds, samples=320, samples_per_second=rate, **traced)


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
