"""Datasets and attributes of HDF5 files, with the faults that files have in practice."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from cloudgan.core.errors import DataError
from cloudgan.core.local_path import missing_file
from cloudgan.data.manifest import (
    ArrayValue,
    Attribute,
    Attributes,
)


@contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """Yields an HDF5 file."""
    try:
        size = path.stat().st_size
        if size == 0:
            raise DataError(f"{path} is empty (0 bytes)")
        if not path.is_file() or not h5py.is_hdf5(path):
            raise DataError(f"{path} is not an HDF5 file")
        file = h5py.File(path, "r")
    except FileNotFoundError as error:
        raise missing_file(path) from error
    except OSError as error:
        cut = "truncated file" in str(error)
        raise DataError(
            f"{path} {'is truncated: copy it again' if cut else 'cannot be opened'} ({error})"
        ) from error
    with file:
        try:
            yield file
        except (OSError, RuntimeError, KeyError, TypeError, ValueError, OverflowError) as error:
            # What h5py and NumPy raise for damage, and for types that NumPy does not have.
            what = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise DataError(
                f"{path} is damaged or holds a type that cannot be read ({' '.join(what.split())}):"
                " copy it again"
            ) from error


def item_of(file: h5py.File, name: str, path: Path) -> Any:
    """Returns a dataset or group of the file; None: the link leads nowhere."""
    link, item = file.get(name, getlink=True), None
    is_elsewhere = isinstance(link, h5py.ExternalLink)
    if not is_elsewhere:
        item = file.get(name)
        if isinstance(item, h5py.Dataset):
            is_elsewhere = item.is_virtual or bool(item.external)
            _check_filters(item, name, path)
    if is_elsewhere:
        raise DataError(
            f"{path}: {name} is in another file (external link, external storage or virtual dataset);"
            " copy it into one file, as with h5copy"
        )
    return item


def _check_filters(dataset: h5py.Dataset, name: str, path: Path) -> None:
    """Checks that the compression of a dataset can be read.

    Importing hdf5plugin registers its filters (doc/usage.rst of
    https://github.com/silx-kit/hdf5plugin, read 2026-11-25).
    """
    plist = dataset.id.get_create_plist()
    for number, _, _, label in (plist.get_filter(i) for i in range(plist.get_nfilters())):
        if not h5py.h5z.filter_avail(number):
            with suppress(ImportError):
                importlib.import_module("hdf5plugin")
        if not h5py.h5z.filter_avail(number):
            called = f" ({label.decode(errors='replace')})" if label else ""
            raise DataError(
                f"{path}: {name} is compressed with the HDF5 filter {number}{called}, which is not installed:"
                " run `pip install hdf5plugin`, or write the file again with gzip"
            )


def names_in(file: h5py.File) -> str:
    """Returns the names of all groups at the top and all datasets, for messages."""
    found: set[str] = set()
    file.visititems(lambda name, item: found.update([name] * isinstance(item, h5py.Dataset)))
    return ", ".join(sorted({*file, *found})) or "nothing"


def first_unreadable(dataset: h5py.Dataset, rows: slice) -> int:
    """Returns the first shower of `rows` that cannot be read."""
    for row in range(rows.start, rows.stop):
        try:
            dataset[row]
        except (OSError, RuntimeError):
            return row
    return int(rows.start)


def attributes_of(file: h5py.File, names: list[str]) -> Attributes:
    """Returns the attributes of datasets, and of the file itself for an empty name, as the manifest keeps them."""
    found: Attributes = {}
    for name in names:
        attributes = (file[name] if name else file).attrs
        values = {str(key): _kept(attributes, key) for key in attributes}
        if kept := {key: value for key, value in values.items() if value is not None}:
            found[name] = kept
    return found


def _kept(attributes: h5py.AttributeManager, key: str) -> Attribute | None:
    """Returns an attribute as the manifest keeps it; None for references and other types."""
    try:
        value = attributes[key]
    except (TypeError, ValueError, OSError):  # a type without an equivalent in NumPy, or no UTF-8
        return None
    if isinstance(value, str):
        return value if _is_text(value) else None
    array = np.asarray(value)
    if array.dtype.kind == "O" and array.ndim == 1 and all(map(_is_text, array)):
        return tuple(array)
    is_kept = array.dtype.kind in "fiubS" and array.dtype.itemsize > 0
    return array_value(array) if is_kept else None


def array_value(array: NDArray[Any]) -> ArrayValue:
    """Returns an array as the manifest keeps it."""
    text = base64.b64encode(array.tobytes()).decode()
    return ArrayValue(dtype=array.dtype.str, shape=array.shape, base64=text)


def array_of(value: ArrayValue) -> NDArray[Any]:
    """Returns the array that the manifest keeps."""
    content = base64.b64decode(value.base64)
    return np.frombuffer(content, np.dtype(value.dtype)).reshape(value.shape)


def _is_text(value: Any) -> bool:
    """Whether `value` is a string of Unicode characters; h5py reads other bytes as surrogates."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
