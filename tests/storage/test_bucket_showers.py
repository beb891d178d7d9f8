"""Downloading a store of showers from a store that counts requests and injects faults."""

import os
import shutil
import threading

import pytest

from cloudgan.core.errors import DataError, DiskFullError
from cloudgan.core.progress import Silent
from cloudgan.data.manifest import has_manifest, read_manifest
from cloudgan.storage.bucket_showers import BucketShowers
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreError
from data.conftest import flip, make_any_store

COUNT, FILES = 12, 4


class CountedStore(FolderStore):
    """Records downloads and their concurrency, and fails for the names in `broken`."""

    def __init__(self, folder):
        super().__init__(folder)
        self.fetched, self.broken = [], set()
        self.now = self.most = 0
        self.together = threading.Barrier(2, timeout=10)
        self._lock = threading.Lock()

    def get(self, name, path):
        with self._lock:
            self.fetched.append(name)
            self.now += 1
            self.most = max(self.most, self.now)
        if name in self.broken:
            raise StoreError(f"{self.url}/{name}: the line is down")
        super().get(name, path)
        with self._lock:
            self.now -= 1


@pytest.fixture
def bucket(tmp_path):
    make_any_store(tmp_path / "bucket", COUNT)
    return BucketShowers(CountedStore(tmp_path / "bucket"))


@pytest.fixture
def here(tmp_path):
    return tmp_path / "here"


def test_several_files_but_not_all_are_downloaded_concurrently(bucket, here, monkeypatch):
    get = CountedStore.get

    def two_meet(store, name, path):
        if name in {"part-00000-offsets.npy", "part-00000-cells.npy"}:
            store.together.wait()  # times out unless both run concurrently
        get(store, name, path)

    monkeypatch.setattr(CountedStore, "get", two_meet)
    bucket.download(here, Silent())
    assert read_manifest(here).records == 2 * COUNT
    assert 1 <= bucket.store.most <= 8


def test_only_missing_and_damaged_files_are_downloaded_again(bucket, here):
    bucket.download(here, Silent())
    bucket.store.fetched.clear()
    wrong = here / "part-00003-cells.npy"
    right = wrong.read_bytes()
    wrong.write_bytes(right[:-1] + b"x")
    (here / "part-00004-cells.npy").unlink()
    bucket.download(here, Silent())
    assert sorted(bucket.store.fetched) == ["part-00003-cells.npy", "part-00004-cells.npy"]
    assert wrong.read_bytes() == right


def test_a_damaged_file_is_not_uploaded(bucket, here, tmp_path):
    bucket.download(here, Silent())
    flip(here / "part-00005-cells.npy", 7)
    target = BucketShowers(FolderStore(tmp_path / "other"))
    with pytest.raises(DataError, match=r"part-00005-cells\.npy is damaged"):
        target.upload(here, Silent())
    assert not target.is_copy_of(here)


def test_a_failed_download_names_the_file_and_resumes(bucket, here):
    bucket.store.broken = {"part-00007-cells.npy"}
    with pytest.raises(StoreError, match=r"part-00007-cells\.npy: the line is down"):
        bucket.download(here, Silent())
    assert not has_manifest(here)
    arrived = {path.name for path in here.glob("*.npy")}
    assert len(arrived) >= 7 * FILES
    bucket.store.fetched.clear()
    bucket.store.broken = set()
    bucket.download(here, Silent())
    assert not arrived & set(bucket.store.fetched)
    assert bucket.is_downloaded(here)


def test_another_store_replaces_an_earlier_one(bucket, here, tmp_path):
    bucket.download(here, Silent())
    make_any_store(tmp_path / "other", COUNT - 2, mark="b")
    other = BucketShowers(CountedStore(tmp_path / "other"))
    other.store.broken = {"part-00005-cells.npy"}
    with pytest.raises(StoreError):
        other.download(here, Silent())
    assert not has_manifest(here)  # neither is complete
    other.store.broken = set()
    other.download(here, Silent())
    assert len(list(here.glob("*.npy"))) == FILES * (COUNT - 2)
    assert other.is_downloaded(here)


def test_too_small_a_disk_is_reported_before_any_download(bucket, here, monkeypatch):
    usage = shutil.disk_usage(here.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(
        DiskFullError, match=r"GB more in .*here, where 1e-06 GB are free; free space"
    ):
        bucket.download(here, Silent())
    assert bucket.store.fetched == []


def test_stale_temporary_files_are_removed_and_recent_ones_stay(bucket, here):
    here.mkdir()
    left, new = here / "part-00000-cells.npy.7-ab.tmp", here / "part-00001-cells.npy.8-cd.tmp"
    left.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(left, (1, 1))
    bucket.download(here, Silent())
    assert not left.exists()
    assert new.exists()
