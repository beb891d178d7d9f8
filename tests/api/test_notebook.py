"""Every cell of docs/notebook.md runs, prints nothing, and displays its value."""

import ast
import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from forking_server import ForkedProgram

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tf, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "notebook.md"

if not PAGE.exists():
    pytest.skip("a source distribution has no docs", allow_module_level=True)

CELLS = re.findall(
    r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)
SHOWN = {1: "test.h5", 2: "<svg", 4: "<svg", 6: "generated.h5", 7: "steady epochs", 8: "cheapest", 9: "2 nodes of 8 x V100",
         10: "second"}  # fmt: skip
"""Text in the HTML of each cell's value, by the number of the cell."""


def execute(cell, names):
    """Runs a cell as Jupyter does; returns the value of its last expression."""
    body = ast.parse(cell).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # noqa: S307


def run_cells():
    """Runs all cells in this process and checks their values."""
    names = {}
    html = {}
    for number, cell in enumerate(CELLS, start=1):
        value = execute(cell, names)
        if value is not None:
            html[number] = value._repr_html_()
    assert len(CELLS) == 10
    assert html.keys() == SHOWN.keys()
    for number, text in SHOWN.items():
        assert text.lower() in html[number].lower(), number
        is_sentence = number in {1, 6}  # a written file
        assert "<p>" in html[number] if is_sentence else "<table" in html[number], number
        assert "<script" not in html[number], number
    assert set(names["losses"]) == {epoch.step for epoch in names["epochs"]}
    assert names["showers_per_second"] > 0
    assert names["passed"] is not bool(names["failed"])
    assert "unknown" in names["cost"].own_cost()
    assert "loading TensorFlow" in names["tasks"].names
    assert names["plan"].plan.workers.nodes == 2
    assert Path("runs", "second", "record.jsonl").exists()


def test_the_ten_cells_run_in_order_print_nothing_and_display_their_values(tmp_path):
    """In a process of its own, as in a notebook kernel: TensorFlow reads its number of threads once."""
    program = "from api.test_notebook import run_cells; run_cells()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_a_process_whose_tensorflow_has_other_threads_is_refused_with_the_next_step(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorflow as tf; tf.config.threading.set_intra_op_parallelism_threads(3)\n"
        "tf.constant(1.0) + 1; import cloudgan as cg\n"
        "cg.simulate('s.h5', showers=64, seed=1)\n"
        "cg.train(data='s.h5', preset='smoke', max_steps=1)"
    )
    with (
        contextlib.chdir(tmp_path),
        contextlib.closing(ForkedProgram([], dict(os.environ), program=str(program))) as process,
    ):
        _, said = process.communicate(timeout=600)
    assert "ConfigError: TensorFlow already runs in this process" in said
    assert "restart" in said
