"""Timeouts of a worker, and the watchdog that detects a stalled trainer."""

from __future__ import annotations

import statistics
from collections import deque

from cloudgan.core.errors import MOST_RESTARTS
from cloudgan.schema.options.runs import WorkerOptions


class Timeouts(WorkerOptions):
    """Timeouts and intervals in seconds: those of the flags of `cloudgan worker`, and others.

    Attributes:
        barrier_seconds: Until all workers are ready. The Job controller replaces a pod that was lost often
            after 10 min (MaxJobPodFailureBackOff in kubernetes/pkg/controller/job/job_controller.go, read
            2026-11-25), which then has the gang timeout of 20 min to start: workers that gave up earlier
            would be replaced later and later themselves.
        stall_seconds: Until the next step, at least `stall_medians` times the median step time.
        store_seconds: Until the store works, and the identity of this pod, which may take minutes to be
            ready (https://cloud.google.com/iam/docs/access-change-propagation, read 2026-11-22).
        smoke_seconds: Until the smoke step prints another line or ends.
        end_seconds: For a trainer to exit by itself when a restart is needed.
        chief_timeout_seconds: Without a response of the chief.
        upload_seconds: For the final uploads.
        notice_every_seconds: Polling interval for preemption notices; None: the cloud's default.
    """

    store_seconds: float = 600.0
    smoke_seconds: float = 60.0
    stall_medians: float = 20.0
    end_seconds: float = 15.0
    chief_timeout_seconds: float = 20.0
    upload_seconds: float = 20.0
    fresh_seconds: float = 5.0
    join_every_seconds: float = 1.0
    resolve_every_seconds: float = 2.0
    record_every_seconds: float = 2.0
    heartbeat_every_seconds: float = 15.0
    log_every_seconds: float = 60.0
    store_retry_seconds: float = 5.0
    notice_every_seconds: float | None = None
    dump_seconds: float = 2.0
    poll_seconds: float = 0.1
    max_restarts: int = MOST_RESTARTS

    @property
    def trainer_grace_seconds(self) -> float:
        """The trainer's share of the grace period; the rest is for uploads."""
        return self.trainer_share_seconds(self.grace_seconds)

    def trainer_share_seconds(self, remaining_seconds: float) -> float:
        """The trainer's share of a remaining time."""
        return 0.6 * remaining_seconds


_REMEMBERED = 100


class Watchdog:
    """Detects a stalled trainer by its steps and their usual duration."""

    def __init__(self, timeouts: Timeouts, now_seconds: float) -> None:
        self._timeouts = timeouts
        self._step: int | None = None
        self._lines = 0
        self._moved = now_seconds
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)

    def saw_output(self, lines: int, now_seconds: float) -> None:
        """Counts output as progress until the first step is finished."""
        if self._step is None and lines != self._lines:
            self._lines, self._moved = lines, now_seconds

    def saw_step(self, step: int, now_seconds: float) -> None:
        """Records that `step` is finished."""
        if step == self._step:
            return
        if self._step is not None:
            self._intervals.append(now_seconds - self._moved)
        self._step, self._moved = step, now_seconds

    @property
    def limit_seconds(self) -> float:
        """Timeout of the next step; includes tracing until two steps are finished."""
        if not self._intervals:
            return self._timeouts.first_step_seconds
        usual = statistics.median(self._intervals)
        return max(self._timeouts.stall_seconds, self._timeouts.stall_medians * usual)

    def is_stalled(self, now_seconds: float) -> bool:
        """Whether the timeout has passed without progress."""
        return now_seconds - self._moved > self.limit_seconds
