"""Gives a new environment the packages of this one that a list of requirements names, without installing them again.

    .venv-test/bin/python tests/linked_environment.py .venv-fast/requirements.txt .venv-fast

Files are linked, as one file system holds both; scripts get the interpreter of the new environment.
"""

import importlib.metadata
import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path


def link(requirements, target):
    here = Path(sysconfig.get_path("purelib"))
    there = target / here.relative_to(sys.prefix)
    named = re.findall(r"^([A-Za-z0-9._-]+)==", requirements.read_text("utf-8"), re.MULTILINE)
    installed = {
        re.sub("[-_.]+", "-", one.name).lower(): one for one in importlib.metadata.distributions()
    }
    for name in installed.keys() & set(named):  # the others are for other machines
        for file in installed[name].files:
            source = Path(os.path.normpath(here / file))
            copy = Path(os.path.normpath(there / file))
            if copy.exists() or not source.exists():
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.read_bytes()[:2] == b"#!" and source.parent.name == "bin":
                text = source.read_bytes().replace(sys.prefix.encode(), str(target).encode())
                copy.write_bytes(text)
                shutil.copymode(source, copy)
            else:
                copy.hardlink_to(source)


if __name__ == "__main__":
    link(Path(sys.argv[1]), Path(sys.argv[2]).resolve())
