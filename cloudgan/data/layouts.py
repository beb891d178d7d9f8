"""Layouts of HDF5 files of showers: one row per public layout, and dataset.yaml, a row that a user writes.

Recognised by their keys, checked by shape and numbers. Images are (N, X, Y, Z) with the depth last: x is along
the first lateral axis or the radius, y along the second or the angle about the axis.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from cloudgan.core.document import Document
from cloudgan.core.documents import explain, read_bytes, read_yaml
from cloudgan.core.errors import DataError
from cloudgan.schema.simulation import EcalUnit

Axes = Literal["xyz", "xzy", "yxz", "yzx", "zxy", "zyx"]

INIT_COMMAND = "cloudgan init dataset"
"""Drafts a dataset.yaml from a file."""
OWN = "dataset.yaml"
_MOST_LAYERS, _MOST_BINS = 1024, 1024


class Bins(Document):
    """Layers with the same cells: edges along x (mm), and how many equal cells fill y."""

    x: tuple[float, ...] = Field(min_length=2, max_length=_MOST_BINS)
    y: int = Field(ge=1, le=_MOST_BINS)
    layers: int = Field(1, ge=1, le=_MOST_LAYERS)

    @field_validator("x")
    @classmethod
    def _rise(cls, edges: tuple[float, ...]) -> tuple[float, ...]:
        if not all(math.isfinite(one) and one < other for one, other in pairwise(edges)):
            raise ValueError("edges of cells must rise")
        return edges

    @property
    def voxels(self) -> int:
        """Cells of one layer."""
        return (len(self.x) - 1) * self.y


class Geometry(Document):
    """Where cells are. Without bins the file's own axes are the cells; in a cylinder the ends of y meet."""

    kind: Literal["cartesian", "cylindrical"] = "cartesian"
    bins: tuple[Bins, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """Cells of the regular grid that all bins fit: the edges of all layers, and a common multiple of the angles."""
        edges = {edge for each in self.bins for edge in each.x}
        y = math.lcm(*(each.y for each in self.bins))
        return len(edges) - 1, y, sum(each.layers for each in self.bins)

    @property
    def voxels(self) -> int:
        """Cells of the detector, which are fewer than those of the grid where layers differ."""
        return sum(each.voxels * each.layers for each in self.bins)

    @property
    def is_regular(self) -> bool:
        """Whether the grid has the cells of the detector."""
        return not self.bins or self.voxels == math.prod(self.shape)


class Keys(Document):
    """Datasets of a file. Several datasets of cells: one per layer."""

    cells: Annotated[
        tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)
    ] = Field(min_length=1, max_length=_MOST_LAYERS)
    energy: str = Field(min_length=1)
    theta: str | None = Field(None, min_length=1, description="polar angle in rad; null: constant")


class Units(Document):
    """Units of the cells and of the primary energy."""

    cells: Literal[EcalUnit, "keV"]
    energy: Literal["GeV", "MeV"]


class Layout(Document):
    """What a file holds, where, and in which units; dataset.yaml has the first five keys."""

    keys: Keys
    axes: Axes = Field(description="order of the axes of the cells in the file, after the showers")
    unit: Units
    particle: str | None = Field(None, max_length=40)
    geometry: Annotated[
        Geometry, BeforeValidator(lambda v: {"kind": v} if isinstance(v, str) else v)
    ] = Geometry()
    theta_deg: float = Field(90.0, gt=0, lt=180, description="of all showers, without keys.theta")
    threshold_mev: float | None = Field(None, ge=0, description="generated cells below are zero")
    name: str = OWN
    voxels: int | None = Field(None, description="cells of the layout, if it is for one detector")
    energy_shape: tuple[int, ...] = Field((), description="of one shower's energy, as it was read")
    spans_decades: bool = Field(False, description="whether energies differ by a factor of 30")

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        layers, cells = self.geometry.shape[2] if self.geometry.bins else 1, len(self.keys.cells)
        if cells > 1 and cells != layers:
            raise ValueError(f"keys.cells names {cells} datasets, and geometry has {layers} layers")
        if self.geometry.bins and not self.axes.startswith("z"):
            raise ValueError(
                f"axes is {self.axes}; cells that follow geometry.bins are in layers: zyx, or zxy"
            )
        return self

    @property
    def group(self) -> str:
        """Group of the file that holds the datasets."""
        return str(Path(self.keys.cells[0]).parent)

    def key_of(self, column: str) -> str:
        """Returns the dataset of a column of the showers."""
        key = {"energy": self.keys.energy, "theta": self.keys.theta}.get(column)
        return key or str(Path(self.group) / column)

    @property
    def tilts(self) -> bool:
        """Whether images show the angle of the primary: its axis tilts in the y-z plane."""
        return (
            self.keys.theta is not None
            and self.geometry.kind == "cartesian"
            and self.geometry.is_regular
        )

    @property
    def needs_axes_check(self) -> bool:
        """Whether showers must be longest along z: a user stated the axes of a block of cells."""
        return self.name == OWN and self.geometry == Geometry()

    @property
    def periodic_axes(self) -> tuple[Literal["x", "y", "z"], ...]:
        """Axes whose ends meet."""
        return ("y",) if self.geometry.kind == "cylindrical" else ()

    def describe(self) -> tuple[str, ...]:
        """Returns sentences about the geometry and the angle, and what a regular grid loses."""
        geometry, lines = self.geometry, []
        if geometry.bins and not geometry.is_regular:
            cells = "x".join(map(str, geometry.shape))
            lines.append(
                f"Its {geometry.shape[2]} layers have {geometry.voxels} cells, which are trained on as a grid of"
                f" {cells}: each is one cell of the grid, at its least x and y, and generated energy returns to the"
                " cell around it. No energy is lost; the place within a wide cell is."
            )
        if geometry.kind == "cylindrical":
            lines.append(
                "Cells are in x = radius, y = angle about the axis, whose ends meet, and depth."
            )
        if self.keys.theta is None:
            lines.append(
                f"It has no angle of incidence: all showers have {self.theta_deg:g} degrees, and checks of the angle"
                " do not apply."
            )
        return tuple(lines)


def _row(name: str, keys: dict[str, Any], axes: Axes, unit: tuple[str, str], **more: Any) -> Layout:
    units = {"cells": unit[0], "energy": unit[1]}
    return Layout.model_validate({"name": name, "keys": keys, "axes": axes, "unit": units, **more})


def calochallenge(geometry: Geometry | None = None, **more: Any) -> Layout:
    """The layout of CaloChallenge (README.md and code/evaluate.py of https://github.com/CaloChallenge/homepage).

    Voxels are flat: radius fastest, then angle, then layer; the binning XML has their number. The thresholds of
    evaluate.py are 10 keV for dataset 1, and 0.5 keV over the sampling fraction 0.033 for 2 and 3.
    """
    geometry = geometry or Geometry(kind="cylindrical")
    threshold = 0.5e-3 / 0.033 if geometry.is_regular else 10e-3
    keys = {"cells": "showers", "energy": "incident_energies"}
    more = {"geometry": geometry, "threshold_mev": threshold, **more}
    return _row("CaloChallenge", keys, "zyx", ("MeV", "MeV"), **more)


PUBLIC = _row("3DGAN", {"cells": "ECAL", "energy": "energy"}, "xyz", ("GeV*50", "GeV"))
"""Of the files of 3DGAN: their unit is detected, their angle may miss, and the manifest names no layout."""
_CALOGAN_EDGES = {cells: tuple(480.0 * i / cells for i in range(cells + 1)) for cells in (3, 12)}
LAYOUTS: tuple[Layout, ...] = (
    calochallenge(),
    # Keys and units: models/train.py of https://github.com/hep-lbdl/CaloGAN. 480 mm along both axes.
    _row(
        "CaloGAN",
        {"cells": ["layer_0", "layer_1", "layer_2"], "energy": "energy"},
        "zxy",
        ("MeV", "GeV"),
        geometry={
            "bins": [{"x": _CALOGAN_EDGES[x], "y": y} for x, y in ((3, 96), (12, 12), (12, 6))]
        },
    ),
    # training_data/create_hdf5.py of https://github.com/FLC-QU-hep/getting_high: photons, half a MIP is 0.1 MeV.
    _row(
        "getting_high / BIB-AE",
        {"cells": "30x30/layers", "energy": "30x30/energy"},
        "zxy",
        ("MeV", "GeV"),
        particle="photon",
        threshold_mev=0.1,
    ),
    # Geant4's example Par04, and LEMURS, which continues it: a cylinder about the particle's direction.
    _row(
        "Par04 / LEMURS",
        {"cells": "showers", "energy": "incident_energy", "theta": "incident_theta"},
        "xyz",
        ("MeV", "MeV"),
        geometry="cylindrical",
    ),
)


def read_layouts(path: str) -> tuple[Layout, ...]:
    """Reads the layouts of `--binning`: those of a binning XML, one for each of its particles, or a dataset.yaml."""
    file = Path(path)
    try:
        if file.suffix.lower() == ".xml":
            return _of_binning(file)
        given = read_yaml(file, DataError)
        return (Layout.model_validate(given),)
    except ValidationError as error:
        raise DataError(
            f"{path}: {explain(error.errors(include_url=False)[0])}; needed are keys (cells, energy), axes, unit,"
            f" particle and geometry: `{INIT_COMMAND} FILE.h5` drafts them"
        ) from error


def _of_binning(path: Path) -> tuple[Layout, ...]:
    """Reads `<Bins><Bin pid= name=><Layer id= r_edges= n_bin_alpha=/>`; a layer with one edge has no cells."""
    try:
        root = ET.fromstring(read_bytes(path))  # noqa: S314 - expat limits the expansion of entities
        found = []
        for particle in root:
            rings = [
                (
                    tuple(float(edge) for edge in one.attrib["r_edges"].split(",")),
                    int(one.attrib["n_bin_alpha"]),
                )
                for one in sorted(particle, key=lambda one: int(one.attrib["id"]))
            ]
            known = [ring for ring in rings if len(ring[0]) > 1]
            bins = tuple(Bins(x=x, y=y, layers=len(list(same))) for (x, y), same in groupby(known))
            geometry = Geometry(kind="cylindrical", bins=bins)
            found.append(
                calochallenge(geometry, particle=particle.attrib["name"], voxels=geometry.voxels)
            )
    except (ET.ParseError, KeyError, ValueError) as error:
        if isinstance(error, ValidationError):
            raise
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f"{path} is not a binning of CaloChallenge: {what}; expected <Bins> with a <Bin name=...> of"
            ' <Layer id="0" r_edges="0,5,10" n_bin_alpha="10"/>'
        ) from error
    if not found or not all(one.geometry.bins for one in found):
        raise DataError(f"{path} has no layer with cells: r_edges needs two edges at least")
    return tuple(found)
