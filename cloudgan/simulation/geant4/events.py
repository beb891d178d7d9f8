"""A finished shower as one line of text: what a worker answers and what stays of a killed run."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cloudgan.simulation.geant4.window import Cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PLACE, _ENERGY = np.dtype("<u4"), np.dtype("<f4")


class Event(NamedTuple):
    """A shower that Geant4 simulated.

    Attributes:
        number: Which one of those asked for, from 0.
        cells: What its image holds.
    """

    number: int
    cells: Cells


def to_line(event: Event) -> str:
    """Returns it as JSON, without the end of the line."""
    place, energy = event.cells
    return json.dumps(
        {
            "number": event.number,
            "place": _text(place.astype(_PLACE)),
            "energy_gev": _text(energy.astype(_ENERGY)),
        }
    )


def from_line(line: str | bytes) -> Event:
    """Reads what `to_line` wrote.

    Raises:
        ValueError: It is something else, or a part of it.
    """
    try:
        found = json.loads(line)
        place = np.frombuffer(base64.b64decode(found["place"]), _PLACE)
        energy = np.frombuffer(base64.b64decode(found["energy_gev"]), _ENERGY)
        number = int(found["number"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no event: {error}") from error
    if len(place) != len(energy):
        raise ValueError(f"no event: {len(place)} places and {len(energy)} energies")
    return Event(number, Cells(place.astype(np.int64), energy.astype(np.float32)))


def _text(array: NDArray[np.generic]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
