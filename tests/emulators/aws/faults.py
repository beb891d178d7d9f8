"""Injected faults between a client and AWS."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emulators.aws.wire import Refusal

if TYPE_CHECKING:
    from emulators.aws.wire import Call


@dataclass
class Fault:
    """An error that answers the next `times` requests for an operation."""

    operation: str
    code: str
    message: str = "refused by a test"
    times: int = 1
    status: int = 400
    acts: bool = False
    """Whether the request is executed all the same."""
    after: str = ""
    """An operation that must have been requested before, since the fault was planned."""


@dataclass
class Faults:
    """The planned faults, and the requests so far."""

    planned: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Service, region and operation of each request, in order."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def meet(self, call: Call) -> Fault | None:
        with self.lock:
            self.calls.append((call.service, call.region, call.operation))
            met = None
            for fault in self.planned:
                if fault.after == call.operation:
                    fault.after = ""
                elif (
                    fault.operation == call.operation
                    and fault.times
                    and not fault.after
                    and not met
                ):
                    fault.times -= 1
                    met = fault
            return met


def strike(fault: Fault) -> None:
    raise Refusal(fault.code, fault.message, fault.status)
