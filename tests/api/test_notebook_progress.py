"""Progress of the Python functions in a notebook, on a stand-in for IPython."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import cloudgan as cg
from cloudgan.api import notebook_progress
from cloudgan.api.notebook_progress import NotebookProgress, usual_progress
from cloudgan.core.progress import Silent


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
