"""The process that has Geant4: `python -m cloudgan.simulation.geant4.worker`.

The first line of its standard input says what to do, as JSON: get the tables ready, or build the
detector; then each further line is the number of a shower. It answers each with one line. Geant4
writes to standard output as it likes: that goes where standard error goes, the answers to a copy.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from cloudgan.core.errors import CloudganError
from cloudgan.simulation.geant4.engine import Engine
from cloudgan.simulation.geant4.events import Event, to_line
from cloudgan.simulation.geant4.library import (
    geant4_version,
    load,
    package_version,
    read_photoelectric,
)
from cloudgan.simulation.geant4.primaries import Asked, primary
from cloudgan.simulation.geant4.tables import Tables, make_unused, official, own_files, write_own

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "cloudgan.simulation.geant4.worker"
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux' prctl


def main() -> None:
    """Answers until standard input ends."""
    end_with_parent()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="ascii")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        for line in _answers(json.loads(sys.stdin.readline())):
            answers.write(line + "\n")
            answers.flush()
    except CloudganError as error:
        _tell(answers, {"error": str(error), "exit_code": error.exit_code})
    except ModuleNotFoundError as error:
        _tell(answers, {"error": str(error), "missing": error.name})
    except BrokenPipeError:
        pass
    os._exit(0)  # what Geant4 does at the end of a process is not worth the risk


def _tell(answers: TextIO, failure: dict[str, Any]) -> None:
    answers.write(json.dumps(failure) + "\n")
    answers.flush()


def end_with_parent() -> None:
    """Lets the system end this process with the one that started it, in the middle of a shower.

    Elsewhere than on Linux it ends after the shower, when nobody reads its answer.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _answers(first: dict[str, Any]) -> Iterator[str]:
    if "asked" not in first:
        yield json.dumps(_prepare(Path(first["folder"]), first["data"]))
        return
    asked = Asked.from_json(first["asked"])
    engine = Engine(Tables.from_json(first["tables"]), asked.cut_mm)
    for line in sys.stdin:
        number = int(line)
        yield to_line(Event(number, engine.shower(primary(asked, number))))


def _prepare(folder: Path, data: str | None) -> dict[str, Any]:
    """Loads Geant4 once, which says what is missing, and gets the tables ready."""
    make_unused(folder)
    geant4 = load(Tables(folder, folder, "", "").variables())
    if data:
        tables = official(Path(data), folder)
    else:
        tables = write_own(folder, own_files(read_photoelectric(geant4)))
    return {
        "geant4": geant4_version(geant4),
        "package": package_version(),
        "tables": tables.as_json(),
    }


if __name__ == "__main__":
    main()
