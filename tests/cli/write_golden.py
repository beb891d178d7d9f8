"""Writes the golden outputs of commands: the paper's experiments today, and the screens of docs/offers.md.

`make golden` runs it. Prices are those of the package; what the clouds offer follows from their planners.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from unittest import mock

from cloudgan.cli.main import main
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


OFFERS = Path(__file__).parents[2] / "docs" / "offers.md"
TODAY = dt.date(2026, 11, 22)
_SCREEN = re.compile(r"^    cloudgan (offers .*)\n(?:\n?    (?!cloudgan ).*\n)*", re.MULTILINE)


def screens() -> str:
    """Returns docs/offers.md with the screens that its commands print on a fixed day."""
    return _SCREEN.sub(_screen, OFFERS.read_text(encoding="utf-8"))


def _screen(example: re.Match[str]) -> str:
    text = io.StringIO()
    with (
        mock.patch("cloudgan.api.offers.utc_today", return_value=TODAY),
        contextlib.redirect_stdout(text),
        contextlib.suppress(SystemExit),
    ):
        main(shlex.split(example[1]))
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    shown = "\n".join(f"    {line}" if line else "" for line in lines)
    return f"    cloudgan {example[1]}\n\n{shown}\n"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (target / PAPER).write_text(render(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as empty:
        os.environ["CLOUDGAN_DATA"] = empty
        OFFERS.write_text(screens(), encoding="utf-8")
