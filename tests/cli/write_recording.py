"""Writes docs/recording.svg: commands of the README in a terminal of 80 columns, as they print today.

`make recording` runs it. Rows appear in the order in which they were printed; a viewer that shows no animation
shows the last state.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from html import escape
from pathlib import Path

from terminal import run_in_terminal

PICTURE = Path(__file__).parents[2] / "docs" / "recording.svg"
COMMANDS = (
    "simulate showers.h5 --showers=3000",
    "train showers.h5 --preset=mini --epochs=3 --run=runs/mine",
    "cost mine --price-as=gcp/g2-standard-4/us-central1/spot",
    "plan --provider=cheapest --accelerator=l4 --budget-usd=5 -- train showers.h5 --preset=mini",
)
_COLUMNS = 80
_ROW, _CHAR, _MARGIN = 18, 8.1, 16  # pixels
_PAUSE, _STEP = 1.6, 0.12  # seconds before a command, and between two rows
_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<style>
rect {{ fill: #16181d }}
text {{ fill: #d7dae0; font: 13.5px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre }}
.typed {{ fill: #8fc7ff }}
@media (prefers-reduced-motion: no-preference) {{ text {{ animation: shown 0.01s both }} }}
@keyframes shown {{ from {{ opacity: 0 }} }}
</style>
<rect width="100%" height="100%" rx="8"/>
"""


def picture(screens: list[tuple[str, list[str]]]) -> str:
    """Returns the SVG of commands and the rows that each printed."""
    drawn, top, seconds = [], _MARGIN + _ROW, 0.0
    for command, rows in screens:
        seconds += _PAUSE
        for row in (f"$ {command}", *rows, ""):
            kind = ' class="typed"' if row.startswith("$ ") else ""
            place = f'x="{_MARGIN}" y="{top}" style="animation-delay: {seconds:.2f}s"'
            if row:
                drawn.append(f"<text{kind} {place}>{escape(row)}</text>")
            top += _ROW
            seconds += _STEP
    label = escape(f"Terminal: {'; '.join(command for command, _ in screens)}")
    head = _HEAD.format(width=round(_COLUMNS * _CHAR + 2 * _MARGIN), height=top, label=label)
    return "\n".join((head + drawn[0], *drawn[1:], "</svg>\n"))


def _wrapped(command: str) -> list[str]:
    """A command line as a shell continues it where it is wider than the terminal."""
    if len(command) <= _COLUMNS - 2:
        return [command]
    first, _, rest = command.rpartition(" -- ")
    return [f"{first} -- \\", f"    {rest}"]


def main() -> None:
    """Runs the commands in an empty folder and writes the picture."""
    screens = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["NO_COLOR"] = "1"
        for command in COMMANDS:
            rows = run_in_terminal(*command.split(), columns=_COLUMNS).shown
            typed, *continued = _wrapped(f"cloudgan {command}")
            screens.append((typed, [*continued, *(row.rstrip() for row in rows)]))
    PICTURE.write_text(picture(screens), encoding="utf-8")


if __name__ == "__main__":
    main()
