"""Blocks of an interrupted simulation: which are finished, whose they are, and what is read; no Geant4."""

from __future__ import annotations

import resource
import shutil

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError, DataError, DiskFullError
from cloudgan.core.progress import Silent
from cloudgan.simulation.geant4 import production
from cloudgan.simulation.geant4.events import EventCells, PrimaryRequest, primary
from cloudgan.simulation.geant4.production import (
    SHAPE,
    begin,
    blocks_of,
    missing_blocks,
    read_showers,
    simulate_blocks,
)
from cloudgan.simulation.geant4.tables import Tables
from cloudgan.simulation.geant4.workers import Installation

REQUEST = PrimaryRequest(1, (10.0, 20.0), (60.0, 120.0))


class Pool:
    """Answers calls in this process, the last one first; `of` is how many before it is interrupted."""

    of = 1000

    def __init__(self, workers=1):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def answers(self, calls):
        for number, call in enumerate(reversed(list(calls))):
            if number == self.of:
                raise KeyboardInterrupt
            yield call()


class Engine:
    """A shower of a primary has two cells."""

    def __init__(self, tables, cut_mm, particle):
        pass

    def simulate(self, one):
        return EventCells(np.array([one.number, 60_000]), np.float32([one.energy_gev, 0.5]))


@pytest.fixture(autouse=True)
def _no_geant4(monkeypatch, tmp_path):
    production._engine.cache_clear()
    monkeypatch.setattr(production, "Engine", Engine)
    monkeypatch.setattr(production, "WorkerPool", Pool)
    monkeypatch.setattr(Pool, "of", 1000)
    tables = Tables(tmp_path, tmp_path, "tables", "0" * 64)
    monkeypatch.setattr(
        production, "prepare_geant4", lambda *_: Installation("11.4.1", "0.1.3", tables)
    )


def produce(path, events=22, request=REQUEST, **options):
    options = {"data": None, "workers": 2, "overwrite": False} | options
    return production.produce(path, events, request, attrs={}, progress=Silent(), **options)


def kept(path):
    return sorted(one.name for one in path.with_name("a.h5.unfinished").glob("*.npz"))


def interrupted(path, after, **options):
    Pool.of = after
    with pytest.raises(production.Interrupted) as caught:
        produce(path, **options)
    Pool.of = 1000
    return str(caught.value)


def test_an_interrupted_simulation_resumes_with_its_finished_blocks(tmp_path):
    said = interrupted(tmp_path / "a.h5", 2)
    assert said.startswith("stopped; 6 of 22 showers are kept in ")
    assert kept(tmp_path / "a.h5") == [
        "000000016-000000020.npz",
        "000000020-000000022.npz",
    ]
    result = produce(tmp_path / "a.h5")
    assert (result.showers, result.resumed) == (22, 6)
    assert [one.name for one in tmp_path.iterdir()] == ["a.h5"]


def test_more_showers_continue_the_sequence_and_fewer_need_none(tmp_path):
    interrupted(tmp_path / "a.h5", 2, events=12)
    assert interrupted(tmp_path / "a.h5", 1, events=40).startswith("stopped; 12 of 40")
    shutil.copytree(tmp_path / "a.h5.unfinished", tmp_path / "b.h5.unfinished")
    assert produce(tmp_path / "a.h5", events=10).resumed == 4
    assert produce(tmp_path / "b.h5", events=40).resumed == 12


def test_showers_come_in_the_order_of_their_numbers_with_their_primaries(tmp_path):
    blocks = blocks_of(range(70), REQUEST)
    list(simulate_blocks(Pool(), tmp_path, blocks, REQUEST, Tables(tmp_path, tmp_path, "", "")))
    read = list(read_showers(tmp_path, blocks, REQUEST))
    assert [len(one) for one in read] == [64, 6]
    ecal = np.concatenate([one.ecal_gev for one in read])
    for number in (0, 1, 69):
        one, image = primary(REQUEST, number), np.zeros(SHAPE, np.float32)
        image.reshape(-1)[[number, 60_000]] = one.energy_gev, 0.5
        assert np.array_equal(ecal[number], image)
        assert read[number // 64].energy_gev[number % 64] == np.float32(one.energy_gev)
        assert read[number // 64].theta_rad[number % 64] == np.float32(one.theta_rad)


@pytest.mark.parametrize(("gev", "size"), [(1, 4), (50, 4), (100, 2), (1000, 1)])
def test_a_block_has_a_few_seconds_of_showers(gev, size):
    request = PrimaryRequest(1, (gev, gev), (90.0, 90.0))
    assert blocks_of(range(5), request)[0] == range(size)
    assert sum(map(len, blocks_of(range(5), request))) == 5


def test_a_file_that_is_not_finished_does_not_count(tmp_path):
    blocks = blocks_of(range(8), REQUEST)
    (tmp_path / "000000000-000000004.npz.7-0123abcd.tmp").write_bytes(b"half")
    assert missing_blocks(tmp_path, blocks) == blocks


def test_another_simulation_is_named_and_kept_or_discarded(tmp_path):
    interrupted(tmp_path / "a.h5", 2)
    other = PrimaryRequest(2, (10.0, 20.0), (60.0, 120.0))
    with pytest.raises(ConfigError, match=r"differ: seed \(2, 1\).*--overwrite"):
        produce(tmp_path / "a.h5", request=other)
    assert len(kept(tmp_path / "a.h5")) == 2
    assert produce(tmp_path / "a.h5", request=other, overwrite=True).resumed == 0
    interrupted(tmp_path / "a.h5", 2)
    assert produce(tmp_path / "a.h5", overwrite=True).resumed == 6


def test_a_simulation_without_showers_leaves_no_folder(tmp_path, monkeypatch):
    def fails(*_):
        raise ConfigError("no Geant4")

    monkeypatch.setattr(production, "prepare_geant4", fails)
    with pytest.raises(ConfigError, match="no Geant4"):
        produce(tmp_path / "a.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_block_is_named(tmp_path):
    begin(tmp_path, {"seed": 1}, discard_other=False)
    (tmp_path / "000000000-000000004.npz").write_bytes(b"PK damaged")
    with pytest.raises(DataError, match=r"0-000000004\.npz is damaged .* delete it"):
        list(read_showers(tmp_path, [range(4)], REQUEST))


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "a.h5.unfinished").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        produce(tmp_path / "a.h5")


def test_a_full_disk_keeps_finished_showers(tmp_path):
    """A file size limit simulates a full disk: a block of one shower fits, one of four does not."""
    interrupted(tmp_path / "a.h5", 1, events=9)
    (first,) = tmp_path.glob("*/*.npz")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (first.stat().st_size, limits[1]))
    try:
        with pytest.raises(DiskFullError, match=r"free space.*; 1 of 9 showers are kept in"):
            produce(tmp_path / "a.h5", events=9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert kept(tmp_path / "a.h5") == [first.name]
    assert produce(tmp_path / "a.h5", events=9).resumed == 1
