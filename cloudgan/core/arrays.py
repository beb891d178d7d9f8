"""Types of NumPy arrays, for annotations, and archives of arrays."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloudgan.core.documents import read_bytes
from cloudgan.core.errors import DataError

Array = NDArray[Any]
Floats = NDArray[np.floating]

_MAX_BYTES = 2**33
"""More than a hundred times the checkpoint of the largest preset."""


def as_archive(arrays: Mapping[str, Array]) -> bytes:
    """Returns the archive of arrays."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    return content.getvalue()


def read_arrays(path: Path) -> dict[str, Array]:
    """Reads all arrays of an archive; zipfile compares their checksums."""
    raw = read_bytes(path, limit=_MAX_BYTES)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as file:
            is_plain = all(each.compress_type == zipfile.ZIP_STORED for each in file.infolist())
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if is_plain}
    except MemoryError:
        raise
    except Exception as error:
        # zipfile, zlib and NumPy raise errors of a dozen classes for a damaged file.
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        if "pickle" in reason:  # NumPy recommends to load it as a program
            reason = "an array does not hold numbers"
        raise DataError(f"{path}: damaged ({reason})") from error
    if not is_plain or not all(isinstance(each, np.ndarray) for each in arrays.values()):
        raise DataError(f"{path}: damaged (an entry is compressed, or is not an array)")
    return arrays
