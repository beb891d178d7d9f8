"""The goldens of commands: what people see of the paper's experiments today; read the diff.

`make golden` writes them anew. Prices are those of the package, what clouds serve is what their rules say.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

from cloudgan.cli.views.plan_view import print_paper_plans
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS

FOLDER = Path(__file__).parent / "golden"
PAPER = "paper-experiments.txt"


def render() -> str:
    """Returns what `cloudgan plan --paper` prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print_paper_plans(BUILT_IN_CLOUDS, as_json=False)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (target / PAPER).write_text(render(), encoding="utf-8")
