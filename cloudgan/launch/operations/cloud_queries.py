"""Queries of several clouds at once, and the metadata server of a cloud machine, which provides a login.

Without other credentials each SDK probes it for seconds: google-auth 3 x 3 s, botocore 1 s,
azure-identity 1 s (google/auth/compute_engine/_metadata.py, botocore/utils.py,
azure/identity/_credentials/imds.py of google-auth 2.62, botocore 1.44, azure-identity 1.27, read
2026-11-21). One short probe replaces them: all clouds use the same address.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from cloudgan.core import settings
from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CloudganError

Name = TypeVar("Name", bound=str)
T = TypeVar("T")
ADDRESS: Final = ("169.254.169.254", 80)
"""Link-local address; a cloud machine's server answers within milliseconds."""
_SECONDS: Final = 0.25


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
    late = f"did not answer within {timeout_seconds:.0f} s; try again"
    return {
        name: answers[name] if name in answers else CloudganError(f"{name} {late}")
        for name in names
    }


def disable_unless_reachable(address: tuple[str, int] = ADDRESS, seconds: float = _SECONDS) -> bool:
    """Disables the SDKs' probes if no metadata server answers; returns whether one does.

    Call it before an SDK is imported.
    """
    configured = settings.names_metadata_server()
    is_there = _answers(address, seconds) if configured is None else configured
    if not is_there:
        settings.disable_metadata_servers()
    return is_there


def _answers(address: tuple[str, int], seconds: float) -> bool:
    """Whether the server answers at all; an error status counts."""
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
