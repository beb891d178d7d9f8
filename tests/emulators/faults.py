"""Faults between a client and an emulated cloud, as a test plans them."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field


@dataclass
class Fault:
    """A planned fault of the next requests that match.

    Attributes:
        pattern: Of the requests: an operation, or method and path.
        error: What is raised in place of an answer.
        times: How often.
        acts: Whether the server does first what was asked.
        after: Of a request that has to come before; empty: none.
    """

    pattern: str
    error: Exception
    times: int = 1
    acts: bool = False
    after: str = ""


@dataclass
class Faults:
    """The planned faults."""

    planned: list[Fault] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, *given: object, **how: object) -> None:
        """Plans a fault; the arguments are those of `Fault`."""
        self.planned.append(Fault(*given, **how))  # type: ignore[arg-type]

    def meet(self, request: str) -> Fault | None:
        """Returns the fault of a request, and counts it."""
        met = None
        with self.lock:
            for fault in self.planned:
                if fault.after:
                    if re.search(fault.after, request, re.IGNORECASE):
                        fault.after = ""
                elif fault.times and not met and re.search(fault.pattern, request, re.IGNORECASE):
                    fault.times -= 1
                    met = fault
        return met
