"""Seconds of a rank by routine."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields


@dataclass
class Seconds:
    """Seconds of a rank by routine, since it joined.

    Attributes:
        train: Steps of the worker; of a master none.
        gather: Weights copied from the device, and what is sent computed from them.
        update: Weights moved by the rule, and copied to the device.
        wait: For an answer; of a master for messages.
        validate: Quality metrics of a master.
    """

    train: float = 0.0
    gather: float = 0.0
    update: float = 0.0
    wait: float = 0.0
    validate: float = 0.0

    def minus(self, before: Seconds) -> Seconds:
        """Returns the seconds since `before`."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return Seconds(*(max(0.0, now - then) for now, then in pairs))


ROUTINES = tuple(field.name for field in fields(Seconds))


class Profile:
    """Adds up what a rank does.

    Attributes:
        seconds: By routine.
    """

    def __init__(self) -> None:
        self.seconds = Seconds()

    def spent(self, routine: str, began: float, ended: float) -> None:
        """Counts the time from `began` to `ended`, both of `time.perf_counter`."""
        setattr(self.seconds, routine, getattr(self.seconds, routine) + ended - began)
