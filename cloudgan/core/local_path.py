"""Paths of this machine that users give: showers, where files are written, and the folders of runs."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

from cloudgan.core.errors import ConfigError, DataError, nearest, shorten

# As a path it would be a folder with the name of the scheme; Path writes one slash for two. A
# scheme has two letters here: `C:/x` is a path of Windows.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(/|$)|pvc:")


def local_path(given: str | Path, *, source: str = "", advice: str = "") -> Path:
    """Returns a path of this machine; a leading ``~`` or ``~user`` is a home folder.

    Args:
        given: What the user wrote.
        source: Flag or variable, for the message.
        advice: What to do with a URL. Default: to copy the result.
    """
    text = str(given)
    name = f"{source}={text}" if source else text
    if _URL.match(text):
        how = advice or "write it here, then copy it with your cloud's tool"
        raise ConfigError(
            f"{shorten(name, 200)} is a URL; valid: a path of this machine, such as runs/mine or"
            f" ./out.h5; {how}"
        )
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{shorten(name, 200)}: the home folder of this user is unknown; set HOME, or write"
            f" ./{shorten(text, 100)} for a file of this name"
        ) from error


def missing_file(path: Path) -> DataError:
    """Returns the refusal of showers that are not there; it names a file of the folder that may be meant."""
    there: set[str] = set()
    with suppress(OSError):
        there = {each.name for each in path.parent.iterdir()}
    if near := nearest(path.name, there):
        return DataError(f"{path} does not exist.{near}")
    hint = f"`cloudgan simulate {shlex.quote(str(path))}` makes showers to try"
    return DataError(f"{path} does not exist", hint=hint)
