"""Injected faults of the Resource Manager."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from emulators import faults
from emulators.http import Answer


class Refusal(Exception):
    """Ends a request with an error as the Resource Manager writes it."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.answer = Answer(
            status,
            {"error": {"code": code, "message": message}},
            {name.replace("_", "-"): value for name, value in headers.items()},
        )


@dataclass
class Faults(faults.Faults):
    """Planned refusals, failing operations, and how late the Resource Manager shows resources.

    Attributes:
        late_gets: How often a resource that was just created is not found.
        slow_gets: How many GETs find an operation in progress before it is done.
    """

    late_gets: int = 0
    slow_gets: int = 1
    _failing: list[tuple[re.Pattern[str], dict[str, Any], bool]] = field(default_factory=list)

    def refuse(self, method: str, path: str, refusal: Refusal, times: int = 1) -> None:
        """Refuses the next requests that match, without doing anything."""
        verb = r"\w+" if method == "*" else method
        self.plan(f"^{verb} .*{path}", refusal, times)

    def strike(self, method: str, path: str) -> None:
        """Raises the planned refusal of a request."""
        if fault := self.meet(f"{method} {path}"):
            raise fault.error

    def fail(self, path: str, code: str, message: str, *, in_resource: bool = True) -> None:
        """Lets the next operation on what matches fail; `in_resource`: its body has the error too."""
        error = {"code": code, "message": message}
        self._failing.append((re.compile(path, re.IGNORECASE), error, in_resource))

    def failure_of(self, path: str) -> tuple[dict[str, Any], bool] | None:
        for number, (pattern, error, in_resource) in enumerate(self._failing):
            if pattern.search(path):
                del self._failing[number]
                return error, in_resource
        return None
