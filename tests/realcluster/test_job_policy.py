"""The failure policy of k8s/job.yaml on the real Job controller."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow
JOB = Path(__file__).parents[2] / "k8s" / "job.yaml"
INDEX = "batch.kubernetes.io/job-completion-index"
SECONDS = 60.0
WAITS = "trap 'exit 143' TERM; sleep 600 & wait"


@pytest.fixture
def run(apis):
    """Creates the Job of k8s/job.yaml with commands of the test, and deletes it."""
    _, batch = apis
    made = []

    def create(name, *, workers=2, fetch="true", install="true", trainer=WAITS):
        body = yaml.safe_load(JOB.read_text())
        spec = body["spec"]
        body["metadata"] = {"name": name}
        spec["completions"] = spec["parallelism"] = workers
        commands = {"fetch-wheels": fetch, "install-wheels": install, "trainer": trainer}
        *init, container = (
            {"name": each, "image": "none", "command": ["sh", "-c", command]}
            for each, command in commands.items()
        )
        spec["template"] = {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "initContainers": init,
                "containers": [container],
            }
        }
        batch.create_namespaced_job("default", body)
        made.append(name)

    yield create
    for name in made:
        batch.delete_namespaced_job(name, "default", propagation_policy="Background")


def ended(batch, name):
    """Type and reason of the condition that ended a Job; None: it goes on."""
    conditions = batch.read_namespaced_job(name, "default").status.conditions or ()
    return next(((c.type, c.reason) for c in conditions if c.type in ("Failed", "Complete")), None)


def eventually(what):
    """Returns the first true value of `what`."""
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        if found := what():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {SECONDS:.0f} s")


def test_a_worker_that_is_evicted_twelve_times_in_a_row_is_replaced_each_time(apis, run):
    core, batch = apis
    run("evicted")

    def up(index, *, but=""):
        pods = core.list_namespaced_pod("default", label_selector="job-name=evicted").items
        assert ended(batch, "evicted") is None
        return next(
            (
                pod.metadata.name
                for pod in pods
                if (pod.metadata.annotations or {}).get(INDEX) == index
                and pod.status.phase == "Running"
                and pod.metadata.name != but
            ),
            "",
        )

    other, pod = eventually(lambda: up("0")), eventually(lambda: up("1"))
    for _ in range(12):
        eviction = {"metadata": {"name": pod}}
        core.create_namespaced_pod_eviction(pod, "default", eviction)
        pod = eventually(lambda gone=pod: up("1", but=gone))
    assert up("0") == other, "the other worker keeps its pod"


@pytest.mark.parametrize(("which", "code"), [("fetch", 75), ("fetch", 143), ("install", 137)])
def test_an_init_container_that_another_try_may_help_does_not_end_the_job(apis, run, code, which):
    """Eight pods whose store fails for ten seconds: with one limit of six for all of them the Job failed.

    tests/launch/kubernetes/test_manifests.py compares the codes of all containers.
    """
    name, until = f"outage-{which}-{code}", int(time.time()) + 10
    run(name, workers=8, trainer="true", **{which: f"[ $(date +%s) -gt {until} ] || exit {code}"})
    assert eventually(lambda: ended(apis[1], name))[0] == "Complete"


@pytest.mark.parametrize(
    ("name", "commands", "reason"),
    [
        ("refused", {"trainer": "exit 2"}, "PodFailurePolicy"),
        ("missing", {"fetch": "exit 1"}, "PodFailurePolicy"),
        ("damaged", {"install": "exit 1"}, "PodFailurePolicy"),
    ],
)
def test_what_no_try_helps_ends_all_workers(apis, run, name, commands, reason):
    run(name, **commands)
    assert eventually(lambda: ended(apis[1], name)) == ("Failed", reason)
