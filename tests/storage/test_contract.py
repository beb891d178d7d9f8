"""The contract of `Store`, tested for a folder and for the protocols of three clouds."""

from __future__ import annotations

import os
import threading

import pytest

from cloudgan.core.errors import CredentialsError
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import (
    BucketMissingError,
    ObjectExistsError,
    ObjectMissingError,
    StoreError,
    delete_objects,
)

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # see conftest

LARGE = bytes(range(256)) * 20_000  # 5 MB, which takes several requests or chunks


def test_an_empty_object_is_an_object(store):
    store.put("empty", b"")
    assert store.read("empty") == b""
    assert store.list() == ("empty",)


def test_a_large_file_comes_back_whole(store, tmp_path):
    (tmp_path / "source.npz").write_bytes(LARGE)
    store.put("checkpoints/step-000000100.npz", tmp_path / "source.npz")
    store.get("checkpoints/step-000000100.npz", tmp_path / "new" / "back.npz")
    assert (tmp_path / "new" / "back.npz").read_bytes() == LARGE


def test_put_content_is_read_back_and_putting_again_overwrites(store):
    store.put("note.txt", b"a longer old one")
    assert store.read("note.txt") == b"a longer old one"
    store.put("note.txt", b"new")
    assert store.read("note.txt") == b"new"


def test_sizes_are_summed_by_prefix(store):
    assert store.size_bytes() == 0
    store.put("runs/gan/note.txt", b"12345")
    store.put("runs/gan/checkpoints/one", b"123")
    store.put("runs/gan-two/note.txt", b"1")
    assert (store.size_bytes("runs/gan/"), store.size_bytes()) == (8, 9)


@pytest.mark.parametrize("content", [b"mine", LARGE], ids=["small", "large"])
def test_an_object_that_exists_is_not_created_again(store, tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    store.put("lease", tmp_path / "file", if_absent=True)
    with pytest.raises(ObjectExistsError, match="lease: already exists"):
        store.put("lease", b"yours", if_absent=True)
    assert store.read("lease") == content


def test_exactly_one_of_several_concurrent_creators_succeeds(store):
    won: list[int] = []
    lost: list[int] = []

    def create(number):
        try:
            store.put("lease", str(number).encode(), if_absent=True)
            won.append(number)
        except ObjectExistsError:
            lost.append(number)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 5
    assert store.read("lease") == str(won[0]).encode()


def test_an_object_is_replaced_only_in_the_version_that_was_read(store):
    assert store.version("log") == ""
    store.put("log", b"1", if_version="")
    with pytest.raises(ObjectExistsError, match="log: already exists"):
        store.put("log", b"other", if_version="")
    read = store.version("log")
    store.put("log", b"2", if_version=read)
    with pytest.raises(ObjectExistsError, match="log: was changed since it was read"):
        store.put("log", b"other", if_version=read)
    assert store.read("log") == b"2"
    newest = store.version("log")
    store.delete("log")
    with pytest.raises(ObjectExistsError, match="log: was changed since it was read"):
        store.put("log", b"other", if_version=newest)
    assert store.list() == ()


def test_names_are_listed_sorted_and_by_prefix(store):
    for name in ("step-2", "step-1", "other", "deep/er/step-3"):
        store.put(name, b"x")
    assert store.list() == ("deep/er/step-3", "other", "step-1", "step-2")
    assert store.list("step-") == ("step-1", "step-2")
    assert store.list("deep/er/s") == ("deep/er/step-3",)
    assert store.list("nothing") == ()


def test_a_deleted_object_is_gone_and_deleting_it_again_is_no_error(store):
    store.put("a", b"x")
    store.put("ab", b"y")
    store.delete("a")
    store.delete("a")
    assert store.list() == ("ab",)


def test_a_folder_object_of_a_console_is_listed_and_deleted(cloud):
    cloud.make_bucket(bucket := f"console-{cloud.kind}")
    store = cloud.open(bucket, "")
    store.put("runs/gan/plan.json", b"x")
    with pytest.MonkeyPatch.context() as patch:  # a console, which has no such rule
        patch.setattr("cloudgan.storage.store.check_object_name", lambda name: name)
        store.put("runs/gan/", b"")
    assert store.list() == ("runs/gan/", "runs/gan/plan.json")
    assert delete_objects(store, (*store.list(), "runs/gan/../x")) == ("runs/gan/../x",)
    assert store.list() == ()


def test_a_link_in_a_folder_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    (outside / "runs").mkdir(parents=True)
    (outside / "runs" / "a").write_bytes(b"theirs")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "runs").symlink_to(outside / "runs")
    (tmp_path / "store" / "b").symlink_to(outside / "runs" / "a")
    store = FolderStore(tmp_path / "store")
    acts = (store.read, store.delete, store.list, lambda name: store.put(name, b""))
    for act in acts:
        with pytest.raises(StoreError, match="follows no links"):
            act("runs/a")
    with pytest.raises(StoreError, match="follows no links"):
        store.read("b")
    store.delete("b")
    assert (outside / "runs" / "a").read_bytes() == b"theirs"


def test_a_pipe_in_a_folder_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="not a regular file"):
        FolderStore(tmp_path).read("pipe")


def test_a_missing_object_is_an_error_and_leaves_the_old_file(store, tmp_path):
    old = tmp_path / "here" / "old"
    old.parent.mkdir()
    old.write_bytes(b"precious")
    with pytest.raises(ObjectMissingError, match=r"missing\.npz: no such"):
        store.get("missing.npz", old)
    with pytest.raises(ObjectMissingError, match=store.url):
        store.read("missing.npz")
    assert old.read_bytes() == b"precious"
    assert [path.name for path in old.parent.iterdir()] == ["old"]


def test_a_missing_source_file_is_an_error_and_stores_nothing(store, tmp_path):
    with pytest.raises(StoreError, match=r"gone.npz: cannot be read for upload"):
        store.put("gone.npz", tmp_path / "gone.npz")
    assert store.list() == ()


@pytest.mark.parametrize("name", ["", "/abs", "a//b", "../up", "a/../b", "a\\b", "a\n", "half.tmp"])
def test_a_name_that_is_invalid_for_some_store_is_refused(store, name):
    acts = (store.read, lambda n: store.put(n, b""))
    # A temporary file of another program in the bucket can be deleted.
    for act in acts if name == "half.tmp" else (*acts, store.delete):
        with pytest.raises(ValueError, match=r"no valid object name|temporary"):
            act(name)


def test_a_failed_download_keeps_the_old_file(store, tmp_path):
    store.put("a", b"x")
    (tmp_path / "file").write_bytes(b"in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        store.get("a", tmp_path / "file" / "a")
    assert (tmp_path / "file").read_bytes() == b"in the way"


def test_two_stores_in_one_bucket_do_not_see_each_other(cloud):
    cloud.make_bucket(bucket := f"shared-{cloud.kind}")
    whole, one, ten = (cloud.open(bucket, prefix) for prefix in ("", "run-1", "run-10"))
    one.put("a", b"1")
    ten.put("a", b"10")
    assert one.list() == ("a",)
    assert whole.list() == ("run-1/a", "run-10/a")


def test_a_missing_bucket_is_named(cloud, tmp_path):
    store = cloud.open("nowhere-at-all", "x")
    for act in (
        store.list,
        lambda: store.put("a", b""),
        lambda: store.read("a"),
        lambda: store.get("a", tmp_path / "a"),
    ):
        with pytest.raises(BucketMissingError, match=r"no (bucket|container) 'nowhere-at-all'"):
            act()


def test_an_unreachable_server_is_a_store_error(cloud, tmp_path):
    store = cloud.open("bucket", "x", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match="failed"):
        store.put("a", b"")
    with pytest.raises(StoreError, match="failed"):
        store.get("a", tmp_path / "a")
    with pytest.raises(StoreError, match="failed"):
        store.list()


@pytest.mark.parametrize("status", [401, 403])
def test_rejected_credentials_are_reported_with_the_required_role(cloud, between, status):
    proxy, address = between
    proxy.status = status
    store = cloud.open("bucket", "x", address)
    for act in (store.list, lambda: store.put("a", b""), lambda: store.read("a")):
        with pytest.raises(CredentialsError, match=r"rejected these credentials.*; it needs"):
            act()


def test_a_failing_server_is_retried_a_bounded_number_of_times(cloud, between):
    proxy, address = between
    proxy.status = 503
    with pytest.raises(StoreError):
        cloud.open("bucket", "x", address, 2).read("a")
    assert 1 < len(proxy.seen) < 20


def test_a_truncated_download_leaves_the_old_file(cloud, between, tmp_path):
    proxy, address = between
    cloud.make_bucket(bucket := f"cut-{cloud.kind}")
    cloud.open(bucket, "x").put("large", LARGE)
    proxy.truncated_bodies = 1000
    (tmp_path / "large").write_bytes(b"precious")
    with pytest.raises(StoreError):
        cloud.open(bucket, "x", address).get("large", tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == b"precious"
    assert [path.name for path in tmp_path.iterdir()] == ["large"]


def test_a_truncated_download_is_retried(cloud, between, tmp_path):
    proxy, address = between
    cloud.make_bucket(bucket := f"once-{cloud.kind}")
    cloud.open(bucket, "x").put("large", LARGE)
    proxy.truncated_bodies = 1
    cloud.open(bucket, "x", address, 4).get("large", tmp_path / "large")
    assert proxy.truncated_bodies == 0
    assert (tmp_path / "large").read_bytes() == LARGE


def test_creating_survives_a_lost_response(cloud, between):
    proxy, address = between
    cloud.make_bucket(bucket := f"lost-{cloud.kind}")
    store = cloud.open(bucket, "x", address, 4)
    proxy.lost_responses = 1
    store.put("lease", b"mine", if_absent=True)
    assert store.read("lease") == b"mine"
    with pytest.raises(ObjectExistsError):
        store.put("lease", b"mine", if_absent=True)


def test_replacing_survives_a_lost_response(cloud, between):
    proxy, address = between
    cloud.make_bucket(bucket := f"replaced-{cloud.kind}")
    store = cloud.open(bucket, "x", address, 4)
    store.put("log", b"1")
    read = store.version("log")
    proxy.lost_responses = 1
    store.put("log", b"2", if_version=read)
    assert store.read("log") == b"2"


def test_an_object_that_is_deleted_while_it_keeps_another_from_its_name_is_one_that_exists(
    cloud, between
):
    proxy, address = between
    cloud.make_bucket(bucket := f"freed-{cloud.kind}")
    other = cloud.open(bucket, "x")
    other.put("lease", b"theirs")

    def delete_lease(target):
        if "lease" in target:  # Google's client asks for the bucket, too
            other.delete("lease")

    proxy.before_read = delete_lease
    with pytest.raises(ObjectExistsError, match="lease: already exists"):
        cloud.open(bucket, "x", address).put("lease", b"mine", if_absent=True)
    assert other.list() == ()
