"""The goldens of commands: what people see of the paper's experiments today; read the diff.

`make golden` writes them anew. Prices are those of the package, clouds those in memory.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

from cloudgan.cli.paper_plans import show_paper_plans
from launching.cloud_double import CloudDouble, RulesDouble, clouds

FOLDER = Path(__file__).parent / "golden"
PAPER = "paper-experiments.txt"


def render(folder: Path) -> str:
    """Returns what `cloudgan plan --paper` prints."""
    doubles = [CloudDouble(name, folder) for name in ("aws", "azure", "gcp")]
    rules = {double.name: RulesDouble(double, engine=None) for double in doubles}
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        show_paper_plans(clouds(*doubles, rules=rules), as_json=False)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    with tempfile.TemporaryDirectory() as buckets:
        (target / PAPER).write_text(render(Path(buckets)), encoding="utf-8")
