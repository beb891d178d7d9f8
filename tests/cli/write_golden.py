"""Writes the screens of docs/offers.md.

`make golden` runs it. Prices are those of the package; what the clouds offer follows from their planners.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import re
import shlex
import tempfile
from pathlib import Path
from unittest import mock

from cloudgan.cli.main import main

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
    with tempfile.TemporaryDirectory() as empty:
        os.environ["CLOUDGAN_DATA"] = empty
        OFFERS.write_text(screens(), encoding="utf-8")
