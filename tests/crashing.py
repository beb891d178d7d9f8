"""Kills a program at its n-th call to a server: before it is sent, or after the server acted.

The program is a function in a process of its own (a fork), and it dies at once, by SIGKILL's exit: no
`finally`, no handler runs, and no buffer is flushed. All SDKs of cloudgan send by urllib3, so one
place counts the calls of all of them.
"""

from __future__ import annotations

import os
import signal
import traceback
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest
import urllib3

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

When = Literal["before", "after"]
DIED = -signal.SIGKILL


WRITES = ("Create", "Delete", "Put", "Update", "POST", "PUT", "PATCH", "DELETE")
"""How calls begin that may change something: methods of HTTP, and operations of AWS."""

REVIEWS = "/selfsubjectaccessreviews"
"""End of the calls that ask a cluster for rights, and change nothing."""

AT_EACH = pytest.mark.parametrize(
    "at_each", [False, pytest.param(True, marks=pytest.mark.each_call)], ids=["writes", "all"]
)
"""For tests that kill a deploy at each of its `moments`: at all of them only where that is asked for."""


class Outcome(NamedTuple):
    """How a program ended that was to be killed.

    Attributes:
        code: 0, `DIED`, or 1 where it raised: then `said` has the traceback.
        calls: What it asked for, in order, such as ``POST /v1/projects``; without what it polled.
        said: Its traceback; empty else.
    """

    code: int
    calls: tuple[str, ...]
    said: str


def run_killed(
    program: Callable[[], None], folder: Path, kill_at: int | None = None, when: When = "before"
) -> Outcome:
    """Runs a program in a fork; returns when it ended.

    Args:
        program: What the fork does; servers of this process answer it.
        folder: For notes.
        kill_at: Number of the call to die at, from 0; None: none.
        when: Whether the server gets that call before.
    """
    notes, said = folder / "calls", folder / "said"
    notes.write_text("")
    said.write_text("")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _count(notes, kill_at, when)
            program()
            code = 0
        except BaseException:  # noqa: BLE001  whatever it is, the fork must not go on as the test
            said.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return Outcome(
        os.waitstatus_to_exitcode(status), tuple(notes.read_text().splitlines()), said.read_text()
    )


def moments(calls: Sequence[str], *, at_each: bool) -> list[tuple[int, When]]:
    """When to kill a program that makes `calls`: number of the call, and before or after it.

    Without `at_each` before the first call and after each that changes something: between two of
    these the servers stay as they are, so what a death leaves there is what one after the call
    before it leaves.
    """
    numbers = range(len(calls))
    if at_each:
        return [(number, when) for number in numbers for when in ("before", "after")]
    writes = [
        number
        for number in numbers
        if calls[number].startswith(WRITES) and not calls[number].endswith(REVIEWS)
    ]
    return [(0, "before"), *((number, "after") for number in writes)]


def _count(notes: Path, kill_at: int | None, when: When) -> None:
    pool: Any = urllib3.connectionpool.HTTPConnectionPool
    send, number = pool.urlopen, 0

    def urlopen(self: Any, method: str, url: str, *arguments: Any, **keywords: Any) -> Any:
        nonlocal number
        here, number = number, number + 1
        with notes.open("a") as file:
            file.write(f"{method} {url.partition('?')[0]}\n")
        if here == kill_at and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = send(self, method, url, *arguments, **keywords)
        if here == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    pool.urlopen = urlopen
