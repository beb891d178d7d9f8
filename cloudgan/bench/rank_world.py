"""Worlds of ranks that measure: a function runs in each rank, and what it returns on rank 0 is the result."""

from __future__ import annotations

import json
import pkgutil
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cloudgan.bench.processes import Process
from cloudgan.core.documents import parse_json
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.core.loopback_network import IsolationError, LoopbackNetwork
from cloudgan.ranks import mpi
from cloudgan.ranks.hydra import find_program
from cloudgan.ranks.placement import check_mpi


def run_ranks(work: str, ranks: int, *, limit: float, remedy: str, **given: Any) -> Any:
    """Calls a function in each rank of a new world on this machine; returns what it returned on rank 0.

    The function, ``module:function``, gets the world and `given`, and returns a JSON value. `remedy` says what
    to do if this machine cannot isolate the ports of ranks. The world ends after `limit` seconds.
    """
    check_mpi("a world of ranks")
    mpiexec = str(find_program())
    try:
        network = LoopbackNetwork.create()
    except IsolationError as error:
        raise ConfigError(
            "ranks are started with mpiexec, which listens on all addresses of this machine and cannot"
            f" be isolated here: {error}. {remedy}"
        ) from error
    with closing(network), TemporaryDirectory(prefix="cloudgan-bench-") as folder:
        result = Path(folder, "result.json")
        task = json.dumps({"work": work, "given": given, "result": str(result)})
        command = [mpiexec, "-launcher", "fork", "-n", str(ranks)]
        command += [sys.executable, "-m", "cloudgan.bench.rank_world", task]
        command, inherited = network.command(command), network.descriptors
        with Process(f"{ranks} ranks", command, descriptors=inherited) as process:
            process.wait(limit)
        return parse_json(result.read_bytes(), "the result of the ranks")


def as_rank(work: Callable[[mpi.World], Any]) -> tuple[int, Any]:
    """Joins the world of this process, does the work of its rank, and leaves in order; returns the rank and its result.

    A rank that fails ends by `os._exit`, as a training rank does, and the others with it.
    """
    world = mpi.world()
    mpi.end_with_parent(1)
    try:
        found = work(world)
        world.gather(None)
        mpi.finalize()
    except CloudganError as error:
        sys.stderr.write(f"rank {world.rank}: {error}\n")
        mpi.leave(error.exit_code)
    return world.rank, found


def main() -> None:
    """Does this process' rank of the task on its command line."""
    task = parse_json(sys.argv[1], "task")
    rank, found = as_rank(partial(pkgutil.resolve_name(task["work"]), **task["given"]))
    if rank == 0:
        Path(task["result"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
