"""`cloudgan worker`: the agent in a pod of a run."""

from __future__ import annotations

import os
import stat
import sys

from cloudgan.core.clock import utc_now


def worker(
    *,
    barrier_seconds: float = 1800.0,
    first_step_seconds: float = 900.0,
    stall_seconds: float = 120.0,
    grace_seconds: float = 15.0,
    json: bool = False,
) -> None:
    """Runs one worker of a run; started by pods, not by users (see `deploy` and `train`).

    Its configuration is in the environment variables that `deploy` sets in pods.

    Args:
        barrier_seconds: Time to wait for the other workers; then exit with 75.
        first_step_seconds: Restart training if its first steps take longer.
        stall_seconds: Restart training if no step ends within this time, or within that of 20 steps.
        grace_seconds: Time from SIGTERM to the end of the pod.
        json: Print the final state as JSON.
    """
    from cloudgan.cli.views.output import print_json
    from cloudgan.core import settings
    from cloudgan.worker.agent import WorkerAgent
    from cloudgan.worker.pod_environment import read_pod_environment
    from cloudgan.worker.preemption import StopRequest
    from cloudgan.worker.timeouts import Timeouts

    timeouts = Timeouts(
        barrier_seconds=barrier_seconds,
        first_step_seconds=first_step_seconds,
        stall_seconds=stall_seconds,
        grace_seconds=grace_seconds,
    )
    stop = StopRequest()
    agent = WorkerAgent(read_pod_environment(settings.variable), timeouts, _print_line, stop=stop)
    stop.install_signal_handlers(agent.kill)
    code = agent.run()
    if json:
        print_json(agent.state.as_json() | {"message": agent.state.message})
    sys.exit(code)


def _print_line(line: str) -> None:
    """Prints a line; into a file, as locally and on Slurm, with its time, which a container runtime adds else."""
    try:
        is_file = stat.S_ISREG(os.fstat(1).st_mode)
    except OSError:
        is_file = False
    print(f"{utc_now()} {line}" if is_file else line, flush=True)
