"""What a person sees of long commands on a terminal of 80 columns and 24 rows."""

import re

import pytest

from cli.test_compare import three_epochs
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.simulation.gflash import simulate
from terminal import Program, run_in_terminal

pytestmark = pytest.mark.tf

TRAIN = ("--config=run.yaml", "--data=showers.h5", "--preset=smoke")
OF_PLAN = ("store ", "  1 worker process ")  # `deploy` prints it before it starts
EPOCH = r"epoch +\d+  G [\d.]+ +D [\d.]+ +\d+ showers  [\d.]+ s"


@pytest.fixture(scope="session")
def showers(made_once):
    def make(folder):
        write_hdf5(folder / "showers.h5", simulate(520, seed=5))

    return made_once("terminal-showers", make) / "showers.h5"


@pytest.fixture
def folder(showers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "showers.h5").symlink_to(showers)
    (tmp_path / "run.yaml").write_text("data: {held_out_fraction: 0.4}\n")
    (tmp_path / "space.yaml").write_text(
        "model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("command", "row", "live"),
    [
        pytest.param(
            ("train", *TRAIN, "--epochs=2", "--validate-every=1", "--run=runs/mine"),
            rf"{EPOCH}   metric [\d.]+( best)?",
            r"mine  [12]/2  .*s left",
            id="train",
        ),
        pytest.param(
            ("evolve", "--task=ring", "--grid=1x2", "--iterations=2", "--batches=2"),
            r"iteration +\d+  best score [\d.]+ +[\d.]+ s",
            r"evolving  \d/2 iterations",
            id="evolve",
        ),
        pytest.param(
            ("search", "space.yaml", *TRAIN, "--epochs=1", "--trials=2", "--sampler=random"),
            r"trial \d: metric [\d.]+ \(learning_rate [\d.e-]+\)",
            r"search  \d/2 trials",
            id="search",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("train", *TRAIN, "--epochs=2", "--parallel=downpour", "--ranks=2", "--run=runs/mine"),
            EPOCH,
            "",  # the conversion is over soon; rank 0 has no terminal, and writes lines
            id="ranks",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("deploy", "--provider=local", "--name=far", *TRAIN, "--epochs=2"),
            EPOCH,
            r"training far  \d/2 epochs",
            id="deploy",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_each_finished_part_has_one_row_above_one_live_line_which_ends(folder, command, row, live):
    if command[0] == "search":
        pytest.importorskip("optuna")
    if "--ranks=2" in command:
        pytest.importorskip("mpi4py")
    screen = run_in_terminal(*command)
    assert [each for each in screen.wrapped if not each.startswith(OF_PLAN)] == []
    assert screen.has_cursor
    assert not any("..." in each for each in (*screen.shown, *screen.live))
    assert len([each for each in screen.shown if re.fullmatch(row, each)]) == 2, screen.shown
    assert any(re.match(live, each) for each in screen.live)
    assert not any("━" in each or " left" in each for each in screen.shown)


def test_a_stopped_training_leaves_the_terminal_as_it_was(folder):
    program = Program("train", *TRAIN, "--epochs=500", "--run=runs/mine")
    program.wait_for("epoch  1")
    program.interrupt()
    assert program.end() == 130
    screen = program.screen
    assert screen.has_cursor
    assert screen.rows[-1] == ""
    assert not any("━" in each for each in screen.shown)
    assert "rerun the command to resume" in " ".join(screen.shown)


def test_a_simulation_that_is_terminated_leaves_the_terminal_as_it_was(folder):
    program = Program("simulate", "more.h5", "--showers=200000")
    program.wait_for("simulating")
    program.terminate()
    assert program.end() == 75
    assert program.screen.has_cursor
    assert not any("━" in each for each in program.screen.shown)


def test_no_word_of_an_error_is_cut_by_the_edge_of_the_terminal(folder):
    program = Program("trian", "showers.h5")
    assert program.end() == 2
    assert program.screen.wrapped == []
    assert program.screen.shown[0].endswith("Did you mean 'train'? Known: adopt, bench,")


def test_the_watched_status_is_drawn_in_place_and_ctrl_c_is_its_ordinary_end(folder):
    three_epochs(folder / "runs" / "mine", epoch_seconds=80)
    program = Program("status", "--watch=1")
    program.wait_for("mine")
    program.interrupt()
    assert program.end() == 0
    screen = program.screen
    assert screen.has_cursor
    assert screen.wrapped == []
    assert sum("mine" in each for each in screen.rows) == 1
    assert not any("..." in each for each in screen.rows)
