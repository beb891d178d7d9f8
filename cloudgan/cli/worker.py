"""`cloudgan worker`: the pod's side of a run."""

from __future__ import annotations

import sys


def worker(
    *,
    barrier_seconds: float = 600.0,
    first_step_seconds: float = 900.0,
    stall_seconds: float = 120.0,
    grace_seconds: float = 15.0,
    json: bool = False,
) -> None:
    """Trains as one of a run's workers; pods call it, people call `deploy` or `train`.

    What it needs stands in the environment that `deploy` gives its pods.

    Args:
        barrier_seconds: Wait as long for the other workers, then end with 75.
        first_step_seconds: Start training again where its first steps take longer.
        stall_seconds: Start training again where no step ends for so long, or for 20 usual ones.
        grace_seconds: From SIGTERM to the pod's end: the cloud's own.
        json: Print the end as JSON.
    """
    from cloudgan.cli.output import show_json
    from cloudgan.core import settings
    from cloudgan.worker.limits import Limits
    from cloudgan.worker.place import read_place
    from cloudgan.worker.pod import Pod
    from cloudgan.worker.stop_request import StopRequest

    limits = Limits(
        barrier_seconds=barrier_seconds,
        first_step_seconds=first_step_seconds,
        stall_seconds=stall_seconds,
        grace_seconds=grace_seconds,
    )
    stop = StopRequest()
    pod = Pod(read_place(settings.variable), limits, _show, stop=stop)
    stop.take_signals(pod.kill)
    code = pod.run()
    if json:
        show_json(pod.state.shown() | {"sentence": pod.state.sentence})
    sys.exit(code)


def _show(line: str) -> None:
    print(line, flush=True)
