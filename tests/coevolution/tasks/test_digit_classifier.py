from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest

from cloudgan.coevolution.tasks.digit_images import scaled
from cloudgan.core.file_lock import take

pytestmark = pytest.mark.tf


class Lines:
    """Collects the messages; reading a classifier gives none."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def classifier_of(small_digits):
    from cloudgan.coevolution.tasks.digit_classifier import trained_classifier

    def make(progress=None):
        return trained_classifier(small_digits.training, small_digits.side, progress or Lines())

    return make


@pytest.fixture
def no_training(monkeypatch):
    """Replaces the training, which takes a second, by weights of one."""
    from cloudgan.coevolution.tasks.digit_classifier import DigitClassifier

    def fill(self, digits):
        self.weights = [np.ones_like(each) for each in self.weights]

    monkeypatch.setattr(DigitClassifier, "train", fill)


def test_the_classifier_recognises_held_out_digits(small_digits, with_classifier, classifier_of):
    lines = Lines()
    found = classifier_of(lines)
    assert not lines.lines, "the fixture has trained it"
    held = small_digits.held_out
    features, probabilities = found(scaled(held.images.astype(np.float32)))
    assert features.shape == (449, 64)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert (probabilities.argmax(1) == held.labels).mean() >= 0.95


def test_a_classifier_is_trained_once_and_again_for_other_digits(
    small_digits, no_training, classifier_of, monkeypatch, tmp_path
):
    from cloudgan.coevolution.tasks.digit_classifier import trained_classifier

    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    lines = Lines()
    classifier_of(lines)
    classifier_of(lines)
    assert len(lines.lines) == 1
    trained_classifier(small_digits.held_out, small_digits.side, lines)
    assert len(lines.lines) == 2
    assert len(list((tmp_path / "digit-classifiers").iterdir())) == 2


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-40], lambda raw: b"", lambda raw: b"PK" + raw]
)
@pytest.mark.usefixtures("no_training")
def test_a_damaged_file_counts_as_missing(
    damage, trained_folder, classifier_of, monkeypatch, tmp_path
):
    shutil.copytree(trained_folder, tmp_path / "data")
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path / "data"))
    (path,) = (tmp_path / "data" / "digit-classifiers").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    lines = Lines()
    assert all(np.all(each == 1) for each in classifier_of(lines).weights)
    assert len(lines.lines) == 1


def test_a_process_waits_for_the_one_that_trains(
    trained_folder, no_training, classifier_of, monkeypatch, tmp_path
):
    (finished,) = (trained_folder / "digit-classifiers").iterdir()
    folder = tmp_path / "digit-classifiers"
    folder.mkdir()
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path))
    lock, _ = take(folder / finished.with_suffix(".lock").name)
    timer = threading.Timer(0.3, lambda: shutil.copy(finished, folder))
    timer.start()
    with lock:
        lines = Lines()
        found = classifier_of(lines)
        timer.join()
    assert not lines.lines
    assert any(np.any(each != 1) for each in found.weights)


def test_a_folder_that_cannot_be_written_keeps_no_classifier(
    no_training, classifier_of, monkeypatch, tmp_path
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CLOUDGAN_DATA", str(tmp_path / "file"))
    assert all(np.all(each == 1) for each in classifier_of().weights)
