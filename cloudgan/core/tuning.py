"""How a process computes where several ways give the same mathematics, and which was fastest here.

What was found is kept in the user's data folder, one file for each kind of machine and run. Some of
it TensorFlow reads once, when it is imported, so nothing here needs TensorFlow.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cloudgan.core.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_INSTRUCTIONS = "default"
INSTRUCTIONS_VARIABLE = "ONEDNN_MAX_CPU_ISA"
XLA_VARIABLE = "TF_XLA_FLAGS"
XLA_FLAG = "--tf_xla_auto_jit=2"
"""Compiles what runs on a GPU; on a CPU it does nothing without another flag."""


Formulation = Literal["published", "phases", "transforms"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


KERNELS = {None: "usual", "published": "published", "phases": "phase", "transforms": "generated"}
"""Forms of the layers, and what people are told of them."""


class Choice(_Frozen):
    """One way to compute; the defaults are what runs where nothing was measured."""

    formulation: Formulation | None = Field(
        None, description="form of the layers; None: as --kernels=auto takes it here"
    )
    instructions: str = Field(
        DEFAULT_INSTRUCTIONS,
        description="newest instruction set for oneDNN; default: all there are",
    )
    threads: int | None = Field(None, ge=1, description="of one operation; None: one per core")
    inter_threads: int | None = Field(
        None, ge=1, description="operations at the same time; None: as many as threads"
    )
    xla: bool = Field(False, description="XLA compiles what runs on a GPU")

    def environment(self) -> dict[str, str]:
        """Variables that TensorFlow reads when it is imported."""
        found = {}
        if self.instructions != DEFAULT_INSTRUCTIONS:
            found[INSTRUCTIONS_VARIABLE] = self.instructions
        if self.xla:
            found[XLA_VARIABLE] = XLA_FLAG
        return found

    def describe(self) -> str:
        """Such as ``usual kernels, instructions AVX2, 1 operation at a time``."""
        parts = [f"{KERNELS[self.formulation]} kernels"]
        if self.instructions != DEFAULT_INSTRUCTIONS:
            parts.append(f"instructions {self.instructions}")
        if self.threads:
            parts.append(f"{self.threads} threads")
        if self.inter_threads:
            plural = "s" if self.inter_threads > 1 else ""
            parts.append(f"{self.inter_threads} operation{plural} at a time")
        if self.xla:
            parts.append("XLA")
        return ", ".join(parts)


class Key(_Frozen):
    """What a finding holds for: on another machine, version or kind of run it says nothing."""

    processor: str
    cores: int
    accelerators: tuple[str, ...] = Field((), description="GPUs by name, one entry each")
    versions: dict[str, str]
    networks: str
    image_shape: tuple[int, int, int]
    precision: str
    batch_class: int = Field(description="power of four up to the batch of a replica")
    replicas: int = Field(1, description="of one process")
    asked: dict[str, str | int | bool | None] = Field(
        {}, description="fields of Choice that were not free, with their values"
    )

    def file_name(self) -> str:
        """Name of the file that keeps the finding."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16] + ".json"


class Trial(_Frozen):
    """One candidate, measured."""

    choice: Choice
    seconds: tuple[float, ...] = Field((), description="of each round's pass, in turns with others")
    ended: str = Field("", description="why it was not measured to the end; empty: it was")


class Finding(_Frozen):
    """What was tried, and the fastest."""

    schema_version: Literal[1] = 1
    key: Key
    found: str = Field(description="when, UTC, ISO 8601")
    batch: int = Field(description="showers of a pass; smaller than a step's, so that it is short")
    took_seconds: float
    choice: Choice
    trials: tuple[Trial, ...]


def path_of(data_folder: Path, key: Key) -> Path:
    """Where the finding for `key` is or would be."""
    return data_folder / "tuning" / key.file_name()


def read(data_folder: Path, key: Key) -> tuple[Finding | None, str]:
    """Returns what was found for `key`, and a sentence where a file is there but cannot be used."""
    path = path_of(data_folder, key)
    try:
        finding = Finding.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"{path} cannot be read ({error.strerror}), so it is ignored"
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        return None, f"{path} is damaged or of another version ({problem}), so it is ignored"
    if finding.key != key:
        return None, f"{path} is about something else, so it is ignored"
    return finding, ""


def write(data_folder: Path, finding: Finding) -> None:
    """Keeps a finding, whole or not at all.

    Raises:
        DataError: The disk is full or forbids it.
    """
    content = finding.model_dump_json(indent=1) + "\n"
    write_whole(path_of(data_folder, finding.key), content.encode())


def batch_class(batch: int) -> int:
    """Returns the largest power of four up to `batch`: within it the fastest way seldom changes."""
    found = 1
    while found * 4 <= batch:
        found *= 4
    return found
