"""What the tests of tasks share: the 8x8 digits, and their classifier, trained once per test run."""

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
