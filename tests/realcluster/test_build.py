"""`make cluster` names what it lacks before it builds anything."""

from __future__ import annotations

import os
import subprocess

import pytest

from realcluster.cluster import BUILD

GO = '[ "$1" = env ] && echo go{}'
FULL = "echo Avail; echo 2G"


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({}, "Go is not installed; the real control plane needs Go 1."),
        ({"go": GO.format("1.25.9")}, "Go 1.25.9 is too old; the real control plane needs Go 1."),
        (
            {"go": GO.format("1.99.0"), "df": FULL},
            "2 GB are free there, and 1 GB were built before;",
        ),
    ],
)
def test_what_the_build_lacks_is_named(tmp_path, programs, said):
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": os.pathsep.join([str(tmp_path), os.defpath])}
    env["REALCLUSTER_CACHE"] = str(tmp_path / "cache")
    ended = subprocess.run([BUILD], env=env, capture_output=True, text=True)
    assert ended.returncode == 3
    assert ended.stderr.startswith(said)
    assert ended.stderr.endswith(f"GB in {tmp_path / 'cache'}\n")
    assert not list((tmp_path).glob("cache/*")), "nothing was built"
