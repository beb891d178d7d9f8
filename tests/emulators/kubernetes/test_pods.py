"""Pods as local processes: environment, exit and status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kubernetes import client

from emulators.kubernetes import Image

FOREVER = "while :; do sleep 0.05; done"
HERE = Path(__file__).parent


@pytest.fixture
def ended(cluster):
    """Returns a function that waits until a pod has ended and returns its status."""

    def wait(name="p"):
        def status():
            found = cluster.find("pods", "default", name)["status"]
            return found if found["phase"] in {"Succeeded", "Failed"} else None

        return cluster.wait_for(status)

    return wait


def terminated(status, index=0):
    return status["containerStatuses"][index]["state"]["terminated"]


def waiting(cluster, reason, name="p"):
    def found():
        status = cluster.find("pods", "default", name)["status"]
        for one in status.get("containerStatuses", []):
            if one["state"].get("waiting", {}).get("reason") == reason:
                return one["state"]["waiting"]
        return None

    return cluster.wait_for(found)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_environment_of_a_manifest(core, cluster, run_pod, ended):
    core.create_namespaced_config_map("default", {"metadata": {"name": "c"}, "data": {"K": "v"}})
    core.create_namespaced_secret(
        "default", {"metadata": {"name": "s"}, "stringData": {"T": "hush"}}
    )
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(NONE)-$$(A)"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "T"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "K"}}},
        {"name": "GPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.nvidia.com/gpu"}}},
        {
            "name": "MIB",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
        {
            "name": "MAYBE",
            "valueFrom": {"secretKeyRef": {"name": "no", "key": "x", "optional": True}},
        },
    ]
    run_pod(
        'echo $A "$B" $NODE $NAME $TOKEN $KEY $GPUS $MIB ${MAYBE-unset} $P_K; echo "$@"',
        env=env,
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "c"}}],
        resources={"limits": {"nvidia.com/gpu": "2", "memory": "1Gi"}},
        args=["arg0", "--a=$(A)"],
    )
    assert ended()["phase"] == "Succeeded"
    assert cluster.log("default", "p") == (
        "1 1-$(NONE)-$(A) node-0 p hush v 2 1024 unset v\n--a=1\n"
    )


def test_nothing_of_the_tests_own_environment_reaches_a_pod(cluster, run_pod, ended, monkeypatch):
    monkeypatch.setenv("PLANTED", "secret")
    run_pod("env")
    ended()
    assert "PLANTED" not in cluster.log("default", "p")


def test_volumes_are_folders_in_the_place_of_mount_paths(core, cluster, run_pod, ended):
    data = {"run.yaml": "epochs: 3\n", "other": "no"}
    core.create_namespaced_config_map("default", {"metadata": {"name": "c"}, "data": data})
    core.create_namespaced_secret("default", {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
    items = [{"key": "run.yaml", "path": "deep/run.yaml"}]
    volumes = [
        {"name": "config", "configMap": {"name": "c", "items": items}},
        {"name": "secret", "secret": {"secretName": "s"}},
        {"name": "work", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory"}},
    ]
    places = {"config": "/a/config", "secret": "/a/secret", "work": "/a", "shm": "/dev/shm"}  # noqa: S108
    run_pod(
        'cat $CONFIG/deep/run.yaml; cat /a/secret/k; echo; ls /a/config; echo x > "$1"; cat /a/new; '
        "echo y > /dev/shm/y; echo $URL /ab /x/a $HOME",
        pod={"volumes": volumes},
        volumeMounts=[{"name": name, "mountPath": path} for name, path in places.items()],
        env=[
            {"name": "CONFIG", "value": "/a/config"},
            {"name": "URL", "value": "https://host/a/b"},
            {"name": "HOME", "value": "/a/home:/a"},
        ],
        args=["arg0", "/a/new"],
    )
    assert ended()["phase"] == "Succeeded", cluster.log("default", "p")
    *lines, last = cluster.log("default", "p").splitlines()
    assert lines == ["epochs: 3", "v", "deep", "x"]
    uid = cluster.find("pods", "default", "p")["metadata"]["uid"]
    work = cluster.root / "pods" / uid / "volumes" / "work"
    assert last == f"https://host/a/b /ab /x/a {work}/home:{work}"
    assert not Path("/dev/shm/y").exists()  # noqa: S108


def test_a_claim_outlives_its_pods(core, cluster, run_pod, ended):
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    core.create_namespaced_persistent_volume_claim(
        "default", {"metadata": {"name": "store"}, "spec": claim}
    )
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "store"}}]
    for name, script in (("one", "echo kept > /store/x"), ("two", "cat /store/x")):
        mounts = [{"name": "v", "mountPath": "/store"}]
        run_pod(script, name, {"volumes": volumes}, volumeMounts=mounts)
        assert ended(name)["phase"] == "Succeeded"
        core.delete_namespaced_pod("one", "default") if name == "one" else None
    assert cluster.log("default", "two") == "kept\n"
    assert (cluster.claim_folder("default", "store") / "x").read_text(encoding="utf-8") == "kept\n"


def test_init_containers_run_first_and_one_by_one(core, cluster, run_pod, ended):
    volumes = {"volumes": [{"name": "site", "emptyDir": {}}]}
    mounts = [{"name": "site", "mountPath": "/site"}]
    first, second = (
        {
            "name": name,
            "image": "busybox:1",
            "command": ["sh", "-c", f"echo {name} >> /site/order"],
            "volumeMounts": mounts,
        }
        for name in ("first", "second")
    )
    run_pod(
        "cat /site/order", pod=volumes | {"initContainers": [first, second]}, volumeMounts=mounts
    )
    status = ended()
    assert cluster.log("default", "p") == "first\nsecond\n"
    assert all(one["ready"] for one in status["initContainerStatuses"])


def test_a_failing_init_container_is_the_pods_failure(core, cluster, run_pod, ended):
    broken = {"name": "wheels", "image": "busybox:1", "command": ["sh", "-c", "echo gone; exit 7"]}
    run_pod("true", pod={"initContainers": [broken]})
    status = ended()
    assert status["phase"] == "Failed"
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert waiting(cluster, "PodInitializing")
    assert core.read_namespaced_pod_log("p", "default", container="wheels") == "gone\n"
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_pod_log("p", "default")
    assert "is waiting to start: PodInitializing" in refused.value.body


def test_an_image_that_is_not_there_is_waited_for(core, cluster, run_pod, ended):
    run_pod("true", image="typo:1")
    assert "not found" in waiting(cluster, "ImagePullBackOff")["message"]
    outcome = [(one["type"], one["reason"]) for one in cluster.select("events")]
    assert {("Warning", "Failed"), ("Normal", "BackOff")} <= set(outcome)
    assert cluster.find("pods", "default", "p")["status"]["phase"] == "Pending"
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_pod_log("p", "default")
    assert "trying and failing to pull image" in refused.value.body
    cluster.images["typo:1"] = Image()
    assert ended()["phase"] == "Succeeded"


def test_what_a_container_refers_to_is_waited_for(core, cluster, run_pod, ended):
    reference = {"secretKeyRef": {"name": "s", "key": "k"}}
    run_pod("true", env=[{"name": "K", "valueFrom": reference}])
    assert waiting(cluster, "CreateContainerConfigError")["message"] == 'secret "s" not found'
    core.create_namespaced_secret("default", {"metadata": {"name": "s"}, "stringData": {"k": "v"}})
    assert ended()["phase"] == "Succeeded"


def test_a_volume_without_its_config_map_is_waited_for(core, cluster, run_pod, ended):
    volume = {"name": "v", "configMap": {"name": "late"}}
    run_pod("true", pod={"volumes": [volume]}, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    event = cluster.wait_for(
        lambda: next((one for one in cluster.select("events") if one["reason"] == "FailedMount"), 0)
    )
    assert (
        event["message"] == 'MountVolume.SetUp failed for volume "v" : configmap "late" not found'
    )
    core.create_namespaced_config_map("default", {"metadata": {"name": "late"}})
    assert ended()["phase"] == "Succeeded"


def test_a_program_that_is_not_there_is_a_start_error(run_pod, ended):
    run_pod("", command=["nonesuch"])
    found = terminated(ended())
    assert (found["exitCode"], found["reason"]) == (128, "StartError")
    assert 'exec: "nonesuch": executable file not found in $PATH' in found["message"]


def test_the_end_of_a_log_may_be_the_message(run_pod, ended):
    run_pod("echo no data; exit 2", terminationMessagePolicy="FallbackToLogsOnError")
    found = terminated(ended())
    assert (found["exitCode"], found["reason"], found["message"]) == (2, "Error", "no data\n")


@pytest.mark.parametrize(
    ("trap", "code"), [("trap 'echo saved; exit 75' TERM;", 75), ("trap '' TERM;", 137)]
)
def test_a_deleted_pod_has_its_grace(core, cluster, run_pod, *, trap, code):
    run_pod(f"{trap} echo up; {FOREVER}", pod={"terminationGracePeriodSeconds": 1})
    cluster.wait_for(lambda: core.read_namespaced_pod("p", "default").status.phase == "Running")
    cluster.wait_for(lambda: "up" in cluster.log("default", "p"))
    version = core.delete_namespaced_pod("p", "default").metadata.resource_version
    assert core.read_namespaced_pod("p", "default").metadata.deletion_timestamp
    cluster.wait_for(lambda: cluster.find("pods", "default", "p") is None)
    from kubernetes import watch

    seen = watch.Watch().stream(
        core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=1
    )
    last = [one["object"].status.container_statuses[0].state.terminated for one in seen]
    assert last[-1].exit_code == code


def test_memory_is_ended_by_hand(cluster, run_pod, ended):
    run_pod(FOREVER)
    cluster.wait_for(lambda: cluster.find("pods", "default", "p")["status"]["phase"] == "Running")
    cluster.oom("default", "p")
    found = terminated(ended())
    assert (found["exitCode"], found["reason"]) == (137, "OOMKilled")


def test_containers_are_restarted_where_the_policy_says(cluster, run_pod, ended, tmp_path):
    script = f"[ -e {tmp_path}/x ] && exit 0; touch {tmp_path}/x; exit 3"
    run_pod(script, pod={"restartPolicy": "OnFailure"})
    status = ended()["containerStatuses"][0]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 3


def test_the_end_of_the_first_process_is_the_end_of_all(run_pod, ended, tmp_path):
    # A process in a session of its own is not in the container's process group.
    said = tmp_path / "said"
    code = f"import os, time; os.setsid(); open('{said}', 'w').write(str(os.getpid()))"
    run_pod(
        f'python3 -c "{code}; time.sleep(60)" & while [ ! -s {said} ]; do sleep 0.02; done',
        image="python:3",
    )
    ended()
    assert not is_alive(int(said.read_text(encoding="utf-8")))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks processes up in /proc")
def test_pods_die_with_the_tests_that_are_killed(tmp_path):
    program = f"""
import sys, time
from pathlib import Path
from emulators.kubernetes import local_cluster
with local_cluster(root=Path({str(tmp_path)!r})) as cluster:
    main = {{"name": "m", "image": "busybox:1", "command": ["sh", "-c", "echo $$$$; exec sleep 60"]}}
    from emulators.kubernetes.store import KINDS
    from emulators.kubernetes.api import Options
    cluster._api.create(KINDS["pods"], "default", {{"metadata": {{"name": "p"}},
        "spec": {{"containers": [main]}}}}, Options({{}}))
    while not (cluster.find("pods", "default", "p")["status"]["phase"] == "Running"
               and cluster.log("default", "p")): time.sleep(0.02)
    print(cluster.log("default", "p"), flush=True)
    time.sleep(60)
"""
    env = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    tests = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env
    )
    with tests:
        pid = int(tests.stdout.readline())
        assert is_alive(pid)
        tests.send_signal(signal.SIGKILL)
    for _ in range(100):
        if is_alive(pid):
            time.sleep(0.05)
    assert not is_alive(pid)
