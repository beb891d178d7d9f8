"""The program version of a result."""

import platform
import subprocess

import cloudgan
from cloudgan.core import provenance
from cloudgan.core.provenance import FILE_NAME, installed_wheels


def test_versions_hold_python_and_the_packages_that_are_there(monkeypatch):
    found = provenance.versions()
    assert found["python"] == platform.python_version()
    assert found["cloudgan"] == cloudgan.__version__
    assert "numpy" in found
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


NOTE = (
    '{"time": "2026-11-21T12:00:00Z", "wheels": 2, "bytes": 10, "fetch_seconds": 1.5,'
    ' "install_seconds": 2.0}'
)


def test_a_note_beside_the_packages_is_read_and_without_one_the_pod_installed_none(tmp_path):
    assert installed_wheels(tmp_path) is None
    assert installed_wheels() is None, "this program was not installed by a pod"
    (tmp_path / FILE_NAME).write_text(NOTE)
    found = installed_wheels(tmp_path)
    assert (found.wheels, found.seconds) == (2, 3.5)
    (tmp_path / FILE_NAME).write_text('{"wheels": "many"}')
    assert installed_wheels(tmp_path) is None
