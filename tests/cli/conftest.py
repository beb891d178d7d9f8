"""A whole run, made once by the real program, that the commands' tests look at."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path


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
