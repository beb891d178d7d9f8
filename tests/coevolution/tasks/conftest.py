"""Shared fixtures of the tasks: the 8x8 digits, and their classifier, trained once per test run."""

from __future__ import annotations

import pytest

from cloudgan.coevolution.tasks.digit_images import read_digits
from cloudgan.core.progress import Silent


@pytest.fixture(scope="session")
def small_digits():
    return read_digits(None)


@pytest.fixture(scope="session")
def trained_folder(made_once, small_digits):
    """A data folder that holds the classifier of the 8x8 digits."""

    def train(folder):
        from cloudgan.coevolution.tasks.digit_classifier import trained_classifier

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CLOUDGAN_DATA", str(folder))
            trained_classifier(small_digits.training, small_digits.side, Silent())

    return made_once("digit-classifier", train)


@pytest.fixture
def with_classifier(trained_folder, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_DATA", str(trained_folder))


@pytest.fixture(scope="session")
def shower_shards(made_once):
    """A folder of shards with 90 parametric showers of 9 x 9 x 25 cells."""

    def make(folder):
        from cloudgan.data.sources.convert import convert
        from cloudgan.data.sources.hdf5_writer import write_hdf5
        from cloudgan.simulation.gflash import simulate

        write_hdf5(folder / "showers.h5", simulate(90, seed=5, cells=(9, 9), block=50))
        convert(str(folder / "showers.h5"), folder / "shards", records_per_shard=32)

    return made_once("coevolution-showers", make) / "shards"
