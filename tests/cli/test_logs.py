"""`logs`, the budget while a run is followed, and the question before it starts."""

import datetime as dt
import io
import subprocess
import sys

import pytest

from cloudgan.cli.execution import confirm
from cloudgan.core.durations import parse_since
from cloudgan.core.errors import ConfigError, ConfirmationError
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.operations import runs
from cloudgan.launch.operations.launched_run import RunWatch, budget_warning
from cloudgan.schema import plan as plans
from cloudgan.schema.cost_report import Totals
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.run_state import RunState

NOW = dt.datetime(2026, 11, 25, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("10m", NOW - dt.timedelta(minutes=10)),
        ("1h30m", NOW - dt.timedelta(minutes=90)),
        ("2026-11-25T11:00:00Z", NOW - dt.timedelta(hours=1)),
        ("2026-11-25T12:00:00+01:00", NOW - dt.timedelta(hours=1)),
        ("2026-11-25 11:00", NOW - dt.timedelta(hours=1)),
    ],
)
def test_since_is_a_duration_or_a_time(text, moment):
    assert parse_since(text, "--since", NOW) == moment


@pytest.mark.parametrize("text", ["10", "soon", "-5m", "0m", "2026-13-01"])
def test_another_since_is_refused_with_examples(text):
    with pytest.raises(ConfigError, match=r"--since=.*10m or 2h.*2026-11-25T17"):
        parse_since(text, "--since", NOW)


def test_a_trial_has_the_log_of_its_block_and_workers_have_theirs(here, cloudgan_here):
    trial = RunFolder("runs/search/trials/0000")
    trial.checkpoints.mkdir(parents=True)
    (trial.path / "block.log").write_text("one\ntwo\nthree\n")
    assert cloudgan_here("logs", "search/trials/0000").stdout == "[0] one\n[0] two\n[0] three\n"
    last = runs.logs("search/trials/0000", lines=2, follow=True)
    assert [line.text for line in last] == ["two", "three"]
    workers = RunFolder("runs/two")
    workers.checkpoints.mkdir(parents=True)
    workers.logs.mkdir()
    (workers.logs / "worker-0.log").write_text("a\n")
    (workers.logs / "worker-1.log").write_text("b\n")
    assert cloudgan_here("logs", "two").stdout == "[0] a\n[1] b\n"


def test_a_training_in_a_terminal_says_where_its_output_is(here, cloudgan_here):
    RunFolder("runs/mine").checkpoints.mkdir(parents=True)
    said = cloudgan_here("logs", "mine", exits=2).stderr
    assert "made in a terminal, which has what it printed" in said
    assert "`cloudgan status runs/mine`" in said


def test_the_log_of_a_deployment_here_can_be_cut_but_has_no_times(here, plan_of, cloudgan_here):
    plan = plan_of(name="gan", target={"provider": "local"}, store=str(here / "store"))
    plans.write(here / "runs" / "gan" / "plan.json", plan)
    log = here / "runs" / "gan" / "pods" / "logs" / "worker-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("up\n\x1b[31mred\x1b[0m\nsaved\n")
    assert [line.text for line in runs.logs("gan", lines=1)] == ["saved"]
    assert "\x1b" not in cloudgan_here("logs", "gan").stdout, "no colours in a pipe"
    with pytest.raises(ConfigError, match="--lines=N"):
        list(runs.logs("gan", since="10m"))
    with pytest.raises(ConfigError, match="--lines=-1"):
        list(runs.logs("gan", lines=-1))


def test_a_worker_writes_the_time_of_each_line_into_a_file(here, plan_of, cloudgan_here):
    command = "from cloudgan.cli.commands.worker import _print_line; _print_line('up')"
    plan = plan_of(name="gan", target={"provider": "local"}, store=str(here / "store"))
    plans.write(here / "runs" / "gan" / "plan.json", plan)
    log = here / "runs" / "gan" / "pods" / "logs" / "worker-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("2026-11-25T11:00:00Z old\n")
    with log.open("ab") as file:
        subprocess.run([sys.executable, "-c", command], stdout=file, check=True)
    with log.open("a") as file:
        file.write("killed\n")
    piped = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert piped.stdout == b"up\n", "the container runtime adds the time"
    found = list(runs.logs("gan", since="2026-11-25T11:30:00Z"))
    assert [line.text for line in found] == ["up", "killed"], "a line without a time is as late"
    assert found[0].time > "2026-11-25T11:30"
    assert cloudgan_here("logs", "gan").stdout == "[0] old\n[0] up\n[0] killed\n"


# Progress and budget warnings while a run is followed


class Lines:
    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.mark.parametrize(
    ("usd", "share"), [(0.0, None), (4.99, None), (5.0, 0.5), (7.99, 0.5), (8.0, 0.8), (12, 0.8)]
)
def test_the_budget_warning_is_due_at_50_and_80_percent(plan_of, usd, share):
    plan = plan_of()
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update={"budget_usd": 10})})
    found = budget_warning(plan, usd)
    assert (found.share if found else None) == share
    assert budget_warning(plan_of(), usd) is None, "no budget"
    assert budget_warning(plan, None) is None, "no price"


def test_each_budget_warning_is_given_once(plan_of, tmp_path):
    plan = plan_of()
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update={"budget_usd": 10})})
    progress, spent = Lines(), iter([1.0, 5.1, 5.2, 7.0, 8.1, 9.0, 11.0])

    class Spending(RunWatch):
        def spent(self):
            return Totals(known_usd=next(spent), unknown=())

    watch = Spending(LaunchLog(RunFolder(tmp_path), plan), progress)
    for _ in range(7):
        watch.see(RunState("running"))
    assert [line.partition(" of")[0] for line in progress.lines] == ["5.10 USD", "8.10 USD"]


@pytest.fixture
def typed(monkeypatch, capsys):
    """Asks a question on a terminal with this input; returns what it printed."""

    def ask(text, is_terminal=True, yes=False):
        stdin = io.StringIO(text)
        stdin.isatty = lambda: is_terminal
        monkeypatch.setattr("sys.stdin", stdin)
        confirm("Spend 5 USD?", yes=yes)
        return capsys.readouterr()

    return ask


def test_yes_on_the_terminal_or_by_the_flag_confirms(typed):
    for answer in ("y\n", "YES\n", " yes \n"):
        # Standard output may be read by a program.
        assert typed(answer) == ("", "Spend 5 USD? [y/N] ")
    assert typed("", is_terminal=False, yes=True) == ("", "")


def test_any_other_answer_is_a_no_and_without_a_terminal_the_error_names_yes(typed):
    for answer in ("\n", "n\n", "yess\n", ""):
        with pytest.raises(ConfirmationError, match="nothing was started") as refused:
            typed(answer)
        assert refused.value.exit_code == 3
    with pytest.raises(ConfirmationError, match=r"^Spend 5 USD\? Confirmation required.*add --yes"):
        typed("yes\n", is_terminal=False)
