"""A small classifier of digits: the features and classes by which generated digits are measured.

It is trained once per set of digits, in seconds, and kept in the user's data folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from cloudgan.coevolution.tasks.digit_images import scaled
from cloudgan.coevolution.tasks.idx_file import CLASSES
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import DataError
from cloudgan.core.file_lock import HeldError, take
from cloudgan.core.settings import data_folder
from cloudgan.training.array_archive import as_archive, read_arrays
from cloudgan.training.step import descend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from cloudgan.coevolution.tasks.digit_images import LabelledImages
    from cloudgan.core.progress import Progress

    Floats = NDArray[np.float32]

FEATURES: Final = 64
_SEED: Final = 1
_BATCH: Final = 128
_RATE: Final = 2e-3
_EPOCHS = {8: 30, 28: 2}
"""By the side of an image."""
_AT_ONCE: Final = 1000
"""Images per call of the network: their activations stay in the processor's cache."""
_MAX_FILE: Final = 2**23
_WAIT_SECONDS: Final = 0.1


class DigitClassifier:
    """Two convolutions, 64 features, ten classes."""

    def __init__(self, side: int) -> None:
        """Builds a network for images of `side` x `side` pixels; its weights are zero."""
        self._side = side
        self._model = _build(side)
        self._measure = tf.function(self._outputs, autograph=False, reduce_retracing=True)

    def __call__(self, images: Floats) -> tuple[Floats, Floats]:
        """Returns features (N, 64) and class probabilities (N, 10) of images (N, pixels), -1 to 1."""
        parts = [
            self._measure(tf.constant(images[first : first + _AT_ONCE]))
            for first in range(0, len(images), _AT_ONCE)
        ]
        features, probabilities = zip(*parts, strict=True)
        return np.concatenate(features), np.concatenate(probabilities)

    def train(self, digits: LabelledImages) -> None:
        """Trains the network from its start with Adam, the same way each time."""
        self.weights = _first_weights(self._model)
        optimizer = keras.optimizers.Adam(_RATE)
        optimizer.build(self._model.trainable_variables)

        def step(images: tf.Tensor, labels: tf.Tensor) -> None:
            def losses() -> tuple[None, tf.Tensor]:
                _, probabilities = self._outputs(scaled(tf.cast(images, tf.float32)))
                wrong = keras.losses.sparse_categorical_crossentropy(labels, probabilities)
                return None, tf.reduce_mean(wrong)

            descend(self._model, optimizer, losses)

        traced = tf.function(step, autograph=False, reduce_retracing=True)
        epochs = _EPOCHS[self._side]
        random = np.random.Generator(np.random.Philox(_SEED))
        for epoch in range(epochs):
            optimizer.learning_rate.assign(_RATE * (1 - epoch / epochs))
            order = random.permutation(len(digits))
            for first in range(0, len(order), _BATCH):
                rows = order[first : first + _BATCH]
                traced(tf.constant(digits.images[rows]), tf.constant(digits.labels[rows]))

    @property
    def weights(self) -> list[Floats]:
        """Of the network, in Keras order."""
        found: list[Floats] = self._model.get_weights()
        return found

    @weights.setter
    def weights(self, arrays: Sequence[Floats]) -> None:
        self._model.set_weights(arrays)

    def _outputs(self, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shaped = tf.reshape(images, (-1, self._side, self._side, 1))
        features, probabilities = self._model(shaped)
        return features, probabilities


def trained_classifier(digits: LabelledImages, side: int, progress: Progress) -> DigitClassifier:
    """Returns the classifier of these training digits: from the user's data folder, or trained now.

    One process of a machine trains, and the others wait. A damaged file counts as missing, and a
    folder that cannot be written keeps no classifier.
    """
    classifier = DigitClassifier(side)
    path = data_folder() / "digit-classifiers" / f"{_key(digits)}.npz"
    while not _restore(classifier, path):
        with _turn(path) as is_mine:
            if is_mine and not _restore(classifier, path):
                progress.say("trains the classifier that measures digits, once for this data")
                classifier.train(digits)
                weights = {str(n): array for n, array in enumerate(classifier.weights)}
                with contextlib.suppress(DataError):
                    write_atomic(path, as_archive(weights))
            if is_mine:
                break
    return classifier


def _build(side: int) -> keras.Model:
    image = keras.Input((side, side, 1))
    # Strides in place of pooling: a third of the time per image.
    first = 2 if side == max(_EPOCHS) else 1
    x = layers.Conv2D(16, 3, strides=first, padding="same", activation="relu")(image)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    features = layers.Dense(FEATURES, activation="relu")(layers.Flatten()(x))
    return keras.Model(image, [features, layers.Dense(CLASSES, activation="softmax")(features)])


def _first_weights(model: keras.Model) -> list[Floats]:
    """Uniform kernels of He et al. 2015 (arXiv:1502.01852), biases of zero."""
    random = np.random.Generator(np.random.Philox(_SEED))
    arrays = []
    for weight in model.weights:
        bound = np.sqrt(6 / np.prod(weight.shape[:-1])) if len(weight.shape) > 1 else 0
        arrays.append(random.uniform(-bound, bound, weight.shape).astype(np.float32))
    return arrays


def _key(digits: LabelledImages) -> str:
    """Hash of the digits and of this file: another network or training has another name."""
    found = hashlib.sha256(Path(__file__).read_bytes())
    for array in (digits.images, digits.labels):
        found.update(repr(array.shape).encode())
        found.update(array.tobytes())
    return found.hexdigest()


def _restore(classifier: DigitClassifier, path: Path) -> bool:
    """Whether the classifier got the weights of a file."""
    if not path.exists():
        return False
    try:
        classifier.weights = list(read_arrays(path, limit=_MAX_FILE).values())
    except (DataError, ValueError):
        return False
    return True


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[bool]:
    """Yields whether this process may train; where another one does, after a moment."""
    lock = path.with_suffix(".lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file, _ = take(lock)
    except HeldError:
        time.sleep(_WAIT_SECONDS)
        yield False
        return
    except OSError:  # the folder cannot be written
        yield True
        return
    with file:
        yield True
        with contextlib.suppress(OSError):
            lock.unlink()
