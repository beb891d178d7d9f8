"""Downloading a set of shards from a store that counts requests and injects faults."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading

import pytest

from cloudgan.core.errors import DataError, DiskFullError
from cloudgan.core.progress import Silent
from cloudgan.data.shards.manifest import (
    ColumnInfo,
    Manifest,
    ShardInfo,
    SourceInfo,
    has_manifest,
    read_manifest,
    write_manifest,
)
from cloudgan.storage.bucket_shards import BucketShards
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreError

COUNT = 12


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


def content(number, mark="a"):
    return f"shard {number} {mark}".encode() * 50


def write_set(folder, count=COUNT, mark="a"):
    folder.mkdir(exist_ok=True)
    shards = []
    for number in range(count):
        name = f"showers-{number:05d}.tfrecord"
        (folder / name).write_bytes(content(number, mark))
        digest = hashlib.sha256(content(number, mark)).hexdigest()
        size = len(content(number, mark))
        shards.append(ShardInfo(name=name, records=2, bytes=size, sha256=digest, source=0))
    source = SourceInfo(
        name="s.h5",
        layout="3DGAN",
        bytes=1,
        modified_ns=0,
        records=2 * count,
        shape=(9, 9, 25),
        ecal_per_gev=1,
        ecal_decided="so",
        columns=(ColumnInfo(name="energy", dtype="<f4"),),
    )
    whole = Manifest(records=2 * count, shape=(9, 9, 25), shards=tuple(shards), sources=(source,))
    write_manifest(folder, whole)


@pytest.fixture
def bucket(tmp_path):
    write_set(tmp_path / "bucket")
    return BucketShards(CountedStore(tmp_path / "bucket"))


@pytest.fixture
def here(tmp_path):
    return tmp_path / "here"


def test_several_shards_but_not_all_are_downloaded_concurrently(bucket, here, monkeypatch):
    get = CountedStore.get

    def two_meet(store, name, path):
        if name in {"showers-00000.tfrecord", "showers-00001.tfrecord"}:
            store.together.wait()  # times out unless both run concurrently
        get(store, name, path)

    monkeypatch.setattr(CountedStore, "get", two_meet)
    bucket.download(here, Silent())
    assert read_manifest(here).records == 2 * COUNT
    assert 1 <= bucket.store.most <= 8


def test_only_missing_and_damaged_shards_are_downloaded_again(bucket, here):
    bucket.download(here, Silent())
    bucket.store.fetched.clear()
    wrong = here / "showers-00003.tfrecord"
    wrong.write_bytes(content(3)[:-1] + b"x")
    (here / "showers-00004.tfrecord").unlink()
    bucket.download(here, Silent())
    assert sorted(bucket.store.fetched) == ["showers-00003.tfrecord", "showers-00004.tfrecord"]
    assert wrong.read_bytes() == content(3)


def test_a_damaged_shard_is_not_uploaded(bucket, here, tmp_path):
    bucket.download(here, Silent())
    (here / "showers-00005.tfrecord").write_bytes(content(5, "b"))
    target = BucketShards(FolderStore(tmp_path / "other"))
    with pytest.raises(DataError, match=r"showers-00005\.tfrecord, record 0: damaged"):
        target.upload(here, Silent())
    assert not target.is_copy_of(here)


def test_a_failed_download_names_the_shard_and_resumes(bucket, here):
    bucket.store.broken = {"showers-00007.tfrecord"}
    with pytest.raises(StoreError, match=r"showers-00007\.tfrecord: the line is down"):
        bucket.download(here, Silent())
    assert not has_manifest(here)
    arrived = {path.name for path in here.glob("*.tfrecord")}
    assert len(arrived) >= 7
    bucket.store.fetched.clear()
    bucket.store.broken = set()
    bucket.download(here, Silent())
    assert not arrived & set(bucket.store.fetched)
    assert bucket.is_downloaded(here)


def test_another_set_replaces_an_earlier_one(bucket, here, tmp_path):
    bucket.download(here, Silent())
    write_set(tmp_path / "other", COUNT - 2, mark="b")
    other = BucketShards(CountedStore(tmp_path / "other"))
    other.store.broken = {"showers-00005.tfrecord"}
    with pytest.raises(StoreError):
        other.download(here, Silent())
    assert not has_manifest(here)  # neither set is complete
    other.store.broken = set()
    other.download(here, Silent())
    assert len(list(here.glob("*.tfrecord"))) == COUNT - 2
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
    left, new = here / "showers-00000.tfrecord.7-ab.tmp", here / "showers-00001.tfrecord.8-cd.tmp"
    left.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(left, (1, 1))
    bucket.download(here, Silent())
    assert not left.exists()
    assert new.exists()
