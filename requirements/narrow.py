"""Keeps the hashes of a lock that a supported system can install: `python narrow.py LOCK.txt PYLOCK.toml`.

uv lists the files of a version for all systems: xxhash has 224, of which 12 are for CPython 3.11 to 3.13 on
Linux with glibc and macOS, x86-64 and ARM. TensorFlow has builds for these only, and no part of cloudgan runs
on Windows. PYLOCK.toml is the same resolution with names of files. `make locks` calls this.
"""

from __future__ import annotations

import re
import sys
import tomllib
from functools import partial
from pathlib import Path

PYTHONS = range(11, 14)
_PYTHON = re.compile(r"(?:cp|py)3(\d*)")
_HASHES = re.compile(r"(    --hash=sha256:\w+( \\)?\n)+")
_SYSTEM = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)|macosx.*_(x86_64|arm64|universal2)")


def installs(wheel: str) -> bool:
    """Returns whether a supported system installs a wheel of this name.

    The parts of the name: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
    """
    pythons, abis, systems = (
        part.split(".") for part in wheel.removesuffix(".whl").split("-")[-3:]
    )
    if not any(map(_SYSTEM.fullmatch, systems)):
        return False
    minors = {int(found[1] or 0) for each in pythons if (found := _PYTHON.fullmatch(each))}
    if "abi3" in abis or all(each.startswith("py") for each in pythons):
        return any(minor < PYTHONS.stop for minor in minors)
    return bool(minors & {*PYTHONS}) and bool(
        {"none", *(f"cp3{each}" for each in PYTHONS)} & {*abis}
    )


def narrowed(lock: str, pylock: str) -> str:
    """Returns a lock with fewer hashes; a package without such a wheel keeps all that it has."""
    kept = {
        wheel["hashes"]["sha256"]
        for package in tomllib.loads(pylock)["packages"]
        for wheel in package.get("wheels", ())
        if installs(Path(wheel["url"]).name)
    }
    return _HASHES.sub(partial(_of_package, kept), lock)


def _of_package(kept: set[str], found: re.Match[str]) -> str:
    hashes = re.findall(r"sha256:(\w+)", found[0])
    lines = (
        f"    --hash=sha256:{each}" for each in hashes if each in kept or kept.isdisjoint(hashes)
    )
    return " \\\n".join(lines) + "\n"


if __name__ == "__main__":
    path, resolved = map(Path, sys.argv[1:])
    texts = (one.read_text(encoding="utf-8") for one in (path, resolved))
    path.write_text(narrowed(*texts), encoding="utf-8")
