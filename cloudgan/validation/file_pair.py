"""Two files of showers that are compared: opens, checks, measures and describes them. Needs h5py."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.progress import Progress
from cloudgan.data.hdf5_writer import GENERATED, array_of
from cloudgan.data.held_out import LEAST_TO_COMPARE
from cloudgan.data.manifest import ArrayValue, Attribute, SourceInfo
from cloudgan.data.sources import ShowerSource, open_source
from cloudgan.reports.table import Table
from cloudgan.validation.observables import BLOCK, Observables, observe_blocks
from cloudgan.validation.samples import READ, Pair, pick_pairs

_MAX_TEXT = 200
_MAX_VALUES = 8
_MAX_FILES = 20


@dataclass(frozen=True)
class FilePair:
    """Two sources of showers of one shape, with their names."""

    generated: ShowerSource
    reference: ShowerSource
    generated_name: str
    reference_name: str

    def measure(self, at_most: int, progress: Progress) -> tuple[Observables, Observables]:
        """Reads both block by block, at most `at_most` showers of each.

        Returns:
            Observables of the generated showers and of the reference.
        """
        measured = []
        for name, source in (
            (self.reference_name, self.reference),
            (self.generated_name, self.generated),
        ):
            progress.start(f"reading {name}", source.count, "showers")
            measured.append(
                observe_blocks(
                    source.blocks(BLOCK),
                    name,
                    count=source.count,
                    at_most=at_most,
                    progress=progress,
                )
            )
        reference, generated = measured
        if len(generated) == len(reference) and all(
            np.array_equal(getattr(generated, name), getattr(reference, name))
            for name in ("energy_gev", "sum_gev", "hits", "largest_gev")
        ):
            raise DataError(
                f"{self.generated_name} and {self.reference_name} hold the same showers: one is a copy"
                " of the other; give two independent samples"
            )
        return generated, reference

    def first_showers(self) -> tuple[Pair, ...]:
        """Reads showers of both to draw beside each other, of nearly the same energy and angle."""
        return pick_pairs(
            *(next(iter(one.blocks(READ))) for one in (self.generated, self.reference))
        )

    def provenance(self) -> tuple[Table, Table]:
        """Returns the properties of the files of both samples."""
        return (
            provenance_table(f"Generated: {self.generated_name}", self.generated),
            provenance_table(f"Reference: {self.reference_name}", self.reference),
        )


def open_pair(generated: str, reference: str, *, unit: str = "", binning: str = "") -> FilePair:
    """Opens two files, globs or folders, and checks that they can be compared."""
    ours, theirs = (open_source(name, unit, binning) for name in (generated, reference))
    one, other = Path(generated).name, Path(reference).name
    names = (generated, reference) if one == other else (one, other)
    shared = {file.path.resolve() for file in ours.files} & {
        file.path.resolve() for file in theirs.files
    }
    if shared:
        raise ConfigError(
            f"{min(shared)} is both --generated and --reference; give two independent samples"
        )
    for name, source in zip(names, (ours, theirs), strict=True):
        if source.count < LEAST_TO_COMPARE:
            raise DataError(
                f"{name} holds {source.count} showers; at least {LEAST_TO_COMPARE} are needed, and some hundreds for a verdict"
            )
    if ours.shape != theirs.shape:
        one, other = ("x".join(map(str, source.shape)) for source in (ours, theirs))
        raise DataError(
            f"{names[0]} has showers of {one} cells and {names[1]} of {other}; give two files of one"
            " shape (`cloudgan validate RUN --against=FILE` cuts FILE to the shape of the run)"
        )
    refuse_other_particle(names[0], ours.particles, names[1], theirs.particles)
    return FilePair(ours, theirs, *names)


def refuse_other_particle(
    generated: str, ours: Collection[str], reference: str, theirs: Collection[str]
) -> None:
    """Refuses samples that state different primary particles; empty: a sample states none."""
    if ours and theirs and set(ours) != set(theirs):
        one, other = (" and ".join(sorted(found)) for found in (ours, theirs))
        raise DataError(
            f"{generated} has {one} showers and {reference} {other} showers, which differ in any"
            f" generator; give a reference of {one} showers"
        )


def generated_note(name: str, source: ShowerSource) -> tuple[str, ...]:
    """Returns the note for a reference that a generator of cloudgan wrote; empty: none is known to have."""
    texts = (file.info.attributes.get("", {}).get("source") for file in source.files)
    wrote = sorted({text for text in texts if isinstance(text, str) and text.startswith(GENERATED)})
    if not wrote:
        return ()
    return (f"No Monte Carlo: {name} was written by a {wrote[0]}; give showers of Geant4 instead.",)


def provenance_table(name: str, source: ShowerSource) -> Table:
    """Returns size, layout, unit and attributes of the files of a sample."""
    shown = source.files[:_MAX_FILES]
    rows = [row for file in shown for row in _file_rows(file.info)]
    if len(source.files) > len(shown):
        rows.append(("and further files", f"{len(source.files) - len(shown)}"))
    return Table(("property", "value"), tuple(rows), name, "ll")


def _file_rows(info: SourceInfo) -> Iterator[tuple[str, str]]:
    cells = "x".join(map(str, info.shape))
    yield "file", f"{info.name} ({info.bytes:,} bytes)"
    yield "showers", f"{info.records:,} of {cells} cells, {info.layout}"
    yield "unit", info.ecal_decided
    for dataset, attributes in info.attributes.items():
        for key, value in attributes.items():
            yield f"{dataset}: {key}" if dataset else key, _attribute_text(value)


def _attribute_text(value: Attribute) -> str:
    if isinstance(value, ArrayValue):
        items = [
            item.decode(errors="replace") if isinstance(item, bytes) else str(item)
            for item in array_of(value).ravel()[: _MAX_VALUES + 1]
        ]
        text = ", ".join(items[:_MAX_VALUES]) + ", ..." * (len(items) > _MAX_VALUES)
    else:
        text = value if isinstance(value, str) else ", ".join(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
