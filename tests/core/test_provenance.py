"""Which program made a result."""

from __future__ import annotations

import platform
import subprocess

import cloudgan
from cloudgan.core import provenance


def test_versions_hold_python_and_this_package():
    found = provenance.versions()
    assert found["python"] == platform.python_version()
    assert found["cloudgan"] == cloudgan.__version__
    assert "numpy" in found


def test_a_package_that_is_not_there_is_left_out(monkeypatch):
    monkeypatch.setattr(provenance, "_PACKAGES", ("cloudgan", "surely-not-installed"))
    assert set(provenance.versions()) == {"python", "cloudgan"}


def test_the_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    module = tmp_path / "cloudgan" / "core" / "provenance.py"
    module.parent.mkdir(parents=True)
    module.touch()
    monkeypatch.setattr(provenance, "__file__", str(module))
    assert provenance.git_commit() is None
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "-q"], check=True)
    assert provenance.git_commit() is None  # nothing committed yet
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    commit = provenance.git_commit()
    assert commit is not None
    assert len(commit) == 40
