"""Documents that other users wrote: a command acts on the named run only, or refuses with code 2."""

import copy
import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloudgan.cli.main import main
from cloudgan.core.labels import EXPIRES, OWNER, SPEC
from cloudgan.launch.backends.local.supervisor import (
    SavedState,
    SavedWorkerState,
    StateFile,
    process_start_time,
)
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.lifecycle.run_results import RunResults
from cloudgan.schema import plan as plans
from cloudgan.storage.folder import FolderStore
from launch.lifecycle.cloud_double import REGION, JobDouble

COMMANDS = (
    ("status", "mine"),
    ("logs", "mine"),
    ("cancel", "mine"),
    ("adopt", "mine"),
    ("down", "mine"),
    ("down", "mine", "--purge", "--yes"),
)
IDENTITY = {("run",), ("config", "name")}
PATHS = (
    ("run",),
    ("config", "name"),
    ("store",),
    ("owner",),
    ("spec_hash",),
    ("target", "account"),
    ("target", "provider"),
    ("target", "cluster"),
    ("target", "namespace"),
    ("target", "region"),
    ("target", "zone"),
    ("node_pool", "name"),
    ("schema_version",),
)
NAMES = (
    "theirs",
    "../theirs",
    "../../outside",
    "runs/theirs",
    "..",
    "",
    "mine\n",
    "mine/../theirs",
    "mine\\..\\theirs",
    "min\u0435",
    "x" * 300,
    "-rf",
    7,
    None,
    ["theirs"],
)
FOLDERS = ("OUTSIDE", "OUTSIDE/runs/theirs", "file://OUTSIDE", "runs/theirs/store", "../outside")
PROPERTY = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@st.composite
def attacks(draw):
    """A command, the part of the document that is replaced, and its new value."""
    command = draw(st.sampled_from(COMMANDS))
    path = draw(st.sampled_from(PATHS))
    values = FOLDERS if path == ("store",) else NAMES
    return command, path, draw(st.sampled_from(values))


def changed(document, path, value, outside):
    """A copy of a document with another value at a path."""
    found = copy.deepcopy(document)
    at = found
    for key in path[:-1]:
        at[key] = at[key] or {}
        at = at[key]
    at[path[-1]] = value.replace("OUTSIDE", str(outside)) if isinstance(value, str) else value
    return found


def files(folder, without=()):
    """The files of a folder with their content, and its links."""
    return {
        str(path): path.read_bytes() if path.is_file() else path.readlink()
        for path in sorted(folder.rglob("*"))
        if (path.is_file() or path.is_symlink())
        and not any(path.is_relative_to(part) for part in without)
    }


def type_command(capsys, *arguments):
    """Runs a command in this process; returns its exit code and what it printed."""
    try:
        main([str(argument) for argument in arguments])
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert "a fault of cloudgan" not in said.err
    return code, said.out + said.err


def run_files(folder, plan, name):
    """What a local run has in its folder and in its store."""
    plans.write(folder / "runs" / name / "plan.json", plan)
    ended = SavedState(phase="stopped", started_at="2026-11-21T12:00:00Z")
    StateFile(folder / "runs" / name).write(ended)
    results = RunResults.from_plan(plan)
    results.write_plan(plan)
    results.store.put(f"runs/{name}/record.jsonl", b"{}\n")
    results.store.put(f"runs/{name}/checkpoints/step-000000001.npz", b"weights")


@pytest.fixture
def two_runs(user_folder, plan_of, tmp_path):
    """The local runs mine and theirs, and files of another project outside of the folder."""
    place = {"provider": "local", "context": None, "server": None, "namespace": None}
    for name in ("mine", "theirs"):
        store = str((user_folder / "runs" / name / "store").resolve())
        run_files(user_folder, plan_of(name=name, target=place, store=store), name)
    outside = tmp_path / "outside"
    for name in ("runs/mine/precious.txt", "runs/theirs/precious.txt", "precious.txt"):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text("not of this run")
    return user_folder


@PROPERTY
@given(attack=attacks())
def test_a_hostile_plan_of_a_local_run_touches_nothing_else(two_runs, tmp_path, capsys, attack):
    command, path, value = attack
    saved, outside = tmp_path / "saved", tmp_path / "outside"
    if not saved.exists():
        shutil.copytree(two_runs / "runs", saved)
    shutil.rmtree(two_runs / "runs")
    shutil.copytree(saved, two_runs / "runs")
    file = two_runs / "runs" / "mine" / "plan.json"
    hostile = changed(json.loads(file.read_text()), path, value, outside)
    file.write_text(json.dumps(hostile))
    mine = two_runs / "runs" / "mine"
    before, others = files(tmp_path), files(tmp_path, without=(mine,))
    code, said = type_command(capsys, *command)
    assert files(tmp_path, without=(mine,)) == others
    if path in IDENTITY:
        assert code == 2, said
        assert str(Path("runs/mine/plan.json")) in said
        assert files(tmp_path) == before


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_plan_of_another_run_is_refused_with_file_and_mismatch(
    two_runs, tmp_path, capsys, command
):
    shutil.copy(
        two_runs / "runs" / "theirs" / "plan.json", two_runs / "runs" / "mine" / "plan.json"
    )
    before = files(tmp_path)
    code, said = type_command(capsys, *command)
    assert code == 2
    assert "runs/mine/plan.json: run is 'theirs', but 'mine' was requested" in said
    assert files(tmp_path) == before


def test_a_status_of_all_runs_names_the_folder_with_a_plan_of_another_run_and_shows_the_others(
    two_runs, capsys
):
    shutil.copy(
        two_runs / "runs" / "theirs" / "plan.json", two_runs / "runs" / "mine" / "plan.json"
    )
    code, said = type_command(capsys, "status")
    assert code == 0
    assert "warning: mine: runs/mine/plan.json: run is 'theirs'" in said
    assert "? unknown" in said
    assert any(line.split()[:1] == ["theirs"] for line in said.splitlines())


def test_a_launch_log_of_another_run_is_refused(two_runs, capsys):
    text = '{"run": "theirs", "config_hash": "0", "attempts": []}'
    (two_runs / "runs" / "mine" / "launch.json").write_text(text)
    code, said = type_command(capsys, "down", "mine")
    assert code == 2
    assert "runs/mine/launch.json: run is 'theirs'" in said


def test_a_state_file_that_names_a_process_of_another_program_does_not_end_it(two_runs, capsys):
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as other:
        worker = SavedWorkerState(
            index=0, phase="running", pid=other.pid, start_time=process_start_time(other.pid)
        )
        state = SavedState(phase="running", workers=(worker,))
        StateFile(two_runs / "runs" / "mine").write(state)
        assert type_command(capsys, "down", "mine")[0] == 0
        assert other.poll() is None
        other.communicate(b"\n", timeout=10)
        assert other.returncode == 0


BEAT = {
    "time": "2026-11-21T12:00:00Z",
    "config_hash": "0" * 16,
    "phase": "training",
    "world": 1,
    "missing_workers": [],
    "generation": 1,
    "restarts": 0,
    "epochs": 2,
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("store/runs/mine/heartbeat.json", BEAT | {"time": "x" * 10**5}),
        ("store/runs/mine/heartbeat.json", BEAT | {"epochs": 10**400, "seconds_per_epoch": 1.0}),
        ("store/runs/mine/heartbeat.json", BEAT | {"notices": {"0": "NaN"}}),
        ("store/runs/mine/launch.json", "0001-01-01T00:00:00Z"),
        ("store/runs/mine/launch.json", "9999-12-31T23:59:59Z"),
        ("pods/state.json", {"phase": "stopped", "started_at": "x" * 10**5}),
    ],
)
def test_an_absurd_document_ends_in_a_short_sentence(two_runs, capsys, name, content):
    if isinstance(content, str):
        attempt = {"provider": "local", "node_type": "x", "program_started_at": content}
        content = {"run": "mine", "config_hash": "0", "attempts": [attempt]}
    (two_runs / "runs" / "mine" / name).write_text(json.dumps(content))
    for command in (("status", "mine"), ("status", "mine", "--json")):
        code, said = type_command(capsys, *command)
        assert code in (0, 2), said
        assert len(said) < 5000


@pytest.mark.parametrize("name", ["checkpoints", "pods"])
def test_a_link_out_of_the_folder_of_the_run_is_not_followed(two_runs, tmp_path, capsys, name):
    mine = two_runs / "runs" / "mine"
    shutil.rmtree(mine / name, ignore_errors=True)
    (mine / name).symlink_to(tmp_path / "outside")
    others = files(tmp_path / "outside")
    type_command(capsys, "down", "mine")
    assert files(tmp_path / "outside") == others


def test_a_linked_folder_in_a_store_is_not_purged(two_runs, tmp_path, capsys):
    place = two_runs / "runs" / "mine" / "store" / "runs"
    shutil.rmtree(place / "mine")
    (place / "mine").symlink_to(two_runs / "runs" / "theirs" / "store" / "runs" / "theirs")
    theirs = files(two_runs / "runs" / "theirs")
    code, said = type_command(capsys, "down", "mine", "--purge", "--yes")
    assert (code, "a store follows no links" in said) == (1, True)
    assert files(two_runs / "runs" / "theirs") == theirs


@pytest.fixture
def rented(cloud, tmp_path, provisioned, user_folder):
    """The provisioned runs mine and theirs in one account, found from another folder."""
    cloud.add("cluster", "cloudgan")
    cloud.add("cluster", "theirs", region=REGION)
    cloud.api = JobDouble()
    for name in ("mine", "theirs"):
        plan = provisioned(name, "started")
        results = RunResults.from_plan(plan)
        results.write_plan(plan)
        results.store.put(f"runs/{name}/record.jsonl", b"{}\n")
        labels = plan.labels().as_dict() | {EXPIRES: "21001231t120000z"}
        cloud.add("pool", f"cloudgan/{name}", labels=labels, parent="cloudgan", nodes=1)
    outside = tmp_path / "outside" / "runs" / "mine"
    outside.mkdir(parents=True)
    (outside / "precious.txt").write_text("not of this run")
    return cloud


@PROPERTY
@given(attack=attacks())
def test_a_hostile_desired_state_in_a_bucket_touches_nothing_else(
    rented, tmp_path, user_folder, capsys, attack
):
    command, path, value = attack
    buckets, saved, outside = tmp_path / "buckets", tmp_path / "saved", tmp_path / "outside"
    if not saved.exists():
        shutil.copytree(buckets, saved)
        rented.saved = dict(rented.there)
    for folder in (buckets, user_folder / "runs"):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, buckets)
    rented.there, rented.deleted[:] = dict(rented.saved), []
    (file,) = buckets.glob("*/runs/mine/desired-state/000001.json")
    hostile = changed(json.loads(file.read_text()), ("plan", *path), value, outside)
    file.write_text(json.dumps(hostile))
    mine = file.parents[1]
    here = (mine, user_folder / "runs" / "mine")
    before, others = files(tmp_path), files(tmp_path, without=here)
    code, said = type_command(capsys, *command, "--provider=gcp")
    assert files(tmp_path, without=here) == others
    assert {"theirs", "cloudgan/theirs"} <= set(rented.there)
    if path in {*IDENTITY, ("store",), ("target", "account"), ("target", "provider")}:
        original = json.loads((saved / file.relative_to(buckets)).read_text())
        if hostile != original and value != "" and not (value is None and path[-1] == "account"):
            assert code == 2, said
            assert files(tmp_path) == before
            assert not rented.deleted


def test_resources_of_a_namesake_of_another_user_are_kept(rented, capsys):
    labels = {"cloudgan-run": "mine", OWNER: "someone-else", SPEC: "0000000000"}
    rented.add("pool", "cloudgan/namesake", labels=labels, parent="cloudgan", nodes=1)
    code, said = type_command(capsys, "down", "mine", "--provider=gcp")
    assert code == 0, said
    assert "cloudgan/mine" in rented.deleted
    assert "cloudgan/namesake" in rented.there
    assert "kept: pool cloudgan/namesake is of a run mine of someone-else" in said


def test_a_run_that_another_user_started_since_then_is_not_deleted_by_an_old_plan(
    rented, user_folder, capsys, tmp_path
):
    assert type_command(capsys, "adopt", "mine", "--provider=gcp")[0] == 0
    plan = plans.read(user_folder / "runs" / "mine" / "plan.json")
    theirs = plan.model_copy(update={"owner": "someone-else", "spec_hash": "0000000000"})
    RunRegistry(FolderStore(Path(plan.store)), "another machine").write(theirs, "started")
    code, said = type_command(capsys, "down", "mine")
    assert code == 2
    assert "label cloudgan-owner is 'someone-else'" in said
    assert not rented.deleted


def test_doctor_keeps_the_resources_of_a_run_whose_desired_state_is_hostile(
    rented, tmp_path, capsys
):
    (file,) = (tmp_path / "buckets").glob("*/runs/mine/desired-state/000001.json")
    file.write_text(
        json.dumps(changed(json.loads(file.read_text()), ("plan", "run"), "theirs", ""))
    )
    said = type_command(capsys, "doctor", "--provider=gcp", "--delete", "--yes", "--json")[1]
    report = json.loads(said[said.index("{") :])
    assert {one["name"]: one["status"] for one in report["resources"]}["cloudgan/mine"] == "unknown"
    assert any("run is 'theirs', but 'mine' was requested" in note for note in report["notes"])
    assert "cloudgan/mine" in rented.there


def test_doctor_refuses_a_folder_with_the_plan_of_another_run(rented, two_runs, capsys):
    shutil.copy(
        two_runs / "runs" / "theirs" / "plan.json", two_runs / "runs" / "mine" / "plan.json"
    )
    code, said = type_command(capsys, "doctor", "--provider=gcp", "--delete", "--yes")
    assert (code, "runs/mine/plan.json" in said) == (2, True)
    assert not rented.deleted


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A cluster without nodes."""
    pytest.importorskip("kubernetes")
    from emulators.kubernetes import local_cluster

    with local_cluster(nodes=0, root=tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def on_cluster(cluster, user_folder, tmp_path, plan_of, monkeypatch):
    """The ConfigMaps and Services of the runs mine and theirs, and the client of the cluster."""
    from cloudgan.launch.kubernetes.api import ClusterApi
    from cloudgan.launch.kubernetes.kubeconfig import connect

    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig", cluster.token())
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    namespaces = "/api/v1/namespaces"
    with ExitStack() as stack:
        api = ClusterApi(stack.enter_context(connect(None)))
        for name in ("cloudgan", "theirs"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            if api.get(f"{namespaces}/{name}") is None:
                api.create(namespaces, body)
        yield api


def put_run(api, plan, namespace):
    """Creates the ConfigMap and the Service of a run, as they are after its start."""
    metadata = {"name": plan.run, "labels": plan.labels().as_dict()}
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    data = {"plan.json": plan.model_dump_json()}
    if api.get(f"{maps}/{plan.run}") is None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        api.create(maps, body)
    api.patch(f"{maps}/{plan.run}", {"data": data, "metadata": {"labels": metadata["labels"]}})


@PROPERTY
@given(attack=attacks())
def test_a_hostile_configmap_touches_nothing_else(on_cluster, plan_of, tmp_path, capsys, attack):
    (command, path, value), user_folder = attack, tmp_path / "user"
    outside = tmp_path / "outside" / "runs" / "mine"
    outside.mkdir(parents=True, exist_ok=True)
    (outside / "precious.txt").write_text("not of this run")
    shutil.rmtree(user_folder / "runs", ignore_errors=True)
    api = on_cluster
    plan = plan_of(name="mine", store="pvc:runs", target={"namespace": "cloudgan"})
    theirs = plan_of(name="theirs", store="pvc:runs", target={"namespace": "cloudgan"})
    for one, namespace in ((plan, "cloudgan"), (theirs, "cloudgan"), (plan, "theirs")):
        put_run(api, one, namespace)
    document = plan.model_dump(mode="json")
    hostile = changed(document, path, value, tmp_path / "outside")
    maps = "/api/v1/namespaces/cloudgan/configmaps"
    api.patch(f"{maps}/mine", {"data": {"plan.json": json.dumps(hostile)}})
    others = [
        api.get(f"/api/v1/namespaces/{space}/configmaps/{name}")
        for space, name in (("cloudgan", "theirs"), ("theirs", "mine"))
    ]
    here = (user_folder / "runs" / "mine",)
    on_disk = files(user_folder.parent / "outside"), files(user_folder, without=here)
    code, said = type_command(capsys, *command, "--provider=kubernetes", "--namespace=cloudgan")
    assert others == [
        api.get(f"/api/v1/namespaces/{space}/configmaps/{name}")
        for space, name in (("cloudgan", "theirs"), ("theirs", "mine"))
    ]
    assert on_disk == (files(user_folder.parent / "outside"), files(user_folder, without=here))
    if path in {*IDENTITY, ("store",), ("owner",), ("spec_hash",)} and hostile != document:
        assert code == 2, said
        assert api.get(f"{maps}/mine") is not None
        assert not (user_folder / "runs").exists()
