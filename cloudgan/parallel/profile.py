"""Seconds of a rank by routine, and its spans for a trace."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudgan.parallel.trace import Spans


@dataclass
class Seconds:
    """Seconds of a rank by routine, since it joined.

    Attributes:
        train: Steps of the worker; of a master none.
        gather: Weights copied from the device, and what is sent computed from them.
        update: Weights moved by the rule, and copied to the device.
        wait: For an answer; of a master for messages.
        validate: Quality metrics of a master, by another thread.
        save: Checkpoints.
    """

    train: float = 0.0
    gather: float = 0.0
    update: float = 0.0
    wait: float = 0.0
    validate: float = 0.0
    save: float = 0.0

    def minus(self, before: Seconds) -> Seconds:
        """Returns the seconds since `before`."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Seconds(*(max(0.0, now - then) for now, then in pairs))


ROUTINES = tuple(field.name for field in fields(Seconds))


class Profile:
    """Adds up what a rank does.

    Attributes:
        seconds: By routine.
        spans: Of each; None without a trace.
    """

    def __init__(self, spans: Spans | None = None) -> None:
        self.seconds = Seconds()
        self.spans = spans

    def spent(self, routine: str, began: float, ended: float, *, is_beside: bool = False) -> None:
        """Counts the time from `began` to `ended`, both of `time.perf_counter`.

        Args:
            routine: Name of one of `Seconds`.
            began: When it began.
            ended: When it ended.
            is_beside: Whether another thread did it.
        """
        setattr(self.seconds, routine, getattr(self.seconds, routine) + ended - began)
        self.show(routine, began, ended, is_beside=is_beside)

    def show(self, routine: str, began: float, ended: float, *, is_beside: bool = False) -> None:
        """Adds a span to the trace only."""
        if self.spans:
            self.spans.add(routine, began, ended, is_beside=is_beside)
