"""`cloudgan worker`: the agent in a pod of a run."""

from __future__ import annotations

import sys

from cloudgan.core.command import command
from cloudgan.schema.options.runs import WorkerOptions


@command
def worker(options: WorkerOptions, *, as_json: bool = False) -> None:
    """Runs the command."""
    from cloudgan.cli.views.output import print_json
    from cloudgan.core import settings
    from cloudgan.worker.agent import WorkerAgent
    from cloudgan.worker.pod_environment import read_pod_environment
    from cloudgan.worker.preemption import StopRequest
    from cloudgan.worker.timeouts import Timeouts

    timeouts = Timeouts(
        barrier_seconds=options.barrier_seconds,
        first_step_seconds=options.first_step_seconds,
        stall_seconds=options.stall_seconds,
        grace_seconds=options.grace_seconds,
    )
    stop = StopRequest()
    agent = WorkerAgent(read_pod_environment(settings.variable), timeouts, _print_line, stop=stop)
    stop.install_signal_handlers(agent.kill)
    code = agent.run()
    if as_json:
        print_json(agent.state.as_json() | {"message": agent.state.message})
    sys.exit(code)


def _print_line(line: str) -> None:
    print(line, flush=True)
