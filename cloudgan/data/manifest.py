"""`manifest.json` of a store of showers, and what it says of the files that the showers came from.

A store is a folder of parts; a part has the showers of one source, one .npy file per array: `offsets`, `cells`,
`values` (see `cloudgan.data.showers.Cells`), then one per column. A dataset's dtype, its shape per shower
and its attributes are kept, so that the file can be written again without changing one bit. The manifest
is written last, ends with a SHA-256 of its values, and has that of every file: a change of one bit is noticed.
Needs no NumPy: a worker that downloads a store has none.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.document import Document
from cloudgan.core.documents import explain, read_bytes
from cloudgan.core.errors import CloudganError, DataError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.data.layouts import Layout
from cloudgan.schema.simulation import PARTICLE_ATTRIBUTE, PDG_NAMES

MANIFEST = "manifest.json"
PART_SUFFIX = ".npy"
ARRAYS: Final = ("offsets", "cells", "values")
"""First files of a part; those of the columns follow in the order of the source."""

BLOCK_SHOWERS: Final = 1024
"""Showers of a source that are shuffled together: 4 blocks make a group of 16 MB, which any page cache holds."""

MAX_CELLS: Final = 1 << 24
"""Largest image, in cells; the images of CLIC's ECAL have 65,025."""

EMPTY_SHARE: Final = 1e-3
"""A shower with at most this share of the primary energy in its cells is empty. The loaders of the 3DGAN
authors omit sums up to 10 in GeV*50: 0.2 GeV, this share of 200 GeV (`GetDataAngle`, arXiv:2111.04628)."""

_MAX_ROW_BYTES = 1 << 20
_MAX_COUNT = 1 << 40

_NUMBERS = r"\|[iub]1|[<>](?:[iu][248]|f(?:2|4|8|16))"
_NumberType = Annotated[str, Field(pattern=rf"^(?:{_NUMBERS})$")]
_ArrayType = Annotated[str, Field(pattern=rf"^(?:{_NUMBERS}|\|S[1-9][0-9]{{0,5}})$")]
_Length = Annotated[int, Field(ge=0, le=_MAX_COUNT)]
_Cells = Annotated[int, Field(gt=0, le=MAX_CELLS)]
_Count = Annotated[int, Field(gt=0, le=_MAX_COUNT)]


def _bytes_each(dtype: str) -> int:
    return int(re.sub(r"\D", "", dtype))


def describe_empty(empty: int, count: int) -> str:
    """Returns a sentence about the empty showers among `count`."""
    verb = "is" if empty == 1 else "are"
    return (
        f"{empty} of {count} showers {verb} empty and left out: at most {EMPTY_SHARE:.1%} of the primary"
        " energy is in the cells."
    )


class ArrayValue(Document):
    """A number or an array, bit for bit; see `hdf5_writer.array_value`."""

    dtype: _ArrayType
    shape: tuple[_Length, ...]
    base64: str

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        try:
            size = len(base64.b64decode(self.base64, validate=True))
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"not base64: {error}") from error
        if size != (expected := math.prod(self.shape) * _bytes_each(self.dtype)):
            raise ValueError(f"{size} bytes instead of {expected}")
        return self


Attribute = str | tuple[str, ...] | ArrayValue
Attributes = dict[str, dict[str, Attribute]]
"""Attributes by dataset; those of the file itself have an empty name."""


class ColumnInfo(Document):
    """One dataset with a value per shower, beside ECAL."""

    name: str = Field(min_length=1)
    dtype: _NumberType
    shape: tuple[_Cells, ...] = Field(default=(), description="of one shower's value")

    @property
    def size(self) -> int:
        """Values of one shower."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of one shower's value."""
        return self.size * _bytes_each(self.dtype)


class SourceInfo(Document):
    """One file of showers as it came to us."""

    name: str
    layout: str
    bytes: _Length
    modified_ns: int = Field(ge=-(1 << 63), lt=1 << 63)
    records: _Count
    shape: tuple[_Cells, _Cells, _Cells]
    ecal_dtype: str = Field(default="<f4", pattern=r"^[<>]f[248]$")
    ecal_per_gev: float = Field(
        ge=1e-3, le=1e6, allow_inf_nan=False, description="number that represents one GeV"
    )
    energy_per_gev: float = Field(
        1.0, ge=1e-3, le=1e6, allow_inf_nan=False, description="the same of energy or target"
    )
    ecal_decided: str = Field(description="how the units were decided")
    empty: int = Field(0, ge=0, le=_MAX_COUNT, description="empty showers left out of `records`")
    sha256: str | None = Field(
        None, pattern=r"^[0-9a-f]{64}$", description="of the file; null: showers without a file"
    )
    pdg_id: int | None = Field(None, description="PDG number of the primary in a column")
    dataset: Layout | None = Field(
        None, description="layout, units and geometry of the file; null: 3DGAN's"
    )
    columns: tuple[ColumnInfo, ...]
    attributes: Attributes = Field(default_factory=dict)

    @property
    def particle(self) -> str | None:
        """Primary particle that the file states; None: it states none."""
        found = self.attributes.get("", {}).get(PARTICLE_ATTRIBUTE)
        if isinstance(found, str):
            return found
        if self.pdg_id is None:
            return self.dataset.particle if self.dataset else None
        return PDG_NAMES.get(self.pdg_id, f"PDG {self.pdg_id}")

    def describe(self) -> tuple[str, ...]:
        """Returns sentences about the units, the primary particle and empty showers."""
        particle = (f"Primary particle: {self.particle}.",) if self.particle else ()
        empty = (describe_empty(self.empty, self.records + self.empty),) if self.empty else ()
        geometry = self.dataset.describe() if self.dataset else ()
        return (self.ecal_decided, *particle, *geometry, *empty)

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        if math.prod(self.shape) > MAX_CELLS:
            raise ValueError(f"images of {math.prod(self.shape)} cells; at most {MAX_CELLS}")
        columns = {column.name: column for column in self.columns}
        if len(columns) < len(self.columns):
            raise ValueError("two columns have one name")
        if not {"energy", "target"} & set(columns):
            raise ValueError("no column energy or target")
        if "energy" not in columns and columns["target"].size < len(("pdg", "energy")):
            raise ValueError("column target has no energy")
        for name in {"energy", "theta", "mtheta"} & set(columns):
            if columns[name].size != 1:
                raise ValueError(f"column {name} has {columns[name].size} values per shower")
        if sum(column.nbytes for column in self.columns) > _MAX_ROW_BYTES:
            raise ValueError(f"the columns of one shower exceed {_MAX_ROW_BYTES} bytes")
        return self


class StoredFile(Document):
    """One .npy file of a part."""

    name: str = Field(pattern=r"^part-[0-9]{5,12}-[A-Za-z0-9_]{1,64}\.npy$")
    bytes: _Count
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @classmethod
    def of(cls, path: Path) -> Self:
        """Describes a file."""
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return cls(name=path.name, bytes=path.stat().st_size, sha256=digest)


class PartInfo(Document):
    """Showers of one source."""

    records: _Count
    source: int = Field(ge=0, description="index into sources")
    files: tuple[StoredFile, ...] = Field(description="offsets, cells, values, and one per column")


class Manifest(Document):
    """`manifest.json`: written last, so a folder without it is an unfinished conversion."""

    schema_version: Literal[1] = 1
    records: _Count
    shape: tuple[_Cells, _Cells, _Cells]
    parts: tuple[PartInfo, ...]
    sources: tuple[SourceInfo, ...]

    @property
    def files(self) -> Iterator[StoredFile]:
        """All files of all parts."""
        return chain.from_iterable(part.files for part in self.parts)

    def block_counts(self) -> tuple[int, ...]:
        """Returns the showers of each block of at most `BLOCK_SHOWERS`; a block has one source."""
        return tuple(
            min(BLOCK_SHOWERS, source.records - first)
            for source in self.sources
            for first in range(0, source.records, BLOCK_SHOWERS)
        )

    def digests(self) -> frozenset[str]:
        """Returns the SHA-256 of each source, or of its values where it had no file."""
        of_values = (
            part.files[ARRAYS.index("values")].sha256
            for part in self.parts
            if not self.sources[part.source].sha256
        )
        return frozenset((*of_values, *(each.sha256 for each in self.sources if each.sha256)))

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total = sum(part.records for part in self.parts)
        if total != self.records:
            raise ValueError(f"the parts hold {total} records, not {self.records}")
        if any(part.source >= len(self.sources) for part in self.parts):
            raise ValueError("a part names a source that is not listed")
        if any(source.shape != self.shape for source in self.sources):
            raise ValueError("the sources differ in shape")
        names = [file.name for file in self.files]
        if len(set(names)) < len(names):
            raise ValueError("a file is listed twice")
        for number, source in enumerate(self.sources):
            parts = [part for part in self.parts if part.source == number]
            held = sum(part.records for part in parts)
            if held != source.records:
                raise ValueError(f"{source.name} has {source.records} records, its parts {held}")
            if any(len(part.files) != len(ARRAYS) + len(source.columns) for part in parts):
                raise ValueError(f"a part of {source.name} lacks a file")
        if [part.source for part in self.parts] != sorted(part.source for part in self.parts):
            raise ValueError("the parts are not in the order of their sources")
        return self


class _Document(Manifest):
    """The manifest as it is in its file."""

    sha256: str = Field(description="of the other values")


def manifest_digest(manifest: Manifest) -> str:
    """Returns the SHA-256 of the values of a manifest, which its file ends with."""
    return hashlib.sha256(manifest.model_dump_json(exclude={"sha256"}).encode()).hexdigest()


def has_manifest(folder: Path | str) -> bool:
    """Whether `folder` is a finished store."""
    return Path(folder, MANIFEST).is_file()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes `manifest.json` atomically."""
    with atomic_writer(folder / MANIFEST, error_class=CloudganError) as file:
        file.write(manifest_bytes(manifest))


def manifest_bytes(manifest: Manifest) -> bytes:
    """Returns the content of `manifest.json`."""
    fields = manifest.model_dump(mode="json") | {"sha256": manifest_digest(manifest)}
    return (json.dumps(fields, indent=1) + "\n").encode()


def read_manifest(folder: Path) -> Manifest:
    """Reads the manifest of a store.

    Raises:
        DataError: There is none (an unfinished conversion), or it does not parse.
    """
    path = folder / MANIFEST
    if not path.exists():
        raise DataError(
            f"{folder} is incomplete: it has no {MANIFEST}, which convert writes last."
            " Run convert again."
        )
    return parse_manifest(read_bytes(path), str(path))


def parse_manifest(content: bytes, name: str) -> Manifest:
    """Parses what a manifest holds; `name` is what an error calls it.

    Raises:
        DataError: It does not parse, contradicts itself, or was changed after it was written.
    """
    try:
        found = _Document.model_validate_json(content)
    except ValidationError as error:
        problem = explain(error.errors(include_url=False)[0])
        raise DataError(
            f"{name} is not a manifest we know: {problem}. Run convert again."
        ) from error
    if found.sha256 != manifest_digest(found):
        raise DataError(
            f"{name} is damaged or was edited: the checksum at its end does not fit its values. Copy"
            " the whole store again or run convert again."
        )
    return Manifest.model_validate(found.model_dump(exclude={"sha256"}))


FileIdentity = tuple[int, int]


def identity_of(path: Path) -> FileIdentity:
    """Returns what a write to a file, or its replacement, changes: its size, and when it was written, ns.

    Without the inode: file systems over object stores may assign another one at every opening.
    """
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def check_folder(folder: Path, manifest: Manifest) -> None:
    """Checks that the folder holds the files of the manifest, of the right sizes, and no other parts."""
    for file in manifest.files:
        _check_size(folder, file, str(folder / file.name))
    listed = {file.name for file in manifest.files}
    found = {path.name for path in folder.glob(f"part-*{PART_SUFFIX}")}
    if others := sorted(found - listed):
        raise DataError(
            f"{folder} holds {others[0]}, which its {MANIFEST} does not list: two stores are mixed."
            " Run convert again."
        )


def _check_size(folder: Path, file: StoredFile, name: str) -> None:
    try:
        size = (folder / file.name).stat().st_size
    except OSError as error:
        raise DataError(f"{name} is missing: run convert again ({error.strerror})") from error
    if size != file.bytes:
        what = "truncated" if size < file.bytes else "not the original file"
        raise DataError(
            f"{name} is {what}: {size} bytes, the manifest says {file.bytes}."
            " Copy it again or run convert again."
        )


def check_file(folder: Path, file: StoredFile, name: str = "") -> FileIdentity:
    """Compares size and SHA-256 of a file with the manifest; returns the identity of what was compared.

    Messages call it `name`, by default its path.
    """
    path = folder / file.name
    name = name or str(path)
    _check_size(folder, file, name)
    try:
        identity = identity_of(path)
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}") from error
    if digest != file.sha256:
        raise DataError(
            f"{name} is damaged: its SHA-256 differs from that in {MANIFEST}. Copy the file again or"
            " run convert again."
        )
    return identity


def check_files(folder: Path, manifest: Manifest, progress: Progress) -> dict[str, FileIdentity]:
    """Checks every file, with one thread per core; returns the identity of each by name."""
    check_folder(folder, manifest)
    files = tuple(manifest.files)
    progress.start("Checking the store", sum(file.bytes for file in files), "bytes")
    found = {}
    pool = ThreadPoolExecutor(this_machine().cores, thread_name_prefix="check")
    try:
        identities = pool.map(lambda file: check_file(folder, file), files)
        for file, identity in zip(files, identities, strict=True):
            found[file.name] = identity
            progress.advance(file.bytes)
    finally:
        pool.shutdown(cancel_futures=True)
    return found
