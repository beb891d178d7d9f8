"""Seconds of a rank by routine, and what all ranks did when, as a trace that Perfetto and Chrome open.

The trace is the JSON object form of the Trace Event Format: complete events (`X`) in microseconds, and
metadata events (`M`) that name processes and threads; each rank is a process. Source:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clock import utc_moment
from cloudgan.ranks.layout import Layout, Role
from cloudgan.ranks.mpi import ANSWER_SECONDS, World

MOST_SPANS = 100_000
"""Of all ranks: about 10 MB."""

_FEWEST_SPANS = 100
_MICRO = 1e6
_TAG = 64
"""Of spans on their way to rank 0; beyond those of `messages.Tag`."""


@dataclass
class Seconds:
    """Seconds of a rank by routine, since it joined.

    `train` is of a worker's steps; `gather` of weights copied from the device and what is sent computed
    from them; `update` of weights moved by the rule and copied to the device; `wait` for an answer, of a
    master for messages; `validate` of quality metrics of a master, by another thread; `save` of
    checkpoints.
    """

    train: float = 0.0
    gather: float = 0.0
    update: float = 0.0
    wait: float = 0.0
    validate: float = 0.0
    save: float = 0.0


ROUTINES = tuple(field.name for field in fields(Seconds))


class Profile:
    """Adds up what a rank does, and keeps its spans for a trace.

    Attributes:
        seconds: By routine, since the rank joined.
        left_out: Spans between the first and the last half of those that are kept.
    """

    def __init__(self, most_spans: int = 0) -> None:
        """`most_spans` are kept; 0: there is no trace."""
        self.seconds, self.left_out = Seconds(), 0
        self._half = most_spans // 2
        # Seconds since 1970 at 0 of `time.perf_counter`.
        self._origin = utc_moment().timestamp() - time.perf_counter()
        self._first: list[tuple[int, float, float, int]] = []
        self._last: deque[tuple[int, float, float, int]] = deque(maxlen=self._half)

    @property
    def has_spans(self) -> bool:
        """Whether spans are kept."""
        return self._half > 0

    def spent(self, routine: str, began: float, ended: float, *, is_beside: bool = False) -> None:
        """Counts the time from `began` to `ended`, both of `time.perf_counter`."""
        setattr(self.seconds, routine, getattr(self.seconds, routine) + ended - began)
        self.show(routine, began, ended, is_beside=is_beside)

    def show(self, routine: str, began: float, ended: float, *, is_beside: bool = False) -> None:
        """Adds a span to the trace only."""
        span = (ROUTINES.index(routine), began, ended, int(is_beside))
        if len(self._first) < self._half:
            self._first.append(span)
        elif self._half:
            self.left_out += len(self._last) == self._half
            self._last.append(span)

    def as_json(self) -> dict[str, Any]:
        """Returns the spans in microseconds since 1970."""
        spans = [
            (routine, *(round((at + self._origin) * _MICRO) for at in (began, ended)), thread)
            for routine, began, ended, thread in (*self._first, *self._last)
        ]
        return {"spans": spans, "left_out": self.left_out}


def most_spans(ranks: int) -> int:
    """Returns how many spans each of the ranks of a world keeps."""
    return max(_FEWEST_SPANS, MOST_SPANS // ranks)


def write_trace(world: World, layout: Layout, path: Path, profile: Profile) -> None:
    """Writes the spans of all ranks to a file; all ranks call it, and rank 0 writes."""
    if world.rank:
        world.send_json(profile.as_json(), 0, _TAG)
        return
    found = [profile.as_json()]
    for rank in range(1, world.size):
        message = world.wait(rank, _TAG, seconds=ANSWER_SECONDS)
        found.append(world.receive_json(message))
    write_atomic(path, json.dumps(trace_events(layout, found)).encode())


def trace_events(layout: Layout, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the trace of all ranks."""
    origin = min((span[1] for each in found for span in each["spans"]), default=0)
    events: list[dict[str, Any]] = []
    for role, each in zip(layout.roles, found, strict=True):
        events += _names(role, {thread for *_, thread in each["spans"]})
        events += (
            {
                "name": ROUTINES[routine],
                "cat": "master" if role.is_master else "worker",
                "ph": "X",
                "ts": began - origin,
                "dur": ended - began,
                **_place(role.rank, thread),
            }
            for routine, began, ended, thread in sorted(each["spans"], key=lambda span: span[1])
        )
    left_out = {str(rank): each["left_out"] for rank, each in enumerate(found) if each["left_out"]}
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"layout": layout.describe(), "spans_left_out_by_rank": left_out},
    }


def _place(rank: int, thread: int) -> dict[str, int]:
    """Returns process and thread; 0 is the idle process of Perfetto."""
    return {"pid": rank + 1, "tid": 2 * rank + thread + 1}


def _names(role: Role, threads: set[int]) -> list[dict[str, Any]]:
    kind = role.kind if role.worker is None else f"worker {role.worker}"
    member = f", member {role.member}" if role.member else ""
    labels = {"process_name": {"name": f"rank {role.rank}: {kind}{member}"}}
    rows = [
        {"name": name, "ph": "M", "args": args, **_place(role.rank, 0)}
        for name, args in (labels | {"process_sort_index": {"sort_index": role.rank}}).items()
    ]
    rows += (
        {
            "name": "thread_name",
            "ph": "M",
            "args": {"name": "validation" if thread else "rank"},
            **_place(role.rank, thread),
        }
        for thread in sorted(threads)
    )
    return rows
