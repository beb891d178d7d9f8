"""Digits, to compare with Lipizzaner (Schmiedlechner et al. 2018, arXiv:1811.12843).

With MNIST the networks are Lipizzaner's: dense layers 64-256-256-784 and 784-256-256-1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cloudgan.coevolution.tasks.digit_images import read_digits, scaled
from cloudgan.coevolution.tasks.digit_quality import NO_DIGITS, Reference
from cloudgan.coevolution.tasks.idx_file import CLASSES
from cloudgan.core.progress import Silent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cloudgan.coevolution.task import Pair, Quality
    from cloudgan.coevolution.tasks.digit_classifier import DigitClassifier
    from cloudgan.core.progress import Progress
    from cloudgan.schema.coevolution import CoevolutionConfig

MOST_PICTURES = 16


class Digits:
    """Handwritten digits; see `cloudgan.coevolution.task.Task`.

    A sample is a row of pixels from -1 to 1, (side * side,).
    """

    name = "digits"

    def __init__(self, config: CoevolutionConfig, progress: Progress | None = None) -> None:
        """Reads the digits.

        Args:
            config: Its `data` is a folder with the files of MNIST; None: scikit-learn's 8x8 digits.
            progress: Shows that the classifier is trained, at the first use of its digits.

        Raises:
            DataError: A file is missing or damaged.
            ModuleNotFoundError: scikit-learn is not installed.
        """
        self._config = config
        self._data = read_digits(config.data)
        self._progress = progress or Silent()

    def make_pair(self) -> Pair:
        """Builds the networks of this process; imports TensorFlow."""
        from cloudgan.coevolution.tasks.digit_pair import DigitPair  # noqa: PLC0415

        return DigitPair(self._data, self._config)

    def facts(self) -> dict[str, Any]:
        """Returns nothing: the weights suffice."""
        return {}

    def measure(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the classifier's features and class probabilities, (N, 74), of samples (N, pixels).

        Those of a sample that is not finite are not a number. The first call trains the classifier, or
        reads it.
        """
        found = np.concatenate(self._classifier(samples), axis=1)
        # A ReLU of TensorFlow makes zero of what is not a number.
        found[~np.isfinite(samples).all(1)] = np.nan
        return found

    def quality(self, measures: NDArray[np.float32]) -> Quality:
        """Returns the quality of measured samples against the held-out digits.

        The score is the Fréchet distance; `details` has the total variation of the classes, and the
        number of classes covered.
        """
        if not np.isfinite(measures).all():
            return NO_DIGITS
        return self._reference.quality(*np.split(measures, [-CLASSES], axis=1))

    def pictures(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns at most 16 samples as images (N, side, side) from 0 to 1; not a number is 0."""
        side = self._data.side
        values = np.nan_to_num(samples[:MOST_PICTURES], nan=-1).reshape(-1, side, side)
        return np.clip((values + 1) / 2, 0, 1)

    @cached_property
    def _classifier(self) -> DigitClassifier:
        from cloudgan.coevolution.tasks.digit_classifier import trained_classifier  # noqa: PLC0415

        return trained_classifier(self._data.training, self._data.side, self._progress)

    @cached_property
    def _reference(self) -> Reference:
        held = self._data.held_out.images
        return Reference(*self._classifier(scaled(held.astype(np.float32))))
