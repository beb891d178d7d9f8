"""The file of a grid's result: it is read as written, and any other file is refused."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from cloudgan.coevolution.evolution import Mixture
from cloudgan.coevolution.samples import GridResult, read_result, write_result
from cloudgan.core.errors import ConfigError, DataError


def weights(value):
    return {
        "000/kernel": np.full((2, 3), value, np.float32),
        "001/bias": np.full(3, -value, np.float32),
    }


RESULT = GridResult(
    task="ring",
    rows=2,
    columns=3,
    iteration=12,
    generators=tuple(weights(number) for number in range(6)),
    untrained=weights(9),
    mixtures=tuple(Mixture((n, (n + 1) % 6), (0.25, 0.75)) for n in range(6)),
    scores=(3.0, 2.0, None, 1.5, 4.0, 5.0),
    facts={"summary": {"count": 3}},
    ensemble=(4, 0),
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "mixture.npz"
    write_result(path, RESULT)
    return path


def test_a_result_is_read_as_it_was_written(path):
    found = read_result(path)
    for mine, its in zip(
        (*found.generators, found.untrained), (*RESULT.generators, RESULT.untrained), strict=True
    ):
        assert list(mine) == list(its)
        for name, array in its.items():
            np.testing.assert_array_equal(mine[name], array)
    assert found.model_dump() == RESULT.model_dump()


def test_the_best_cell_has_the_lowest_score_and_its_mixture_is_the_result():
    assert RESULT.best == 3
    assert RESULT.choose("mixture") == RESULT.mixtures[3]
    assert RESULT.choose("best") == Mixture((3,), (1.0,))
    assert RESULT.choose("1,2") == Mixture((5,), (1.0,))
    assert RESULT.choose("ensemble") == Mixture((4, 0), (0.5, 0.5))


def test_an_ensemble_that_was_not_chosen_is_refused_with_the_command_that_chooses_one():
    with pytest.raises(ConfigError, match="cloudgan evolve --run=FOLDER --ensemble=greedy"):
        RESULT.model_copy(update={"ensemble": ()}).choose("ensemble")


@pytest.mark.parametrize(
    "cell", ["2,0", "0,3", "-1,0", "1", "", "Best", "1,2,3", "0, 1", "9" * 5000]
)
def test_a_cell_that_does_not_exist_is_refused_with_the_valid_ones(cell):
    with pytest.raises(
        ConfigError, match=r"mixture, best, ensemble, and ROW,COLUMN from 0,0 to 1,2"
    ):
        RESULT.choose(cell)


def test_a_missing_result_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(DataError, match="cloudgan evolve"):
        read_result(tmp_path / "mixture.npz")


def changed(path, change):
    """Writes the archive again after a change of its arrays."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    change(arrays)
    with path.open("wb") as file:
        np.savez(file, **arrays)


def document(**changes):
    def change(arrays):
        found = json.loads(arrays["meta.json"].tobytes()) | changes
        arrays["meta.json"] = np.frombuffer(json.dumps(found).encode(), np.uint8)

    return change


def mixtures(members, weights):
    return document(mixtures=[{"members": members, "weights": weights}] * 6)


def with_nan(arrays):
    arrays["1-2/000/kernel"][1, 1] = np.nan


DAMAGE = {
    "a cell less": lambda arrays: arrays.pop("0-0/000/kernel"),
    "an unknown cell": lambda arrays: arrays.update({"7-7/000/kernel": np.zeros(1, np.float32)}),
    "another shape": lambda arrays: arrays.update({"0-1/001/bias": np.zeros(4, np.float32)}),
    "another type": lambda arrays: arrays.update({"0-1/001/bias": np.zeros(3)}),
    "NaN": with_nan,
    "no text": lambda arrays: arrays.pop("meta.json"),
    "a text of numbers": lambda arrays: arrays.update({"meta.json": np.zeros(5)}),
    "an unknown member": mixtures([0, 6], [0.5, 0.5]),
    "an ensemble of unknown cells": document(ensemble=[6]),
    "no members": mixtures([], []),
    "weights of sum 2": mixtures([0, 1], [1.0, 1.0]),
    "a negative weight": mixtures([0, 1], [-1.0, 2.0]),
    "too few scores": document(scores=[1.0]),
    "another grid": document(rows=3),
    "an unknown key": document(more=1),
    "a huge grid": document(rows=10**9),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_result_is_refused_with_the_name_of_the_file(path, damage):
    changed(path, damage)
    with pytest.raises(DataError, match=str(path)):
        read_result(path)


def test_a_cut_file_pickles_and_compressed_arrays_are_refused(path):
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged"):
        read_result(path)
    with path.open("wb") as file:
        np.savez(file, **{"0-0/000/kernel": np.array([{}], object)})
    with pytest.raises(DataError, match="does not hold numbers"):
        read_result(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("meta.json.npy", b"x" * 1000)
    with pytest.raises(DataError, match="damaged"):
        read_result(path)
