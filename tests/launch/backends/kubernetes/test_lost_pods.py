"""Runs that lose pods, registries and stores: what passes is waited for, and what does not is named."""

import json
import sys
import threading
import time
from pathlib import Path

import pytest

from cloudgan.core.errors import LaunchError
from cloudgan.launch.lifecycle.log_merging import merge_logs
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Wheel
from cloudgan.worker.trainer_process import Timeouts
from launch.backends.kubernetes.lab import IMAGE, NAMESPACE, ON_DOUBLE, finish, plan_of
from worker.conftest import QUICK

WORKERS = Path(__file__).parents[3] / "worker"
PUBLIC = "tensorflow/tensorflow:2.21.0"


def image_of(folder, script, program="python"):
    """Returns an image whose only program is a shell script."""
    from emulators.kubernetes import Image, python_image

    path = folder / f"image-{program}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Image({program: str(path)}, python_image().env)


def is_said(lab, *words):
    return any(all(word in line for word in words) for line in list(lab.said))


@pytest.mark.slow
@ON_DOUBLE
def test_twelve_pods_of_one_worker_lost_in_a_row_do_not_end_the_training(
    make_lab, begin, follow, tmp_path
):
    """Real workers and a stub trainer; the back-off and the workers' barrier are 300 times shorter.

    The barrier is longer by the time that a busy machine takes to start a worker's processes;
    tests/worker/test_trainer_process.py compares the unscaled barrier with the back-off.
    """
    scale, group = 1 / 300, tmp_path / "group"
    group.mkdir()
    orders, setup = tmp_path / "orders.json", tmp_path / "setup.json"
    barrier = Timeouts().barrier_seconds * scale + 60
    command = [sys.executable, "-S", str(WORKERS / "fake_training.py"), str(orders)]
    timeouts = QUICK | {"barrier_seconds": barrier}
    setup.write_text(json.dumps({"timeouts": timeouts, "command": command}))
    program = f'exec "{sys.executable}" "{WORKERS / "pod_program.py"}" "{setup}"'
    images = {IMAGE: image_of(tmp_path, program)}
    lab = make_lab(images=images, backoff_scale=scale)

    def order(steps):
        known = {"steps": steps, "store": str(lab.store / "runs" / "gan"), "group": str(group)}
        orders.write_text(json.dumps(known))

    def newest():
        found = (lab.store / "runs" / "gan" / "checkpoints").glob("step-*.npz")
        return max((int(path.stem[5:]) for path in found), default=0)

    order(10**6)
    config = {"name": "gan", "data": {"path": str(tmp_path)}, "model": {"preset": "smoke"}}
    plan = plan_of(config=RunConfig.model_validate(config))
    begin(lab, plan)
    outages = []
    for loss in range(1, 13):
        step = newest()
        lab.cluster.wait_for(lambda step=step: newest() > step, 60)
        if loss == 12:
            order(newest() + 100)  # trainers that start from now on end there
        lost, began = lab.pod("gan", 1), time.monotonic()
        lab.cluster.evict(NAMESPACE, lost)
        lab.cluster.wait_for(lambda lost=lost: lab.pod("gan", 1) != lost, 60)
        step = newest()
        lab.cluster.wait_for(lambda step=step: newest() > step, 60)
        outages.append(time.monotonic() - began)
    assert follow(lab, plan).phase == "finished"
    assert newest() == json.loads(orders.read_text())["steps"]
    kept = [one for one in lab.pods("gan") if one["metadata"]["name"].startswith("gan-0-")]
    assert len(kept) == 1, "the other worker waited in its pod"
    minutes = [round(one / scale / 60, 1) for one in outages]
    print("scaled minutes until training went on, by loss:", *minutes)


def test_a_store_that_fails_while_the_pods_start_is_named_and_waited_for(
    make_lab, begin, follow, tmp_path
):
    """k8s/fetch_wheels.sh exits with 75 after 300 s."""
    from emulators.kubernetes import RCLONE

    outage = tmp_path / "outage"
    outage.touch()
    stub = Path(__file__).with_name("stub_trainer.py")
    said = "fetch_wheels: the wheels could not be copied for 300 s (StatusCode: 503)"
    fetch = f"""[ ! -e "{outage}" ] || {{ echo "{said}" >&2; exit 75; }}"""
    train = f"""case "$1" in */install_wheels.py) exit 0;; esac
exec "{sys.executable}" "{stub}" "$@" """
    images = {RCLONE: image_of(tmp_path, fetch, "sh"), PUBLIC: image_of(tmp_path, train)}
    lab = make_lab(images=images)
    wheel = Wheel(file_name="a-1-py3-none-any.whl", sha256="0" * 64, bytes=1)
    plan = plan_of(workers={"nodes": 3, "image": PUBLIC}, wheels=(wheel,))
    begin(lab, plan)
    failed = lab.cluster.wait_for(
        lambda: [one for one in lab.pods("gan") if one["status"]["phase"] == "Failed"][2:]
    )
    assert failed
    state = lab.backend.state("gan")
    assert (state.phase, state.cause) == ("starting", "")
    assert f"init container fetch-wheels exited with code 75: {said}" in state.reason
    logs = merge_logs(lambda: lab.backend.log_sources("gan"), lambda: False, follow=False)
    assert said in {line.text for line in logs}
    thread = threading.Timer(0.5, lambda: (outage.unlink(), finish(lab, plan)))
    thread.start()
    assert follow(lab, plan).phase == "finished"
    thread.join()
    assert is_said(lab, "was replaced", said)


def test_a_registry_that_stays_away_ends_the_start_at_the_gang_timeout(lab, begin, follow):
    lab.cluster.registry(is_away=True)
    plan = plan_of(gang_timeout_seconds=2.0)
    begin(lab, plan)
    with pytest.raises(
        LaunchError,
        match=r"only 0 of 2 .* cannot be pulled .*503 Service Unavailable.*reach the registry",
    ):
        follow(lab, plan)
    assert not lab.pods("gan")


def test_three_evictions_for_a_full_disk_end_the_run_with_the_cause(lab, begin, follow):
    plan = plan_of()
    begin(lab, plan)

    def evict():
        lost = set()
        for _ in range(3):
            name = lab.cluster.wait_for(lambda: {lab.pod("gan", 0)} - lost).pop()
            lab.cluster.evict_under_pressure(NAMESPACE, name)
            lost.add(name)

    thread = threading.Thread(target=evict)
    thread.start()
    with pytest.raises(
        LaunchError, match=r"3 pods lost on nodes: evicted: The node was low on .*ephemeral-storage"
    ):
        follow(lab, plan)
    thread.join()
    assert is_said(lab, "worker 0 was replaced", "evicted: The node was low on resource")


def test_a_lost_node_is_a_preemption_and_a_worker_that_leaves_with_75_is_none(
    make_lab, begin, follow
):
    lab, plan = make_lab(nodes=3), plan_of()
    begin(lab, plan)
    seen = []
    before = lab.pod("gan", 0)
    lab.end_worker("gan", 0, "75")
    lab.cluster.wait_for(lambda: lab.pod("gan", 0) != before)
    name = lab.pod("gan", 1)
    (pod,) = (one for one in lab.pods("gan") if one["metadata"]["name"] == name)
    lab.cluster.reclaim_node(pod["spec"]["nodeName"], notice_seconds=0.2)
    lab.cluster.wait_for(lambda: lab.backend.state("gan").workers[1].preemptions)
    finish_when_up = threading.Thread(target=finish, args=(lab, plan))
    finish_when_up.start()
    assert follow(lab, plan, seen.append).phase == "finished"
    finish_when_up.join()
    assert max(state.workers[0].preemptions for state in seen) == 0
