"""Commands of Hydra, MPICH's process manager, for ranks on one machine and in pods.

Pods have no ssh between them. ``mpiexec -launcher manual`` prints the command of a proxy per host and
waits for them to connect; another program starts them there
(https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md, read
2026-11-23). Imports nothing beyond the core, so that the agent of a pod stays light.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from cloudgan.core.errors import CloudganError, ConfigError, install_command

COMMAND: Final = "CLOUDGAN_RANK_COMMAND"
"""Variable of a proxy with the shell command of its ranks: folders differ from pod to pod."""
FOLDER: Final = "CLOUDGAN_RANK_FOLDER"
"""Variable of a proxy with the folder in which its ranks leave process ID and exit code."""

_LINE, _END = "HYDRA_LAUNCH:", "HYDRA_LAUNCH_END"
_ARGUMENTS = re.compile(
    r"--control-port [A-Za-z0-9.-]{1,253}:[0-9]{1,5}( [A-Za-z0-9._-]{1,64}){1,40}"
)

# Hydra would send what the ranks print through mpiexec, and passes standard input to rank 0 only: each
# rank takes those of its agent, descriptors 7 and 8, instead; the proxy, which would make its standard
# input non-blocking, gets none. Hydra ends the ranks of other hosts after
# a signal, but not after an exit code (measured, MPICH 5.0.2): the shell leaves the code and kills itself.
_KEEP_PIPES = 'exec 7<&0 8>&1; exec "$@" </dev/null'
_RANK = (
    f'eval "exec ${COMMAND}" <&7 >&8 2>&8 & echo $! > "${FOLDER}/pid-$PMI_RANK"; wait $!; code=$?;'
    f' echo $code > "${FOLDER}/exit-$PMI_RANK"; [ $code = 0 ] || kill -9 $$'
)


def find_program(name: str = "mpiexec") -> Path:
    """Returns a program of MPICH: that beside this interpreter, that beside cloudgan, or that in PATH."""
    for folder in (Path(sys.executable).parent, _site() / "bin"):  # pods install into a folder
        if (folder / name).exists():
            return folder / name
    found = shutil.which(name)
    if not found:
        raise ConfigError(
            f"{name}, which starts the ranks, is not installed; run {install_command('mpi')}, or start"
            " the ranks yourself with that of your site: mpiexec -n 5 cloudgan ..."
        )
    return Path(found)


def find_library() -> Path | None:
    """Returns the library of MPICH in the folder into which a pod installs; None: mpi4py finds its own."""
    found = _site() / "lib" / "libmpi.so.12"
    return found if found.exists() else None


def _site() -> Path:
    return Path(__file__).parents[2]


def manual_command(ranks: Sequence[int], host: str) -> list[str]:
    """Returns the command that prints how to start the proxies."""
    hosts = ",".join(f"worker-{index}:{count}" for index, count in enumerate(ranks))
    command = [str(find_program()), "-launcher", "manual", "-localhost", host, "-hosts", hosts]
    return [*command, "-genvnone", "-n", str(sum(ranks)), "/bin/sh", "-c", _RANK]


def read_launch(lines: Iterable[str]) -> tuple[str, ...] | None:
    """Returns the arguments of each proxy, by worker; None if the lines end too early."""
    found: list[str] = []
    for line in lines:
        if line.startswith(_END):
            return tuple(found)
        if line.startswith(_LINE):
            _, _, arguments = line.removeprefix(_LINE).strip().partition(" ")
            found.append(arguments)
    return None


def proxy_command(arguments: str) -> list[str]:
    """Returns the command of the proxy that starts the ranks of one worker."""
    if not _ARGUMENTS.fullmatch(arguments):
        raise CloudganError(f"{arguments[:200]!r} are no arguments of Hydra's proxy")
    proxy = str(find_program("hydra_pmi_proxy"))
    return ["/bin/sh", "-c", _KEEP_PIPES, "sh", proxy, *arguments.split()]
