"""Writes the screens of docs/cost.md, the golden screens of a few commands, and the help pages.

`make golden` runs it. Prices are those of the package; what the clouds offer follows from their planners.
"""

import contextlib
import datetime as dt
import io
import os
import re
import shlex
import tempfile
from pathlib import Path
from unittest import mock

from cli.test_compare import three_epochs
from cloudgan.cli.emit import emit
from cloudgan.cli.help import screen
from cloudgan.cli.main import main
from cloudgan.cli.program import PROGRAM, functions
from cloudgan.core.command import model_of
from cloudgan.core.documents import read_json
from cloudgan.validation.assessment import Assessment
from cloudgan.validation.gates import apply_gates
from cloudgan.validation.result import ValidationResult
from command_options import options_by_command

OFFERS = Path(__file__).parents[2] / "docs" / "cost.md"
TODAY = dt.date(2026, 11, 22)
GOLDEN = Path(__file__).parent / "golden"
COMMANDS = {
    "plan": "plan --provider=gcp --accelerator=l4 --nodes=2 --epochs=1 --budget-usd=20 --name=mine",
    "offers": "offers --epochs=60 --max-hours=2 --accelerator=a100 --market=spot",
    "status": "status",
    "cost": "cost runs/mine --price-as=gcp/n1-standard-8+1xV100/us-central1/spot",
}
_SCREEN = re.compile(
    r"^    cloudgan (offers [^#\n]*)\n\n(?:    (?!cloudgan ).*\n|\n(?=    (?!cloudgan )))+",
    re.MULTILINE,
)
"""A command with its screen below it; other lines of `offers` have none."""


def screens() -> str:
    """Returns docs/cost.md with the screens that its commands print on a fixed day."""
    return _SCREEN.sub(_screen, OFFERS.read_text(encoding="utf-8"))


def help_screens() -> str:
    """Returns the short help page of the program and of every command."""
    pages = [PROGRAM.page]
    pages += [screen(f"cloudgan {name}", model_of(each)) for name, each in functions().items()]
    return f"\n{'=' * 80}\n".join(pages) + "\n"


def ranges() -> str:
    """Returns the numbers that each flag allows; the checks of all are one function (test_parsing.py)."""
    lines = []
    for name, options in options_by_command().items():
        for one in options:
            if one.kinds in {(int,), (float,)} and one.text is None:
                low = f"{'above ' * one.range.above}{one.range.low:,}"
                lines.append(f"{name} --{one.name}: {low} to {one.range.high:,}\n")
    return "".join(lines)


def validation_screen() -> str:
    """Returns the screen of a validation of two files: the package's gates on stored numbers.

    validate.json has them: 600 showers of the parametric source against 600 of Geant4.
    """
    assessment = read_json(GOLDEN / "validate.json", Assessment)
    verdict = apply_gates(assessment)
    result = ValidationResult(
        reference=assessment.reference.name, assessment=assessment, verdict=verdict
    )
    text = io.StringIO()
    with (
        contextlib.redirect_stdout(text),
        mock.patch("cloudgan.cli.emit.width_of", return_value=80),
    ):
        emit(result, as_json=False)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def golden(name: str) -> str:
    """Returns what a command prints on a terminal of 80 columns on a fixed day, in a folder with a run."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch("cloudgan.cli.emit.width_of", return_value=80),
    ):
        three_epochs(Path("runs/mine"), epoch_seconds=80)
        return _printed(COMMANDS[name])


def _printed(command: str) -> str:
    text, moment = io.StringIO(), dt.datetime(2026, 11, 22, 12, tzinfo=dt.UTC)
    with contextlib.ExitStack() as stack:
        for module in ("launch.operations.offers", "api.cost"):
            name = f"cloudgan.{module}.utc_today"
            stack.enter_context(mock.patch(name, return_value=TODAY))
        for module in ("launch.plan.launch_plan", "launch.operations.run_status"):
            name = f"cloudgan.{module}.utc_moment"
            stack.enter_context(mock.patch(name, return_value=moment))
        stack.enter_context(contextlib.redirect_stdout(text))
        stack.enter_context(contextlib.suppress(SystemExit))
        main(shlex.split(command))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _screen(example: re.Match[str]) -> str:
    lines = _printed(example[1]).splitlines()
    shown = "\n".join(f"    {line}" if line else "" for line in lines)
    return f"    cloudgan {example[1]}\n\n{shown.rstrip()}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as empty:
        os.environ["CLOUDGAN_DATA"] = empty
        OFFERS.write_text(screens(), encoding="utf-8")
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / "help.txt").write_text(help_screens(), encoding="utf-8")
        (GOLDEN / "ranges.txt").write_text(ranges(), encoding="utf-8")
        (GOLDEN / "validate.txt").write_text(validation_screen(), encoding="utf-8")
        for one in COMMANDS:
            (GOLDEN / f"{one}.txt").write_text(golden(one), encoding="utf-8")
