"""Progress in a notebook, and the import of TensorFlow."""

import gc
import sys
from types import ModuleType, SimpleNamespace

import pytest

import cloudgan as cg
from cloudgan.core.progress import Silent
from cloudgan.reports import notebook_progress
from cloudgan.reports.notebook_progress import NotebookProgress, usual_progress
from cloudgan.training import tensorflow_import
from fuzz.project import write_showers


class Cell:
    """What is shown below a cell: for each displayed line the texts it had."""

    def __init__(self):
        self.lines = []

    def display(self, shown, display_id=None):
        texts = [shown]
        self.lines.append(texts)
        return SimpleNamespace(update=texts.append) if display_id else None

    def texts(self):
        return [[repr(text) for text in line] for line in self.lines]


@pytest.fixture
def cell(monkeypatch):
    found, now = Cell(), [100.0]
    shell = SimpleNamespace(kernel=object())
    loaded, display = ModuleType("IPython"), ModuleType("IPython.display")
    loaded.get_ipython, display.display = (lambda: shell), found.display
    monkeypatch.setitem(sys.modules, "IPython", loaded)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(notebook_progress.time, "monotonic", lambda: now[0])
    found.now, found.shell = now, shell
    return found


def test_tasks_share_one_line_with_share_time_left_and_note(cell):
    progress = NotebookProgress()
    progress.start("epoch 3/20", 544, "showers")
    cell.now[0] += 3
    progress.advance(136, "G 65.2")
    progress.advance(136)  # too soon for another update
    cell.now[0] += 1
    progress.advance(272)
    progress.start("writing the report")
    assert cell.texts() == [
        [
            "epoch 3/20",
            "epoch 3/20, 136/544 showers, 9 s left, G 65.2",
            "epoch 3/20, 544/544 showers, 4 s, G 65.2",
            "writing the report",
        ]
    ]
    assert '<progress value="0.250">' in cell.lines[0][1]._repr_html_()


def test_a_line_that_is_said_stays(cell):
    progress = NotebookProgress()
    progress.start("training")
    progress.say("checkpoint <1> not used")
    progress.start("validating")
    assert cell.texts() == [["training", "validating"], ["checkpoint <1> not used"]]
    assert "&lt;1&gt;" in cell.lines[1][0]._repr_html_()


@pytest.mark.parametrize("where", ["no IPython", "terminal of IPython"])
def test_outside_a_notebook_nothing_is_shown(cell, monkeypatch, where):
    if where == "no IPython":
        monkeypatch.delitem(sys.modules, "IPython")
    else:
        del cell.shell.kernel
    assert isinstance(usual_progress(), Silent)


def test_a_function_without_the_argument_shows_its_progress_in_a_notebook(cell, tmp_path):
    cg.simulate(tmp_path / "mc.h5", showers=3)
    (line,) = cell.texts()
    assert line[-1].startswith("simulating (gflash), 3/3 showers")
    cg.simulate(tmp_path / "mine.h5", showers=3, progress=Silent())
    assert len(cell.lines) == 1


# The import of TensorFlow; the modules that it loads are replaced here


@pytest.fixture
def imported(monkeypatch):
    """What each import saw: its name, whether matplotlib is hidden, whether garbage is collected."""
    seen = []

    def note(name):
        hidden = "matplotlib" in sys.modules and sys.modules["matplotlib"] is None
        seen.append((name, hidden, gc.isenabled()))
        if name == "keras" and sys.argv[1:] == ["fails"]:
            raise ImportError(name)

    for name in ("tensorflow", "matplotlib"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(tensorflow_import, "import_module", note)
    return seen


@pytest.mark.parametrize(
    ("program", "hidden"),
    [("/usr/bin/cloudgan", True), ("cloudgan/__main__.py", True), ("", False)],
)
def test_only_the_program_leaves_out_what_keras_imports_for_others(
    imported, monkeypatch, program, hidden
):
    monkeypatch.setattr(sys, "argv", [program])
    tensorflow_import.import_tensorflow()
    assert imported == [("tensorflow", hidden, False), ("keras", hidden, False)]
    assert "matplotlib" not in sys.modules
    assert gc.isenabled()


@pytest.mark.parametrize(("backend", "hidden"), [("tensorflow", True), ("jax", False)])
def test_a_part_of_scipy_is_left_out_unless_keras_imports_jax_which_needs_it(
    monkeypatch, backend, hidden
):
    found = []
    for name in ("tensorflow", "scipy.sparse"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(
        tensorflow_import,
        "import_module",
        lambda _: found.append(sys.modules.get("scipy.sparse", "absent") is None),
    )
    monkeypatch.setattr(sys, "argv", ["cloudgan"])
    monkeypatch.setenv("KERAS_BACKEND", backend)
    tensorflow_import.import_tensorflow()
    assert found == [hidden, hidden]


def test_a_failed_import_leaves_the_process_as_it_was(imported, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cloudgan", "fails"])
    with pytest.raises(ImportError):
        tensorflow_import.import_tensorflow()
    assert len(imported) == 2
    assert "matplotlib" not in sys.modules
    assert gc.isenabled()


@pytest.fixture
def without_tensorflow(monkeypatch, tmp_path):
    """An empty current folder, where TensorFlow is not installed."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_training_without_tensorflow_leaves_no_folder_and_no_lock(
    without_tensorflow, tmp_path_factory, cloudgan_here
):
    data = tmp_path_factory.mktemp("showers") / "showers.h5"
    write_showers(data)
    said = cloudgan_here("train", "--preset=smoke", f"--data={data}", "--run=340", exits=2)
    assert "needs the package 'tensorflow'" in said.stderr
    assert list(without_tensorflow.iterdir()) == []


def test_a_demo_without_tensorflow_simulates_nothing(without_tensorflow, cloudgan_here):
    said = cloudgan_here("demo", exits=2)
    assert "needs the package 'tensorflow'" in said.stderr
    assert list(without_tensorflow.iterdir()) == []
