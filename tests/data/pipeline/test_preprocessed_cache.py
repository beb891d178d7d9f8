from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from cloudgan.data.pipeline import preprocessed_cache as prepared_cache
from cloudgan.data.pipeline.preprocessed_cache import MOST_FILES, cache_path
from cloudgan.data.pipeline.preprocessing import Preprocessing
from cloudgan.data.pipeline.training_set import TrainingSet
from cloudgan.data.sources.convert import _refuse_foreign

VIEW = Preprocessing((17, 17, 25))
ROWS = np.array([3, 0, 17, 5, 5])


class RecordedProgress:
    """Keeps the tasks and lines that it gets."""

    def __init__(self):
        self.tasks, self.lines = [], []

    def start(self, task, total=None, unit=""):
        self.tasks.append(task)

    def advance(self, amount=1, note=""):
        pass

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def shards(tmp_path, public_hdf5, write_shards):
    return write_shards(tmp_path / "set", public_hdf5)


def opened(shards, cache="disk", view=VIEW):
    progress = RecordedProgress()
    return TrainingSet.open(shards, view, cache=cache, progress=progress), progress


def bits(training_set, rows=ROWS):
    return [array.tobytes() for array in training_set.train_rows(rows)]


def test_cached_batches_have_the_bits_of_decoded_ones(shards):
    for view in (
        VIEW,
        Preprocessing((51, 51, 25)),
        Preprocessing((25, 25, 25), scale=100.0, power=1.0),
    ):
        decoded, _ = opened(shards, "none", view)
        for _ in range(2):
            cached, _ = opened(shards, "disk", view)
            assert bits(cached) == bits(decoded)
            one, other = cached.held_out_batch(), decoded.held_out_batch()
            assert [a.tobytes() for a in one] == [a.tobytes() for a in other]


def test_it_is_made_once_and_found_then(shards):
    _, first = opened(shards)
    assert "Preprocessing images" in first.tasks
    second, progress = opened(shards)
    assert "Preprocessing images" not in progress.tasks
    assert "in a file beside the shards" in second.describe()[-1]


def test_what_is_held_out_may_change_and_the_file_stays(shards):
    opened(shards)
    progress = RecordedProgress()
    half = TrainingSet.open(shards, VIEW, held_out_fraction=0.5, cache="disk", progress=progress)
    assert "Preprocessing images" not in progress.tasks
    plain = TrainingSet.open(shards, VIEW, held_out_fraction=0.5, cache="none")
    assert bits(half, ROWS[:2]) == bits(plain, ROWS[:2])


@pytest.mark.parametrize(
    "view",
    [
        replace(VIEW, scale=51.0),
        replace(VIEW, power=0.8),
        replace(VIEW, shape=(15, 17, 25)),
    ],
)
def test_another_view_has_another_file(shards, view):
    opened(shards)
    _, progress = opened(shards, view=view)
    assert "Preprocessing images" in progress.tasks


def test_other_shards_in_the_same_folder_have_another_file(
    tmp_path, shards, write_hdf5_file, write_shards
):
    opened(shards)
    kept = shards / prepared_cache.FOLDER
    others = write_shards(tmp_path / "set2", write_hdf5_file(tmp_path / "b.h5", seed=9))
    kept.rename(others / prepared_cache.FOLDER)
    cached, progress = opened(others)
    assert "Preprocessing images" in progress.tasks
    assert bits(cached) == bits(opened(others, "none")[0])


def test_a_machine_whose_powers_have_other_bits_has_another_file(shards, monkeypatch):
    here = cache_path(shards, VIEW)
    assert here == cache_path(shards, VIEW)
    prepare = Preprocessing.prepare

    def elsewhere(view, showers):
        made = prepare(view, showers)
        made.image.value[7] = np.nextafter(made.image.value[7], np.float32(2))
        return made

    monkeypatch.setattr(Preprocessing, "prepare", elsewhere)
    assert cache_path(shards, VIEW) != here


def test_a_damaged_file_is_named_and_made_again(shards):
    opened(shards)
    path = cache_path(shards, VIEW)
    whole = path.read_bytes()
    path.write_bytes(whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:])
    cached, progress = opened(shards)
    assert progress.lines == [
        f"{path} is damaged: a checksum is wrong; the cache is written again."
    ]
    assert bits(cached) == bits(opened(shards, "none")[0])
    assert path.read_bytes() == whole


@pytest.mark.parametrize(("cache", "kept"), [("disk", "decoded on demand"), ("auto", "in memory")])
def test_a_disk_without_room_is_reported_and_the_showers_are_there(
    shards, monkeypatch, cache, kept
):
    monkeypatch.setattr("cloudgan.data.pipeline.training_set.SMALL_BYTES", 0)
    usage = shutil.disk_usage(shards)._replace(free=prepared_cache.SPARE_BYTES + 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    cached, _ = opened(shards, cache)
    assert kept in cached.describe()[-1]
    assert "They are not cached" in cached.describe()[-1]
    assert "has too little space" in cached.describe()[-1]
    assert bits(cached) == bits(opened(shards, "none")[0])
    assert list((shards / prepared_cache.FOLDER).glob("*.cells*")) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_reported(shards):
    shards.chmod(0o500)
    cached, _ = opened(shards)
    shards.chmod(0o700)
    assert "cannot be written (Permission denied)" in cached.describe()[-1]


def test_a_file_where_the_folder_should_be_is_reported(shards):
    (shards / prepared_cache.FOLDER).write_text("")
    cached, _ = opened(shards)
    assert "cannot be written (Not a directory)" in cached.describe()[-1]
    assert bits(cached) == bits(opened(shards, "none")[0])


def test_a_disk_that_fills_up_meanwhile_is_reported(shards, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(prepared_cache.PreprocessedWriter, "append", full)
    cached, _ = opened(shards)
    assert "cannot be written (No space left on device)" in cached.describe()[-1]
    assert list((shards / prepared_cache.FOLDER).glob("*.cells*")) == []


def test_files_do_not_pile_up_and_the_newest_used_stay(shards):
    views = [replace(VIEW, scale=float(scale)) for scale in range(1, MOST_FILES + 3)]
    for number, view in enumerate(views[:-1]):
        opened(shards, view=view)
        os.utime(cache_path(shards, view), (number, number))
        _, progress = opened(shards, view=views[0])  # used again, so it stays
        assert "Preprocessing images" not in progress.tasks
    opened(shards, view=views[-1])
    left = {path.name for path in (shards / prepared_cache.FOLDER).glob("*.cells")}
    assert len(left) == MOST_FILES
    assert {cache_path(shards, views[0]).name, cache_path(shards, views[-1]).name} <= left


def test_what_a_killed_process_left_goes(shards):
    path = cache_path(shards, VIEW)
    path.parent.mkdir()
    left = path.with_name(f"{path.name}.1-01234567.tmp")
    left.write_bytes(b"half")
    opened(shards)
    assert not left.exists()


def test_a_conversion_may_replace_a_set_that_has_prepared_showers(shards):
    opened(shards)
    _refuse_foreign(shards)


def test_two_processes_at_once_make_it_once(shards):
    program = textwrap.dedent("""
        import sys, time
        from cloudgan.data.pipeline.preprocessing import Preprocessing
        from cloudgan.data.pipeline.training_set import TrainingSet
        made = []
        class RecordedProgress:
            def start(self, task, *_): made.append(task)
            def advance(self, *_): time.sleep(0.3)
            def say(self, line): raise SystemExit(line)
        sys.stdin.readline()
        TrainingSet.open(sys.argv[1], Preprocessing((17, 17, 25)), cache="disk", progress=RecordedProgress())
        print("Preprocessing images" in made)
    """)
    command = [sys.executable, "-c", program, str(shards)]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
    for one in both:
        one.stdin.write("\n")
        one.stdin.flush()
    assert sorted(one.communicate(timeout=60)[0].strip() for one in both) == ["False", "True"]
