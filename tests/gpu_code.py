"""Prints for which SM architectures the libraries in wheels hold machine code (SASS) and PTX.

`pip download --no-deps --only-binary :all: --dest FOLDER NAME==VERSION`, then `python tests/gpu_code.py FOLDER/*.whl`; the
table of test_gpu_code.py keeps the result. Format of a fat binary:
https://github.com/GrigoryEvko/nvopen-tools/blob/main/fatbin/FORMAT_SPECIFICATION.md (read 2026-11-25).
"""

from __future__ import annotations

import struct
import sys
import zipfile

_MAGIC = struct.pack("<I", 0xBA55ED50)
_HEADER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of the entries
_ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, size of this header, size of the code; SM
_KINDS = {1: "PTX", 2: "SASS"}


def code_in(library: bytes) -> dict[str, set[int]]:
    """Returns the SM architectures, such as 70, of a library by kind of code."""
    found: dict[str, set[int]] = {"PTX": set(), "SASS": set()}
    at = library.find(_MAGIC)
    while at >= 0:
        end = at + 1
        if at + _HEADER.size <= len(library):
            _, version, header, size = _HEADER.unpack_from(library, at)
            if (version, header) == (1, _HEADER.size):
                end = min(at + header + size, len(library))
                _read_entries(library, at + header, end, found)
        at = library.find(_MAGIC, end)
    return found


def _read_entries(library: bytes, at: int, end: int, found: dict[str, set[int]]) -> None:
    while at + _ENTRY.size <= end:
        kind, _, header, size, sm = _ENTRY.unpack_from(library, at)
        if kind in _KINDS:
            found[_KINDS[kind]].add(sm)
        at += max(header + size, _ENTRY.size)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                found = code_in(wheel.read(name)) if ".so" in name else {}
                if any(found.values()):
                    print(name, {kind: sorted(of) for kind, of in found.items()})
