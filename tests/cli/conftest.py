"""A whole run, made once by the real program, that the commands' tests look at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from cloudgan.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path


class Said(NamedTuple):
    """What a command printed."""

    stdout: str
    stderr: str


@pytest.fixture
def cloudgan_here(capsys):
    """Runs a command in this process, for all but training, and looks how it `exits`."""

    def run(*arguments, exits=0):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        said = Said(*capsys.readouterr())
        assert (ended.value.code or 0) == exits, said.stdout + said.stderr
        return said

    return run


class SmallDemo(NamedTuple):
    """What `cloudgan demo` left behind."""

    run: Path
    said: dict[str, Any]


@pytest.fixture(scope="session")
def small_demo(tmp_path_factory, run_cloudgan):
    """A demo of 200 showers and 20 steps, far too short to learn."""
    run = tmp_path_factory.mktemp("runs") / "small"
    done = run_cloudgan("demo", f"--run={run}", "--showers=200", "--max_steps=20", "--json")
    return SmallDemo(run, json.loads(done.stdout))
