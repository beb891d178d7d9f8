"""The wheels that a pod installs, built and downloaded on any machine."""

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.launch.kubernetes.manifests import wheel_list
from cloudgan.launch.lifecycle import wheels
from cloudgan.launch.lifecycle.wheels import (
    dependency_wheels,
    describe_wheel,
    object_name,
    own_wheel,
)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    return folder / own_wheel(folder).file_name


def test_the_same_files_make_the_same_bytes(own, tmp_path):
    again = own_wheel(tmp_path)
    assert again == describe_wheel(own)
    assert (tmp_path / again.file_name).read_bytes() == own.read_bytes()
    assert again.bytes == own.stat().st_size
    with zipfile.ZipFile(own) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.namelist()[:-1] == sorted(archive.namelist()[:-1])


KEPT = (".py", ".txt", ".csv", ".yaml", ".json", "Dockerfile")
"""Files whose content is compared: not what has a version or hashes, such as METADATA and RECORD."""


def test_a_wheel_holds_what_the_build_backend_would_put_into_it(own, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    checkout = Path(__file__).parents[3]
    subprocess.run([*build, tmp_path], cwd=checkout, capture_output=True, check=True)
    (theirs,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(own) as ours, zipfile.ZipFile(theirs) as built:
        # An editable installation keeps the version of the commit at which it was made. Pods need no manual page.
        files = [
            {
                re.sub(r"-\S+\.dist-info", "", name): each.read(name) if name.endswith(KEPT) else ""
                for name in each.namelist()
                if ".data/" not in name
            }
            for each in (ours, built)
        ]
    assert files[0] == files[1], (
        "so that it runs where the built one does (tests/test_packaging.py)"
    )


def test_what_is_not_installed_cannot_be_packed(monkeypatch, tmp_path):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(ConfigError, match="pip install --editable CHECKOUT"):
        own_wheel(tmp_path)


def test_pods_read_names_digests_and_sizes(own):
    digest = hashlib.sha256(own.read_bytes()).hexdigest()
    wheel = describe_wheel(own)
    assert object_name(wheel) == f"wheels/{digest}/{own.name}"
    assert wheel_list((wheel,)) == f"{own.name} {digest} {own.stat().st_size}\n"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip uses as its only package index; creates wheels in it."""
    (folder := tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))

    def make(name, tag):
        info = f"{name}-1.0.dist-info"
        path = folder / f"{name}-1.0-{tag}.whl"
        with zipfile.ZipFile(path, "w") as archive:
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
            archive.writestr(f"{info}/METADATA", metadata)
            archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            archive.writestr(f"{info}/RECORD", "")
        return describe_wheel(path)

    return make


def lock_of(name, *made):
    return " \\\n".join((f"{name}==1.0", *(f"    --hash=sha256:{one.sha256}" for one in made)))


def test_wheels_are_chosen_for_the_pod_and_not_for_this_machine(index, tmp_path):
    tags = ("cp36-cp36m-macosx_11_0_arm64", "cp36-cp36m-win_amd64", "cp36-cp36m-manylinux1_x86_64")
    made = [index("native", tag) for tag in tags]
    pure = index("pure", "py3-none-any")
    lock = f"{lock_of('native', *made)}\n{lock_of('pure', pure)}\n"
    found = dependency_wheels(lock, folder=tmp_path / "kept", python="3.6")
    assert found == (made[2], pure)
    assert describe_wheel(tmp_path / "kept" / pure.file_name) == pure


@pytest.fixture
def kept(index, tmp_path, monkeypatch):
    """A wheel that was downloaded, how to ask for it again, and the names of those that are hashed."""
    pure = index("pure", "py3-none-any")
    folder, read = tmp_path / "kept", []
    ask = partial(dependency_wheels, lock_of("pure", pure), folder=folder)
    assert ask() == (pure,)
    monkeypatch.setattr(
        wheels, "describe_wheel", lambda path: read.append(path.name) or describe_wheel(path)
    )
    return pure, folder / pure.file_name, ask, read


def test_a_kept_wheel_needs_no_index_and_is_hashed_again_when_its_file_changed(kept, monkeypatch):
    pure, path, ask, read = kept
    monkeypatch.setattr(subprocess, "run", None)
    assert ask() == ask(fetch=False) == (pure,)
    assert read == []
    path.touch()
    assert [ask(fetch=False), ask(fetch=False)] == [(pure,)] * 2
    assert read == [pure.file_name]


def test_a_kept_wheel_that_was_changed_also_with_its_size_and_time_is_fetched_again(kept):
    pure, path, ask, _ = kept
    before = path.stat()
    path.write_bytes(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ask(fetch=False) == ()
    assert ask() == (pure,)
    assert describe_wheel(path) == pure


@pytest.mark.parametrize(
    ("has_hash", "message"), [(True, "HASHES"), (False, "Hashes are required")]
)
def test_content_that_the_lock_does_not_name_is_refused(index, tmp_path, has_hash, message):
    pure, other = index("pure", "py3-none-any"), index("other", "py3-none-any")
    assert pure.sha256 != other.sha256
    with pytest.raises(ConfigError, match=message):
        dependency_wheels(
            lock_of("pure", other) if has_hash else "pure==1.0\n", folder=tmp_path / "kept"
        )
    assert not list((tmp_path / "kept").glob("*.whl"))


def test_without_a_network_it_says_what_was_to_be_fetched_and_what_to_type(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    lock = f"pure==1.0 --hash=sha256:{'0' * 64}\n"
    with pytest.raises(ConfigError, match=r"(?s)Python 3\.11 on many.* --image") as raised:
        dependency_wheels(lock, folder=tmp_path / "kept")
    assert "pure==1.0" in str(raised.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(DataError, match="kept: cannot be written"):
        dependency_wheels("", folder=tmp_path / "kept")
