"""Injected faults between a client and Google."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emulators.gcp.refusal import Refusal


class AnswerLost(Exception):
    """The connection is reset instead of an answer."""


@dataclass
class Fault:
    """One planned fault.

    Attributes:
        method: Regular expression for ids of discovery, such as ``nodePools.create``.
        refusal: What is answered; None: the connection is reset.
        times: How often.
        acts: Whether the server does first what was asked.
        after: How many matching calls pass before.
    """

    method: str
    refusal: Refusal | None = None
    times: int = 1
    acts: bool = False
    after: int = 0


class Faults:
    """The planned faults that have not occurred yet."""

    def __init__(self) -> None:
        self._planned: list[Fault] = []
        self._lock = threading.Lock()

    def plan(self, fault: Fault) -> None:
        with self._lock:
            self._planned.append(fault)

    def meet(self, method: str) -> Fault | None:
        """Returns the fault of a call of this method, and counts it."""
        with self._lock:
            for fault in self._planned:
                if not re.search(fault.method, method):
                    continue
                if fault.after:
                    fault.after -= 1
                    continue
                fault.times -= 1
                if fault.times <= 0:
                    self._planned.remove(fault)
                return fault
        return None

    def strike(self, fault: Fault) -> None:
        """Raises the error of the fault."""
        raise fault.refusal or AnswerLost
