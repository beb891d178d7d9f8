"""The import of TensorFlow; the modules that it loads are replaced here."""

from __future__ import annotations

import gc
import sys

import pytest

from cloudgan.api import tensorflow_import
from fuzz.project import write_showers


@pytest.fixture
def imported(monkeypatch):
    """What each import saw: its name, whether matplotlib is hidden, whether garbage is collected."""
    seen = []

    def note(name):
        hidden = "matplotlib" in sys.modules and sys.modules["matplotlib"] is None
        seen.append((name, hidden, gc.isenabled()))
        if name == "keras" and sys.argv[1:] == ["fails"]:
            raise ImportError(name)

    for name in ("tensorflow", "matplotlib"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(tensorflow_import, "import_module", note)
    return seen


@pytest.mark.parametrize(
    ("program", "hidden"),
    [("/usr/bin/cloudgan", True), ("cloudgan/__main__.py", True), ("", False)],
)
def test_only_the_program_leaves_out_what_keras_imports_for_others(
    imported, monkeypatch, program, hidden
):
    monkeypatch.setattr(sys, "argv", [program])
    tensorflow_import.import_tensorflow()
    assert imported == [("tensorflow", hidden, False), ("keras", hidden, False)]
    assert "matplotlib" not in sys.modules
    assert gc.isenabled()


@pytest.mark.parametrize(("backend", "hidden"), [("tensorflow", True), ("jax", False)])
def test_a_part_of_scipy_is_left_out_unless_keras_imports_jax_which_needs_it(
    monkeypatch, backend, hidden
):
    found = []
    for name in ("tensorflow", "scipy.sparse"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(
        tensorflow_import,
        "import_module",
        lambda _: found.append(sys.modules.get("scipy.sparse", "absent") is None),
    )
    monkeypatch.setattr(sys, "argv", ["cloudgan"])
    monkeypatch.setenv("KERAS_BACKEND", backend)
    tensorflow_import.import_tensorflow()
    assert found == [hidden, hidden]


def test_a_failed_import_leaves_the_process_as_it_was(imported, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cloudgan", "fails"])
    with pytest.raises(ImportError):
        tensorflow_import.import_tensorflow()
    assert len(imported) == 2
    assert "matplotlib" not in sys.modules
    assert gc.isenabled()


@pytest.fixture
def without_tensorflow(monkeypatch, tmp_path):
    """An empty current folder, where TensorFlow is not installed."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_training_without_tensorflow_leaves_no_folder_and_no_lock(
    without_tensorflow, tmp_path_factory, cloudgan_here
):
    data = tmp_path_factory.mktemp("showers") / "showers.h5"
    write_showers(data)
    said = cloudgan_here("train", "--preset=smoke", f"--data={data}", "--run=340", exits=2)
    assert "needs the package 'tensorflow'" in said.stderr
    assert list(without_tensorflow.iterdir()) == []


def test_a_demo_without_tensorflow_simulates_nothing(without_tensorflow, cloudgan_here):
    said = cloudgan_here("demo", exits=2)
    assert "needs the package 'tensorflow'" in said.stderr
    assert list(without_tensorflow.iterdir()) == []
