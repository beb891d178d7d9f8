"""`cloudgan worker`: the agent in a pod of a run."""

from __future__ import annotations

import os
import stat
import sys

from cloudgan.core.clock import utc_now
from cloudgan.core.command import command
from cloudgan.schema.options.runs import WorkerOptions


@command
def worker(options: WorkerOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.cli.emit import print_json
    from cloudgan.core import settings
    from cloudgan.worker.agent import WorkerAgent
    from cloudgan.worker.pod_environment import read_pod_environment
    from cloudgan.worker.preemption import StopRequest
    from cloudgan.worker.trainer_process import Timeouts

    timeouts = Timeouts(**options.model_dump())
    stop = StopRequest()
    agent = WorkerAgent(read_pod_environment(settings.variable), timeouts, _print_line, stop=stop)
    stop.install_signal_handlers(agent.kill)
    code = agent.run()
    if as_json:
        print_json(agent.state.as_json() | {"message": agent.state.message})
    sys.exit(code)


def _print_line(line: str) -> None:
    """Prints a line; into a file, as locally and on Slurm, with its time, which a container runtime adds else."""
    try:
        is_file = stat.S_ISREG(os.fstat(1).st_mode)
    except OSError:
        is_file = False
    print(f"{utc_now()} {line}" if is_file else line, flush=True)
