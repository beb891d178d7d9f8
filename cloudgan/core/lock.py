"""Requirement files with versions and hashes: parts of the one lock, requirements/lock.txt.

`make locks` resolves all extras and groups of pyproject.toml together. The lock names behind each package the ones
that need it, so that what an extra installs follows without another resolution. Only NVIDIA's libraries, which an
extra of TensorFlow needs, are in a second file.

This file needs nothing but Python: `python3 -P cloudgan/core/lock.py train build` prints what a new environment
installs before anything else is there.
"""

from __future__ import annotations

import functools
import re
import sys
import tomllib
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import requires
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_FILES = {"gpu": "gpu.txt", "jax-tpu": "jax-tpu.txt"}
_VIA = "    # via "
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN = re.compile(r"cloudgan\[([a-z0-9,-]+)\]")
_OF_EXTRA = re.compile(r";.*\bextra == ['\"]([a-z0-9-]+)['\"]")


def locked(*extras: str, packages: Iterable[str] = (), without: Collection[str] = ()) -> str:
    """Returns the requirement file of extras, with hashes.

    Args:
        extras: Names of extras, or of dependency groups of a checkout; none: what cloudgan itself needs.
        packages: Further packages, by their normalized names.
        without: Packages to leave out, such as those of an image.

    Raises:
        KeyError: There is no such extra.
    """
    files = _PACKAGE / "_assets" / "requirements"
    folder = files if files.is_dir() else _PACKAGE.parent / "requirements"
    blocks, users = _parsed((folder / "lock.txt").read_text(encoding="utf-8"))
    declared = _declared()
    direct = {each for extra in extras or ("",) for each in _direct(extra, declared)}
    found: set[str] = set()
    new = direct | set(packages)
    while new:
        found |= new
        new = {name for name, by in users.items() if by & new} - found
    for extra in _FILES.keys() & set(extras):
        more, _ = _parsed((folder / _FILES[extra]).read_text(encoding="utf-8"))
        blocks |= more
        found |= more.keys()
    return "".join(blocks[name] for name in sorted(found - set(without)))


def _parsed(lock: str) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Returns the lines of each package of a lock, and the packages that need it."""
    blocks: dict[str, str] = {}
    users: dict[str, set[str]] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if line.startswith(_VIA):
            users[name] = set(map(_name, line.removeprefix(_VIA).split(",")))
        elif line[0].isalnum():
            name = _name(line)
            blocks[name] = line
        elif not line.startswith("#"):
            blocks[name] += line
    return blocks, users


def _declared() -> dict[str, list[str]]:
    """Returns the requirements of each extra, with those of cloudgan itself, and of each group; "": of no extra."""
    project = _PACKAGE.parent / "pyproject.toml"
    if project.is_file():
        read = tomllib.loads(project.read_text(encoding="utf-8"))  # noqa: TID251  our own file
        own, extras = read["project"]["dependencies"], read["project"]["optional-dependencies"]
        groups: dict[str, list[str]] = read["dependency-groups"]
        return groups | {"": own} | {k: own + v for k, v in extras.items()}
    lines = requires("cloudgan") or ()
    keys = {line: match[1] if (match := _OF_EXTRA.search(line)) else "" for line in lines}
    return {
        key: [line for line in lines if keys[line] in {"", key}] for key in {"", *keys.values()}
    }


def _direct(extra: str, declared: Mapping[str, Iterable[str]]) -> set[str]:
    """Returns the packages that an extra and the extras in it name."""
    found: set[str] = set()
    for line in declared[extra]:
        own = _OWN.match(line)
        if own:
            found.update(*(_direct(each, declared) for each in own[1].split(",")))
        else:
            found.add(_name(line))
    return found


@functools.lru_cache(maxsize=1024)
def _name(requirement: str) -> str:
    """Returns the normalized name of a package (https://packaging.python.org/en/latest/specifications/name-normalization/)."""
    match = _NAME.search(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


if __name__ == "__main__":
    sys.stdout.write(locked(*sys.argv[1:]))
