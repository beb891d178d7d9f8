"""Messages if Geant4 cannot be loaded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cloudgan.simulation.geant4 import library

NOT_THERE = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("libGL.so.1", "libgl1"),
        ("libX11.so.6", "libx11-6"),
        ("libXext.so.6", "libxext6"),
        ("libSM.so.6", "libsm6"),
        ("libICE.so.6", "libice6"),
    ],
)
def test_a_missing_library_is_named_with_its_package(name, package):
    said = library.missing_library(f"{name}: {NOT_THERE}")
    assert f"Geant4 needs {name}, which this system lacks: install the package {package}." in said
    assert "apt-get install libgl1 libice6 libsm6 libx11-6 libxext6" in said


def test_an_unlisted_library_is_named():
    said = library.missing_library(f"libfuture.so.9: {NOT_THERE}")
    assert "libfuture.so.9" in said
    assert "the package that provides it" in said


def test_other_loader_errors_are_shown():
    said = library.missing_library("undefined symbol: _ZTI8QWidget")
    assert "undefined symbol: _ZTI8QWidget" in said
    assert "'.[geant4]'" in said


def test_a_missing_package_is_detected_without_importing_it(monkeypatch):
    monkeypatch.setattr(library, "PACKAGE", "geant4_missing")
    with pytest.raises(ModuleNotFoundError) as caught:
        library.check_installed()
    assert caught.value.name == "geant4_missing"


@pytest.mark.parametrize(("number", "text"), [(1141, "11.4.1"), (1130, "11.3.0"), (1070, "10.7.0")])
def test_the_version_is_read_from_its_number(number, text):
    assert library.geant4_version(SimpleNamespace(G4VERSION_NUMBER=number)) == text


def test_the_command_line_names_the_extra_of_a_missing_package(
    cloudgan_here, monkeypatch, tmp_path
):
    monkeypatch.setattr("cloudgan.simulation.geant4.library.find_spec", lambda _: None)
    done = cloudgan_here("simulate", tmp_path / "a.h5", "--engine=geant4", exits=2)
    assert "pip install '.[geant4]'" in done.stderr
    assert list(tmp_path.iterdir()) == []
