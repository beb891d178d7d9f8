"""The records of a TFRecord file of lists of numbers. Needs TensorFlow, to check the checksums."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from cloudgan.core.errors import DataError
from cloudgan.data.example import number_features
from cloudgan.data.manifest import SourceInfo
from cloudgan.data.record_offsets import record_extents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

Features = dict[str, "NDArray[Any]"]


class Records:
    """The records of one file, in memory-mapped pages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.extents = record_extents(path)
        with path.open("rb") as file:
            self._content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def __len__(self) -> int:
        return len(self.extents.start)

    def features(self, record: int) -> Features:
        """Returns the numbers of one record, unchecked."""
        start = int(self.extents.start[record])
        try:
            return dict(
                number_features(self._content[start : start + int(self.extents.size[record])])
            )
        except ValueError as error:
            raise self.error(record, f"does not parse ({error})") from error

    def checked(self) -> Iterator[tuple[int, Features]]:
        """Yields all records in order, their checksums verified."""
        sizes = iter(tf.data.TFRecordDataset(str(self.path)).map(tf.strings.length))
        for record in range(len(self)):
            try:
                next(sizes)
            except (tf.errors.OpError, StopIteration) as error:
                raise self.error(record, "is damaged: its checksum is wrong") from error
            yield record, self.features(record)

    def error(self, record: int, problem: str) -> DataError:
        """Returns the error that names file and record."""
        return DataError(f"{self.path}, record {record}: {problem}. Copy the file again.")


def headline(info: SourceInfo) -> str:
    """Returns the sentence that says what a file is."""
    cells = "x".join(map(str, info.shape))
    return f"{info.name}: {info.records} showers of {cells} cells, {info.layout}."


def source_info(path: Path, **known: Any) -> SourceInfo:
    """Returns `known` with what the file system knows of `path`."""
    status = path.stat()
    return SourceInfo(name=str(path), bytes=status.st_size, modified_ns=status.st_mtime_ns, **known)
