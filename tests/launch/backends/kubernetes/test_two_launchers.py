"""Two launchers start one run while a pod of it is evicted: in any order of their requests one run comes of it."""

import contextlib
import json
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.launch.backends.kubernetes.backend import KubernetesBackend
from cloudgan.launch.kubernetes.api import ClusterApi
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.run_monitor import RunMonitor
from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.training_config import TrainingConfig
from launch.backends.kubernetes.lab import NAMESPACE, plan_of

EPOCHS = {"mine": 1, "yours": 2}
CREATED = 201


IN_BETWEEN = (8, 26)
"""Orders in which a launcher looks for the run before, and for its job after, the other one makes them."""


class Turns:
    """Lets threads act one at a time, in an order drawn from a seed.

    Attributes:
        made: The UIDs of the Jobs that they created.
    """

    def __init__(self, seed, names):
        self.made = []
        self._draw, self._changed = random.Random(seed), threading.Condition()
        self._acting, self._waiting, self._turn = set(names), set(), None

    def take(self, name):
        """Waits until all threads that still act ask for a turn, and this one gets it."""
        with self._changed:
            self._waiting.add(name)
            self._give()
            self._changed.wait_for(lambda: self._turn == name)
            self._turn = None
            self._waiting.remove(name)

    def leave(self, name):
        with self._changed:
            self._acting.remove(name)
            self._give()

    def _give(self):
        if self._acting and self._turn is None and self._waiting == self._acting:
            self._turn = self._draw.choice(sorted(self._waiting))
            self._changed.notify_all()


def launch(lab, plan, who, turns, folder):
    """Starts a plan as another machine would, a request per turn; returns what comes of it."""
    from cloudgan.launch.kubernetes.kubeconfig import connect

    with connect(None) as client:
        api = ClusterApi(client)
        once = api._once

        def in_turn(*request):
            turns.take(who)
            answer = once(*request)
            if request[0] == "POST" and request[1].endswith("/jobs") and answer[0] == CREATED:
                turns.made.append(json.loads(answer[1])["metadata"]["uid"])
            return answer

        api._once = in_turn
        log = LaunchLog(RunFolder(folder / who / plan.run), plan)
        try:
            return apply(plan, KubernetesBackend(api, NAMESPACE), log, lab.said.append)
        except ConfigError as error:
            return str(error)
        finally:
            turns.leave(who)


def evict_one(lab, run, turns):
    """Evicts the first pod of the run that it sees."""
    try:
        found = []
        while not found:
            turns.take("eviction")
            found = [pod["metadata"]["name"] for pod in lab.pods(run)]
            for name in found[:1]:
                lab.cluster.evict(NAMESPACE, name)
    finally:
        turns.leave("eviction")


REAL = [
    pytest.param(
        "real",
        range(first, first + 10),
        id=f"real-{first}",
        marks=pytest.mark.slow if first in {0, 20} else pytest.mark.each_call,
    )
    for first in range(0, 100, 10)
]
"""A quarter of an hour of processor time in all; twenty orders with those of IN_BETWEEN run in each check."""


@pytest.mark.parametrize(
    ("cluster", "seeds"),
    [pytest.param("double", IN_BETWEEN, id="double"), *REAL],
    indirect=["cluster"],
)
def test_of_two_launchers_in_any_order_with_an_eviction_one_wins_and_nothing_is_left(
    lab, tmp_path, seeds
):
    for seed in seeds:
        run = f"gan-{seed}"
        configs = {
            who: RunConfig(name=run, training=TrainingConfig(epochs=epochs))
            for who, epochs in EPOCHS.items()
        }
        plans = {who: plan_of(run, config=config) for who, config in configs.items()}
        turns = Turns(seed, (*plans, "eviction"))
        with ThreadPoolExecutor() as threads:
            asked = {
                who: threads.submit(launch, lab, plan, who, turns, tmp_path)
                for who, plan in plans.items()
            }
            threads.submit(evict_one, lab, run, turns).result()
        outcomes = {who: future.result() for who, future in asked.items()}
        (winner,) = (who for who, outcome in outcomes.items() if outcome is True)
        (loser,) = plans.keys() - {winner}
        assert re.match(rf"run {run} (has|exists with) other settings", outcomes[loser]), seed
        for index in range(2):
            lab.pod(run, index)
            lab.end_worker(run, index, "0")
        state = RunMonitor(lab.backend, plans[winner], lab.said.append, lambda _: None).follow()
        assert state.phase == "finished", seed
        assert lab.backend.desired_state(run).config == configs[winner], seed
        with contextlib.closing(lab.backend.destroy(run)) as deleting:
            list(deleting)
        assert lab.remaining() == [], seed


def test_of_two_launchers_that_resume_an_ended_run_neither_deletes_the_job_of_the_other(
    lab, tmp_path
):
    for seed in range(12):
        run = f"gan-{seed}"
        plan = plan_of(run)
        assert launch(lab, plan, "mine", Turns(seed, ("mine",)), tmp_path) is True
        for index in range(2):
            lab.pod(run, index)
            lab.end_worker(run, index, "0")
        RunMonitor(lab.backend, plan, lab.said.append, lambda _: None).follow()
        turns = Turns(seed, EPOCHS)
        with ThreadPoolExecutor() as threads:
            asked = [threads.submit(launch, lab, plan, who, turns, tmp_path) for who in EPOCHS]
        assert all(isinstance(one.result(), bool) for one in asked), seed
        (job,) = lab.cluster.select("jobs", NAMESPACE)
        assert [job["metadata"]["uid"]] == turns.made, seed
        with contextlib.closing(lab.backend.destroy(run)) as deleting:
            list(deleting)
