"""Injected faults."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    body: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012


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
class _Planned:
    method: str
    path: re.Pattern[str]
    refusal: Refusal
    times: int


@dataclass
class Faults:
    """Planned refusals, failing operations, and how late the Resource Manager shows resources.

    Attributes:
        late_gets: How often a resource that was just created is not found.
        slow_gets: How many GETs find an operation in progress before it is done.
    """

    late_gets: int = 0
    slow_gets: int = 1
    _planned: list[_Planned] = field(default_factory=list)
    _failing: list[tuple[re.Pattern[str], dict[str, Any], bool]] = field(default_factory=list)

    def refuse(self, method: str, path: str, refusal: Refusal, times: int = 1) -> None:
        """Refuses the next requests that match, without doing anything."""
        self._planned.append(_Planned(method, re.compile(path, re.IGNORECASE), refusal, times))

    def fail(self, path: str, code: str, message: str, *, in_resource: bool = True) -> None:
        """Lets the next operation on what matches fail; `in_resource`: its body has the error too."""
        error = {"code": code, "message": message}
        self._failing.append((re.compile(path, re.IGNORECASE), error, in_resource))

    def meet(self, method: str, path: str) -> None:
        for one in self._planned:
            if one.times and one.method in ("*", method) and one.path.search(path):
                one.times -= 1
                raise one.refusal

    def failure_of(self, path: str) -> tuple[dict[str, Any], bool] | None:
        for number, (pattern, error, in_resource) in enumerate(self._failing):
            if pattern.search(path):
                del self._failing[number]
                return error, in_resource
        return None
