from typing import get_args

import pytest

from cloudgan.schema.run_state import ENDED, Phase, RunState, WorkerState


@pytest.mark.parametrize("phase", get_args(Phase))
def test_a_run_is_over_when_nothing_of_it_computes(phase):
    computes = phase in {"waiting", "starting", "running", "stopping"}
    assert RunState(phase).is_over is not computes
    assert (phase in ENDED) is not computes


def test_workers_are_counted_by_phase():
    workers = [WorkerState(n, p) for n, p in enumerate(("running", "done", "waiting", "running"))]
    assert RunState("starting", tuple(workers)).count("running", "done") == 3
