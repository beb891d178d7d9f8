"""Worlds of ranks that measure: started on this machine, and joined by each of their processes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.loopback_network import IsolationError, LoopbackNetwork
from cloudgan.core.settings import child_environment
from cloudgan.parallel import communication
from cloudgan.parallel.hydra import find_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cloudgan.parallel.communicator import Communicator


def run_ranks(module: str, request: Path, ranks: int, *, limit: float, remedy: str) -> None:
    """Runs `python -m MODULE REQUEST` as the ranks of a world, with MPICH's process manager.

    Args:
        module: Calls `as_rank`.
        request: File that states what the ranks do.
        ranks: Of the world.
        limit: Seconds after which the world is ended.
        remedy: What to run if this machine cannot isolate the ports of ranks.

    Raises:
        ConfigError: mpiexec or mpi4py is not installed, or the kernel does not isolate their ports.
        CloudganError: The world failed, with the last line that it printed.
    """
    communication.check_library()
    command = [
        *(str(find_program()), "-launcher", "fork", "-n", str(ranks)),
        *(sys.executable, "-m", module, str(request)),
    ]
    try:
        with closing(_network(remedy)) as network:
            done = subprocess.run(  # noqa: S603
                network.command(command),
                pass_fds=network.descriptors,
                env=child_environment(TF_CONFIG=None),
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise CloudganError(f"{ranks} ranks did not end within {limit:.0f} s") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CloudganError(f"{ranks} ranks ended with {done.returncode}: {last}")


def as_rank(work: Callable[[Communicator], None]) -> None:
    """Joins the world of this process, does the work of its rank, and leaves in order.

    A rank that fails ends by `os._exit`, as a training rank does, and the others with it.
    """
    world = communication.world()
    communication.end_with_parent(1)
    try:
        work(world)
        world.gather(None)
        communication.finalize()
    except CloudganError as error:
        sys.stderr.write(f"rank {world.rank}: {error}\n")
        communication.leave(error.exit_code)


def _network(remedy: str) -> LoopbackNetwork:
    try:
        return LoopbackNetwork.create()
    except IsolationError as error:
        raise ConfigError(
            "ranks are started with mpiexec, which listens on all addresses of this machine and cannot"
            f" be isolated here: {error}. {remedy}"
        ) from error
