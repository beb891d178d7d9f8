"""A fixed computation and one all-reduce on every device of a run, before its data are staged.

`cloudgan worker` runs that of the engine, `tensorflow_smoke_step` or `jax_smoke_step`, as a process of its own: an
engine accepts the addresses of the workers only before its first operation, and once per process, so the
training cannot share it. It looks at the devices at once where the engine can, and reads one line of standard
input, TF_CONFIG as JSON or ``null``, when all workers are there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple, TextIO

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, TryAgain
from cloudgan.training.cluster import Cluster, read_cluster

EDGE, KERNEL, MATRIX = 8, 3, 64
"""Cells per axis of an image and of the kernel over it, and rows of a square matrix; all hold ones."""
BUFFER = 250_000
"""Float32 values of the all-reduce, 1 MB: more than one packet, less than a second."""
_PER_REPLICA = float((EDGE - KERNEL + 1) ** 3 * KERNEL**3 + MATRIX**3)
"""Sum of the gradient of a convolution of ones, and of a product of ones: exact in bfloat16 inputs."""


class Sums(NamedTuple):
    """What the devices of this worker computed.

    Attributes:
        own: Result of each device of this worker.
        everywhere: Least and largest values of the sum over all devices, of each device of this worker.
        replicas: Devices of all workers.
        kind: Of a device.
    """

    own: list[float]
    everywhere: list[float]
    replicas: int
    kind: str


def run(compute: Callable[[Cluster | None], Sums], prepare: Callable[[], str]) -> int:
    """Runs a smoke step; returns the exit code.

    Args:
        compute: Computes on each device of this worker, and sums over those of all workers.
        prepare: Looks at the devices, before the other workers are known; returns the line to print.
    """
    try:
        _say(prepare())
        line = sys.stdin.readline()
        if not line:
            return TryAgain.exit_code
        tf_config = "" if line.strip() == "null" else line.strip()
        cluster = read_cluster(tf_config)
        settings.set_variables({"TF_CONFIG": tf_config})
        _say(_checked(compute, cluster))
    except CloudganError as error:
        _say(f"cloudgan: {error}", sys.stderr)
        return error.exit_code
    return 0


def _say(line: str, stream: TextIO | None = None) -> None:
    output = stream or sys.stdout
    output.write(line + "\n")
    output.flush()


def _checked(compute: Callable[[Cluster | None], Sums], cluster: Cluster | None) -> str:
    """Computes on each device, sums over all devices of all workers, compares; returns the line to print."""
    started = time.monotonic()
    found = compute(cluster)
    _compare(found.own, _PER_REPLICA, "a device of this worker computed a wrong result")
    wrong = f"the sum over {found.replicas} devices is wrong"
    _compare(found.everywhere, found.replicas * _PER_REPLICA, wrong)
    what = f"{found.replicas} x {found.kind} computed and summed as expected"
    return f"smoke step: {what} in {time.monotonic() - started:.1f} s"


def failed(kind: str, error: Exception) -> CloudganError:
    """Returns the error of a device whose computation failed."""
    first = str(error).strip().splitlines()[0]
    return CloudganError(
        f"{kind} fails at a convolution, a matrix product or the sum over all workers"
        f" ({type(error).__name__}: {first}); the node, its driver or its network is at fault"
    )


def _compare(found: list[float], expected: float, what: str) -> None:
    wrong = next((value for value in found if value != expected), None)
    if wrong is not None:
        raise CloudganError(f"{what}: {wrong:g} instead of {expected:g}; replace the node")
