"""Pydantic models as JSON files."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)


def write_json(path: Path, model: BaseModel) -> None:
    """Writes a model atomically.

    Raises:
        DataError: The folder is not writable or the disk is full; the old file is unchanged.
    """
    write_atomic(path, (model.model_dump_json(indent=2) + "\n").encode())


def read_json(path: Path, model: type[Model]) -> Model:
    """Reads a model.

    Raises:
        DataError: The file is missing or does not match the model; names the field.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(f"{path}: not a {model.__name__}: {first['msg']} at {field}") from error
