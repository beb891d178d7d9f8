"""A model of pydantic as a JSON file, written whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from cloudgan.core.errors import DataError
from cloudgan.core.whole_file import write_whole

if TYPE_CHECKING:
    from pathlib import Path

Model = TypeVar("Model", bound=BaseModel)


def write_json(path: Path, model: BaseModel) -> None:
    """Writes a model beside and renames it, so that readers see the old or the new file.

    Raises:
        DataError: The disk is full or forbids it; the old file is as it was.
    """
    write_whole(path, (model.model_dump_json(indent=2) + "\n").encode())


def read_json(path: Path, model: type[Model]) -> Model:
    """Reads a model.

    Raises:
        DataError: The file is missing, is no JSON, or does not hold such a model; names the place.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(f"{path}: not a {model.__name__}: {first['msg']} at {place}") from error
