"""`cloudgan status`: all runs of a folder, and one of them, by its name or its folder."""

import contextlib
import datetime as dt
import subprocess
import sys
from types import SimpleNamespace

import pytest

import cloudgan as cg
import records
from cloudgan.core.clock import utc_moment
from cloudgan.core.documents import write_json
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.launch.operations import runs, targets
from cloudgan.launch.operations.run_status import RunList, RunStatus
from cloudgan.money.catalog import load_catalog
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.coevolution import CellStatus, CoevolutionConfig, GridStatus, NodeStatus
from cloudgan.schema.launch import Attempt, Launch, Node
from cloudgan.schema.price_row import CONTROL_PLANE, SYSTEM_NODE, DataMove, PoolFee
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import RunState, WorkerState
from records import heartbeat, write_run

PRICE = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/on_demand")
STARTED = (utc_moment() - dt.timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%SZ")


def trained(name, *lines, epochs=6):
    config = {"name": name, "data": {"path": "x.h5"}, "training": {"epochs": epochs}}
    return write_run(f"runs/{name}", *lines, **config)


def epoch(number, *, loss=31.25, **changes):
    """An epoch of 3 s, with 50 showers a second."""
    usual = {"validation_seconds": 0.5, "checkpoint_seconds": 0.5, "samples_per_second": 50.0}
    return records.epoch(number, 2.0, losses={"generator": {"total": loss}}, **usual | changes)


def started(workers=1):
    given = {"time": STARTED, "numerics": records.numerics(workers=workers, global_batch_size=10)}
    return records.started(**given)


def stopped(reason, message=""):
    return records.stopped(20, 9, reason, message=message)


HOLDER = """
import sys
from cloudgan.schema.run_folder import RunFolder
with RunFolder(sys.argv[1]).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def training(folder):
    """A process that holds the lock of a run, as a training does."""
    command = [sys.executable, "-c", HOLDER, str(folder.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("lines", "state", "progress", "why"),
    [
        ((started(), epoch(0), epoch(1), stopped("finished")), "done", "6/6 epochs", ""),
        ((started(), epoch(0), epoch(1), stopped("plateau")), "done", "2/6 epochs", "did not improve"),
        ((started(), epoch(0), epoch(1), stopped("interrupted")), "stopped", "2/6 epochs", "Ctrl-C"),
        ((started(), epoch(0), epoch(1, steps=4, complete=False), stopped("max_steps")), "stopped", "1/6 epochs", "--max-steps"),
        ((started(), epoch(0), stopped("failed", "the disk is full")), "failed", "1/6 epochs", "the disk is full"),
        ((started(), epoch(0)), "failed", "1/6 epochs", "it was killed"),
        ((started(workers=2), epoch(0)), "unknown", "1/6 epochs", "recorded no end"),
        ((), "unknown", "0/6 epochs", "no training process has started"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("here")
def test_a_local_training_says_how_it_ended_and_has_no_time_left(
    cloudgan_here, lines, state, progress, why
):
    trained("mine", *lines)
    found = runs.status("mine")
    assert (found.state, found.progress, found.seconds_left) == (state, progress, None)
    assert why in found.reason
    said = cloudgan_here("status", "mine").stdout
    assert f"mine: {found.view().line.split()[1]} {state}, {progress}, on this machine" in said
    assert why in said
    assert "left" not in said


def test_a_training_runs_while_its_process_holds_the_lock_however_it_ends(here):
    folder = trained("mine", started(), epoch(0), epoch(1))
    with training(folder) as process:
        found = runs.status("mine")
        assert (found.state, found.process) == ("running", str(process.pid))
        assert found.seconds_left == pytest.approx(4 * 3.0)
        assert "12 s left" in " ".join(found.view().notes)
        assert found.showers_per_second == 50
    assert runs.status("mine").state == "failed", "it was killed, and its lock file is there still"
    assert folder.lock_file.exists()


def test_a_file_system_without_locks_is_no_proof_of_an_end(here, monkeypatch):
    folder = trained("mine", started(), epoch(0))
    folder.lock_file.write_text("1")
    monkeypatch.setattr("cloudgan.core.file_lock.fcntl", None)
    found = runs.status("mine")
    assert (found.state, "no locks" in found.reason) == ("unknown", True)


def test_all_runs_of_the_folder_are_rows_of_a_table_that_fits_a_screen(
    here, cloudgan_here, plan_of, monkeypatch
):
    trained(
        "mine", started(), *(epoch(number, loss=58.83) for number in range(6)), stopped("finished")
    )
    trained("long", started(), epoch(0), epoch(1), stopped("interrupted"), epochs=40)
    (here / "runs" / "long").rename(here / "long")  # as --run=./long makes it
    folder = trained("now", started(), epoch(0))
    (here / "runs" / "notes").mkdir()
    with training(folder):
        said = cloudgan_here("status").stdout
        both = cloudgan_here("status", "--json").json()
    assert said.startswith("3 runs: 1 done, 1 stopped, 1 running\n")
    rows = [" ".join(line.split()) for line in said.splitlines()]
    assert "mine ✓ done this machine 6/6 epochs 58.8 - 5h" in rows
    assert "long ■ stopped this machine 2/40 epochs 31.2 - 5h" in rows
    assert "now ● running this machine 1/6 epochs 31.2 - 5h" in rows
    assert max(map(len, said.splitlines())) <= 80
    assert {one["run"]: one["usd"] for one in both["runs"]} == dict.fromkeys(
        ["mine", "long", "now"]
    )


def test_a_folder_without_runs_says_how_to_make_one(here, cloudgan_here):
    said = cloudgan_here("status").stdout
    assert said.startswith("no run in runs/\n")
    assert "cloudgan train showers.h5" in said
    assert cloudgan_here("status", "--json").json()["runs"] == []
    assert not (here / "runs").exists()


def test_a_run_with_a_damaged_file_hides_no_other_run(here, cloudgan_here):
    trained("mine", started(), stopped("finished"))
    trained("torn").record_file.write_text("no record\n")
    said = cloudgan_here("status").stdout
    assert "2 runs: 1 done, 1 unknown" in said
    assert "warning: torn: runs/torn/record.jsonl, line 1: not a line of a run record" in said
    cloudgan_here("status", "torn", exits=2)


@pytest.mark.parametrize("name", ["mine", "runs/mine", "./runs/mine", "{here}/runs/mine"])
@pytest.mark.parametrize("command", ["status", "cost"])
def test_a_run_is_named_or_its_folder_is_given(here, cloudgan_here, command, name):
    trained("mine", started(), epoch(0), stopped("finished"))
    assert cloudgan_here(command, name.format(here=here)).stdout
    assert cg.open_run(name.format(here=here)).record.epochs()


def test_a_trial_of_a_search_is_named_below_it(here):
    trained("search/trials/0007", started(), epoch(0), stopped("finished"))
    for name in ("search/trials/0007", "runs/search/trials/0007"):
        assert runs.status(name).run == "search/trials/0007"
    assert cg.status().runs == (), "a folder of trials without search.json is no run"


@pytest.mark.parametrize(
    "words",
    [
        ("status", "mien"), ("logs", "mien"), ("cancel", "mien"), ("down", "mien"), ("adopt", "mien"),
        ("exec", "mien", "--", "ls"), ("cost", "mien"), ("cost", "runs/mien"), ("generate", "mien", "out.h5"), ("validate", "mien"),
        ("export", "mien", "out"), ("compare", "mien"), ("offers", "--run=mien"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_command_suggests_the_nearest_run(here, cloudgan_here, words):
    trained("mine", started(), epoch(0), stopped("finished"))
    said = cloudgan_here(*words, exits=2).stderr
    assert "unknown run 'mien'. Did you mean 'mine'? Known: mine." in said
    with pytest.raises(UnknownNameError, match="Did you mean 'mine'"):
        cg.open_run("mien")


def test_without_runs_the_error_says_how_to_make_or_find_one(here):
    for name in ("gan", "runs/gan", "x" * 5000, "a\0b"):
        with pytest.raises(ConfigError, match=r"there is no run .*`cloudgan train.*--provider"):
            cg.open_run(name)
    (here / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty is not the folder of a run: it has no run.yaml"):
        cg.open_run("empty")


@pytest.mark.parametrize("command", ["cancel", "down", "adopt"])
def test_a_run_that_was_not_launched_has_no_job(here, cloudgan_here, command):
    trained("mine", started(), epoch(0))
    said = cloudgan_here(command, "mine", exits=2).stderr
    assert "runs/mine has no job" in said
    assert "`cloudgan status runs/mine`" in said


def test_a_run_that_another_folder_launched_names_that_folder(
    here, cloudgan_here, plan_of, tmp_path
):
    plan = plan_of(name="gan", target={"provider": "local"})
    plans.write(tmp_path / "there" / "runs" / "gan" / "plan.json", plan)
    said = cloudgan_here("status", "there/runs/gan", exits=2).stderr
    assert f"change to {tmp_path / 'there'}" in said


class Cluster:
    """A cluster with some runs, each in a state."""

    def __init__(self, states):
        self.states = states

    def list_runs(self):
        return tuple(plan.run for plan, _ in self.states)

    def desired_state(self, run):
        return next((plan for plan, _ in self.states if plan.run == run), None)

    def state(self, run):
        return next(state for plan, state in self.states if plan.run == run)

    def deprovision(self, run, state):
        return iter(())

    def stop(self, run):
        pass

    def cluster(self, run):
        return None

    def deleted(self, run):
        return ()

    def log_sources(self, run):
        return {}


@pytest.fixture
def launched(here, monkeypatch, plan_of):
    """Writes plan.json of runs of a cluster in these states; `theirs` has no folder here."""

    def launch(price=None, **states):
        plan = {name: plan_of(name=name, price=price) for name in states}
        cluster = Cluster([(plan[name], state) for name, state in states.items()])
        for name in states:
            if name != "theirs":
                plans.write(here / "runs" / name / "plan.json", plan[name])
        opened = lambda target, say, store=None: cluster
        monkeypatch.setattr(targets, "open_backend", opened)
        monkeypatch.setattr(runs, "open_backend", opened)
        monkeypatch.setattr(
            "cloudgan.launch.lifecycle.run_results.RunResults.from_plan", lambda plan: None
        )
        return cluster

    return launch


def test_launched_runs_and_those_of_others_in_the_same_cluster_are_listed(
    launched, cloudgan_here, here
):
    launched(
        ours=RunState("running", started_at=STARTED),
        gone=RunState("absent"),
        theirs=RunState("waiting"),
    )
    found = cg.status()
    assert {one.run: one.state for one in found.runs} == {
        "ours": "running",
        "gone": "stopped",
        "theirs": "waiting",
    }
    assert {one.usd for one in found.runs} == {None}
    assert not (here / "runs" / "theirs").exists(), "nothing of others is written here"
    assert cg.status("theirs").state == "waiting", "its name suffices"
    assert "theirs: ○ waiting, on kubernetes" in cloudgan_here("status", "theirs").stdout


def test_a_cluster_that_does_not_answer_hides_no_local_run(launched, cloudgan_here):
    cluster = launched(ours=RunState("running"))
    trained("mine", started(), stopped("finished"))

    def refuse(run=None):
        raise ConfigError("the cluster is gone")

    cluster.state = cluster.list_runs = refuse
    said = cloudgan_here("status").stdout
    assert "2 runs: 1 done, 1 unknown" in said
    assert "warning: ours: the cluster is gone" in said


@pytest.mark.parametrize("phase", ["finished", "failed", "stopped", "absent"])
def test_cancel_of_a_run_that_ended_says_so_and_stops_nothing(launched, cloudgan_here, phase):
    cluster = launched(ours=RunState(phase))
    cluster.stop = None  # a call would fail
    state = {"finished": "done", "failed": "failed"}.get(phase, "stopped")
    said = cloudgan_here("cancel", "ours").stdout
    assert said.startswith(f"ours is {state} already: nothing was stopped\n")
    assert "fetched" not in said
    found = cloudgan_here("cancel", "ours", "--json").json()
    assert (found["state"], found["was_over"]) == (state, True)


STOPPED = {
    "waiting": ("waiting", None, "stopped before a worker started"),
    "waiting after a preemption": ("waiting", 3, "stopped after a checkpoint"),
    "running": ("running", None, "stopped after a checkpoint"),
}


@pytest.mark.parametrize("case", STOPPED.values(), ids=STOPPED)
def test_cancel_names_a_checkpoint_only_where_a_worker_had_started(
    launched, reports, cloudgan_here, case
):
    phase, step, said = case
    launched(ours=RunState(phase))
    reports(step and beat(step=step))
    assert cloudgan_here("cancel", "ours").stdout.startswith(f"✓ ours is {said}; the same")
    found = cloudgan_here("cancel", "ours", "--json").json()
    assert found["had_started"] == (said != "stopped before a worker started")


@pytest.mark.parametrize("flags", [(), ("--lines=5",)], ids=str)
def test_logs_of_a_run_that_has_printed_nothing_say_so(launched, cloudgan_here, flags):
    launched(ours=RunState("waiting"))
    said = cloudgan_here("logs", "ours", *flags, exits=2).stderr
    assert "run ours has printed nothing yet; see `cloudgan status ours`" in said


def beat(**values):
    return heartbeat(time="2026-01-01T00:00:00Z", epochs=60, **values)


@pytest.fixture
def reports(monkeypatch):
    """Replaces what the store has of each run by this report of its workers."""

    def put(report):
        found = SimpleNamespace(
            heartbeat=lambda: report,
            read_launch=lambda: None,
            stored_launch=lambda: (None, ""),
            write_launch=lambda *_: None,
            is_own=lambda: True,
            gib=lambda: None,
            fetch_if_reachable=lambda *_: (),
        )
        monkeypatch.setattr(
            "cloudgan.launch.lifecycle.run_results.RunResults.from_plan", lambda plan: found
        )

    return put


def test_a_launched_run_is_one_screen(launched, cloudgan_here, reports):
    why = "waits for a node"
    workers = (
        WorkerState(0, "running", node="a"),
        WorkerState(1, "waiting", reason=why, restarts=2),
    )
    launched(ours=RunState("running", workers, nodes=(Node(name="a"),)), price=PRICE)
    reports(beat(epoch=6, step=1234, seconds_per_epoch=10.0, damaged_checkpoints=(30, 20)))
    said = cloudgan_here("status", "ours").stdout
    for part in (
        "ours: ● running, 6/60 epochs, on kubernetes",
        "step 1,234",
        "10 s per epoch, 9 min left",
        "damaged checkpoints, not used: step 30, 20",
        why,
        "cloudgan logs ours",
    ):
        assert part in said
    found = cloudgan_here("status", "ours", "--json").json()
    assert found["job"]["nodes"][0]["name"] == "a"
    assert found["heartbeat"]["step"] == 1234


def test_what_a_run_costs_at_its_end_counts_all_that_is_billed_and_stands_beside_its_plan(
    launched, cloudgan_here, reports, here
):
    """A node for an hour and 9 minutes, its disk of 100 GiB, cluster and system node, until now and until the end."""
    launched(ours=RunState("running"), price=PRICE)
    reports(beat(epoch=6, step=1234, seconds_per_epoch=10.0))
    file = here / "runs" / "ours" / "plan.json"
    plan = plans.read(file)
    edges = {"low_usd": 3.0, "high_usd": 4.5}
    plans.write(file, plan.model_copy(update={"forecast": plan.forecast.model_copy(update=edges)}))
    of_offer = {
        name: getattr(PRICE, name) for name in ("provider", "region", "node_type", "market")
    }
    attempt = Attempt(
        nodes=(Node(name="a", started_at=utc_moment() - dt.timedelta(hours=1)),),
        price_rows=(PRICE,),
        fees=(
            CONTROL_PLANE,
            SYSTEM_NODE,
            PoolFee(kind="disk", product="pd-balanced", quantity=100),
        ),
        data=DataMove(),
        **of_offer,
    )
    launch.write(
        here / "runs" / "ours" / "launch.json",
        Launch(run="ours", config_hash=plan.config.config_hash(), attempts=(attempt,)),
    )
    hourly = PRICE.usd_per_hour + 0.1 + 0.033506 + 100 * 0.1 / 730
    found = cloudgan_here("status", "ours", "--json").json()
    assert found["usd"] == pytest.approx(hourly, abs=0.01)
    assert found["usd_at_end"] - found["usd"] == pytest.approx(hourly * 540 / 3600)
    assert found["usd_unknown"] == ["storage", "egress"]
    said = cloudgan_here("status", "ours", "-v").stdout
    least = f"at least {hourly:.2f} USD so far"
    assert f"{least}, {1.15 * hourly:.2f} at the end, planned 3.00 to 4.50" in said
    assert "unknown are storage, egress" in said
    assert "USD: known part" in cloudgan_here("status").stdout


@pytest.mark.parametrize(
    ("phase", "commands"),
    [
        ("absent", ["down"]),
        ("finished", ["logs", "cost", "down"]),
        ("stopped", ["logs", "down"]),
        ("waiting", ["cancel"]),
        ("running", ["logs", "cancel"]),
    ],
)
def test_a_launched_run_suggests_the_commands_that_have_something_to_do(
    launched, cloudgan_here, reports, phase, commands
):
    launched(ours=RunState(phase))
    reports(beat() if "logs" in commands else None)
    said = cloudgan_here("status", "ours").stdout
    never = "none of its workers has started; rerun the command that started it"
    assert (never in said) == (commands == ["down"])
    lines = (line.split() for line in said.splitlines())
    assert [words[1] for words in lines if words[:1] == ["cloudgan"]] == commands


def test_a_log_of_a_node_has_no_commands_for_that_node(launched, cloudgan_here, monkeypatch):
    launched(ours=RunState("waiting"))
    monkeypatch.setenv("CLOUDGAN_LIVENESS", "alive")
    assert cloudgan_here("status", "ours").stdout == "ours: ○ waiting, 0 epochs, on kubernetes\n"


def write_grid(seconds_ago=5):
    """A grid of 1x3 cells: one has finished, one trains, one has not begun."""
    folder = RunFolder("runs/grid")
    folder.create()
    config = CoevolutionConfig(rows=1, columns=3, task="ring", engine="ranks", iterations=4)
    write_json(folder.path / "coevolution.json", config)
    finished = {"state": "finished", "iteration": 4, "memory_bytes": 300 * 2**20}
    trains = {"state": "processing", "iteration": 3, "silent_seconds": 1.5}
    cells = enumerate((finished, trains, {"state": "inactive"}))
    status = GridStatus(
        time=(utc_moment() - dt.timedelta(seconds=seconds_ago)).isoformat(),
        rows=1,
        columns=3,
        iterations=4,
        nodes=(NodeStatus(host="alpha", processor="p", cores=4, memory_gib=8, ranks=5),),
        cells=tuple(CellStatus(name=f"0-{n}", rank=n + 1, host="alpha", **one) for n, one in cells),
    )
    write_json(folder.path / "status.json", status)
    return folder


@pytest.fixture
def grid(here):
    return write_grid()


@pytest.mark.parametrize("name", ["grid", "runs/grid"])
def test_a_grid_is_drawn_with_a_row_per_cell(grid, cloudgan_here, name):
    with training(grid):
        found = runs.status(name)
        said = cloudgan_here("status", name).stdout
    assert (found.state, found.task, found.progress) == ("running", "evolve", "0/4 iterations")
    assert "  # o .\n    (. inactive, o processing, # finished)\n  alpha: 4 cores, 5 ranks" in said
    rows = [line.split() for line in said.splitlines()]
    assert ["0-0", "1", "alpha", "finished", "4", "unknown", "unknown", "300"] in [
        row[:8] for row in rows
    ]
    silent = next(float(row[-1]) for row in rows if row[:1] == ["0-1"])
    assert 6.5 <= silent < 60, "1.5 s when it was written, 5 s ago"


@pytest.mark.parametrize(
    ("written", "state"),
    [("finished", "done"), ("interrupted", "stopped"), ("failed", "failed"), ("running", "failed")],
)
def test_a_grid_that_ended_is_not_silent_longer_and_says_how_it_ended(grid, written, state):
    path = grid.path / "status.json"
    path.write_text(path.read_text().replace('"running"', f'"{written}"'))
    assert runs.status("grid").state == state


def test_a_result_of_status_is_a_value_that_fits_a_notebook_cell(here):
    trained("mine", started(), epoch(0), stopped("finished"))
    found = cg.status("mine")
    assert isinstance(found, RunStatus)
    assert repr(found) == "<RunStatus: mine: ✓ done, 6/6 epochs, on this machine>"
    assert "<table" in RunList(runs=(found,))._repr_html_()
