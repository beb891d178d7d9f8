"""Injected faults between a client and the API, and a log of requests."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import NamedTuple

from emulators.kubernetes.status_errors import REASONS, Refusal

TEXTS = {
    409: "Operation cannot be fulfilled: the object has been modified; please apply your changes "
    "to the latest version and try again",
    410: "The resourceVersion for the provided list is too old.",
    429: "The apiserver is currently handling too many requests, please try again later.",
    500: "Internal error occurred: etcdserver: request timed out",
    503: "the server is currently unable to handle the request",
}


class Request(NamedTuple):
    """One request as it was answered. `status` 0: the connection was cut instead."""

    method: str
    path: str
    """With its query."""
    status: int
    user: str


@dataclass
class Fault:
    """A fault of the next `times` matching requests: the answer is `code`, or is lost."""

    method: str
    path: str
    code: int
    times: int
    retry_after_seconds: int | None = None
    acts: bool = False


class AnswerLost(Exception):
    """The connection is closed without an answer."""


class Faults:
    """The planned faults, and the list of requests."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._waiting: list[Fault] = []
        self._lock = threading.Lock()

    def plan(self, fault: Fault) -> None:
        with self._lock:
            self._waiting.append(fault)

    def meet(self, method: str, path: str) -> Fault | None:
        """Returns the planned fault of this request, if there is one."""
        with self._lock:
            for fault in self._waiting:
                fits = fault.method in {"*", method} and re.search(fault.path, path)
                if fits and fault.times > 0:
                    fault.times -= 1
                    return fault
        return None

    @staticmethod
    def strike(fault: Fault) -> None:
        """Answers with the fault."""
        if fault.code == 0:
            raise AnswerLost
        text = TEXTS.get(fault.code, REASONS.get(fault.code, "planned fault"))
        reason = REASONS.get(fault.code, "Unknown")
        raise Refusal(
            fault.code, text, reason=reason, retry_after_seconds=fault.retry_after_seconds
        )

    def note(self, method: str, path: str, status: int, user: str) -> None:
        with self._lock:
            self.requests.append(Request(method, path, status, user))
