"""Metadata of a file of showers, and `manifest.json` of a sharded dataset.

A dataset's dtype, its shape per shower and its attributes are kept, so that the file can be written
again without changing one bit.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.errors import CloudganError, DataError

if TYPE_CHECKING:
    import numpy as np

MANIFEST = "manifest.json"
SHARD_SUFFIX = ".tfrecord"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ArrayValue(_Frozen):
    """A number or an array, bit for bit."""

    dtype: str
    shape: tuple[int, ...]
    base64: str

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> Self:
        """Encodes `array`."""
        text = base64.b64encode(array.tobytes()).decode()
        return cls(dtype=array.dtype.str, shape=array.shape, base64=text)

    def array(self) -> np.ndarray[Any, Any]:
        """Returns the array."""
        import numpy as np  # noqa: PLC0415  fetching shards needs no NumPy

        content = base64.b64decode(self.base64)
        return np.frombuffer(content, np.dtype(self.dtype)).reshape(self.shape)


Attribute = str | tuple[str, ...] | ArrayValue
Attributes = dict[str, dict[str, Attribute]]
"""Attributes by dataset; those of the file itself have an empty name."""


class ColumnInfo(_Frozen):
    """One dataset with a value per shower, beside ECAL."""

    name: str
    dtype: str
    shape: tuple[int, ...] = Field(default=(), description="of one shower's value")


class SourceInfo(_Frozen):
    """One file of showers as it came to us."""

    name: str
    layout: str
    bytes: int = Field(ge=0)
    modified_ns: int
    records: int = Field(gt=0)
    shape: tuple[int, int, int]
    ecal_dtype: str = "<f4"
    ecal_per_gev: float = Field(gt=0, description="number that represents one GeV")
    ecal_decided: str = Field(description="how the unit was decided")
    columns: tuple[ColumnInfo, ...]
    attributes: Attributes = {}


class ShardInfo(_Frozen):
    """One file of a sharded set; all its showers come from one source."""

    name: str
    records: int = Field(gt=0)
    bytes: int = Field(gt=0)
    sha256: str
    source: int = Field(ge=0, description="index into sources")


class Manifest(_Frozen):
    """`manifest.json`: written last, so a folder without it is an unfinished conversion."""

    schema_version: Literal[1] = 1
    records: int = Field(gt=0)
    shape: tuple[int, int, int]
    shards: tuple[ShardInfo, ...]
    sources: tuple[SourceInfo, ...]

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total = sum(shard.records for shard in self.shards)
        if total != self.records:
            raise ValueError(f"the shards hold {total} records, not {self.records}")
        if any(shard.source >= len(self.sources) for shard in self.shards):
            raise ValueError("a shard names a source that is not listed")
        if any(source.shape != self.shape for source in self.sources):
            raise ValueError("the sources differ in shape")
        return self


def has_manifest(folder: Path | str) -> bool:
    """Whether `folder` is a finished sharded set."""
    return Path(folder, MANIFEST).is_file()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes `manifest.json` atomically."""
    with atomic_writer(folder / MANIFEST, error_class=CloudganError) as file:
        file.write((manifest.model_dump_json(indent=1) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a sharded set.

    Raises:
        DataError: There is none (an unfinished conversion), or it does not parse.
    """
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} is incomplete: it has no {MANIFEST}, which convert writes last."
            " Run convert again."
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, name: str) -> Manifest:
    """Parses what a manifest holds; `name` is what an error calls it.

    Raises:
        DataError: It does not parse.
    """
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(
            f"{name} is not a manifest we know: {where}: {first['msg']}. Run convert again."
        ) from error
