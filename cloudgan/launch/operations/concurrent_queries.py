"""Concurrent queries of several clouds; failures and timeouts are isolated per cloud."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError

Name = TypeVar("Name", bound=str)
T = TypeVar("T")


def run_concurrently(
    names: Iterable[Name], ask: Callable[[Name], T], timeout_seconds: float = 120.0
) -> dict[Name, T | CloudganError]:
    """Returns the result or error of each query, in the order of the names.

    Args:
        ask: Query, called in one thread per name.
        timeout_seconds: For all queries together.
    """
    answers: dict[Name, T | CloudganError] = {}
    faults: list[BaseException] = []

    def one(name: Name) -> None:
        try:
            answers[name] = ask(name)
        except CloudganError as error:
            answers[name] = error
        except BaseException as error:  # noqa: BLE001  raised again below in the caller's thread
            faults.append(error)

    names = tuple(names)
    # Daemon threads: the program may exit while an SDK waits for a server.
    threads = [threading.Thread(target=one, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    end = monotonic_seconds() + timeout_seconds
    for thread in threads:
        thread.join(max(0.0, end - monotonic_seconds()))
    if faults:
        raise faults[0]
    return {
        name: answers[name] if name in answers else _timeout_error(name, timeout_seconds)
        for name in names
    }


def _timeout_error(name: str, seconds: float) -> CloudganError:
    return CloudganError(f"{name} did not answer within {seconds:.0f} s; try again")
