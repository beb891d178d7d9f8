"""Two files of showers, one to be judged and one to judge it by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.origin import origin_table
from cloudgan.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.data.source import ShowerSource
    from cloudgan.reports.table import Table
    from cloudgan.validation.observables import Observables


@dataclass(frozen=True)
class FilePair:
    """Two sources of showers with images of one shape, and what people call them."""

    generated: ShowerSource
    reference: ShowerSource
    generated_name: str
    reference_name: str

    def measure(self, at_most: int, progress: Progress) -> tuple[Observables, Observables]:
        """Reads and measures both, at most so many showers of each, block by block.

        Raises:
            DataError: A file is damaged, or both hold the same showers.
        """
        from cloudgan.validation.observables import observe_source

        measured = []
        for name, source in (
            (self.reference_name, self.reference),
            (self.generated_name, self.generated),
        ):
            progress.start(f"reading {name}", source.count, "showers")
            measured.append(observe_source(source, name, at_most=at_most, progress=progress))
        reference, generated = measured
        if _are_copies(generated, reference):
            raise DataError(
                f"{self.generated_name} and {self.reference_name} hold the same showers: one is a"
                " copy of the other. A sample compared with itself says nothing; give another one"
            )
        return generated, reference

    def origins(self) -> tuple[Table, Table]:
        """What both tell of themselves."""
        return (
            origin_table(f"Generated: {self.generated_name}", self.generated),
            origin_table(f"Reference: {self.reference_name}", self.reference),
        )


def open_pair(generated: str, reference: str, *, least: int) -> FilePair:
    """Opens two files, globs or folders, and finds what speaks against comparing them.

    Args:
        generated: The sample under test.
        reference: Monte Carlo.
        least: Fewer showers are refused.

    Raises:
        ConfigError: Both are the same.
        DataError: One is missing or damaged, too small, or the images differ in shape.
    """
    from cloudgan.data.source import open_source

    ours, theirs = open_source(generated), open_source(reference)
    names = _names(generated, reference)
    shared = {file.path.resolve() for file in ours.files} & {
        file.path.resolve() for file in theirs.files
    }
    if shared:
        raise ConfigError(
            f"{min(shared)} is both --generated and --reference: a sample compared with itself says"
            " nothing; give another file as one of them"
        )
    for name, source in zip(names, (ours, theirs), strict=True):
        if source.count < least:
            raise DataError(
                f"{name} holds {source.count} showers; at least {least} are needed: with fewer, two"
                " halves of the Monte Carlo differ as much as a poor generator does from it"
            )
    if ours.shape != theirs.shape:
        one, other = ("x".join(map(str, source.shape)) for source in (ours, theirs))
        raise DataError(
            f"{names[0]} has showers of {one} cells and {names[1]} of {other}; give two files of"
            " one shape (`cloudgan validate RUN --against=FILE` cuts FILE to what a run generates)"
        )
    return FilePair(ours, theirs, *names)


def _names(generated: str, reference: str) -> tuple[str, str]:
    """The names of the files, with their folders where they would be the same."""
    ours, theirs = Path(generated).name, Path(reference).name
    return (generated, reference) if ours == theirs else (ours, theirs)


def _are_copies(generated: Observables, reference: Observables) -> bool:
    import numpy as np

    return len(generated) == len(reference) and all(
        np.array_equal(getattr(generated, name), getattr(reference, name))
        for name in ("energy_gev", "sum_gev", "hits", "largest_gev")
    )
