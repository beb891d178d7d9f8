"""Small files in every layout, written with h5py and TensorFlow directly, not with our writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cloudgan.data.hdf5 import open_hdf5
from cloudgan.data.manifest import (
    ARRAYS,
    ColumnInfo,
    Manifest,
    PartInfo,
    SourceInfo,
    StoredFile,
    read_manifest,
    write_manifest,
)
from cloudgan.data.store import Writer

SHAPE = (51, 51, 25)


def make_ecal(count: int, shape: tuple[int, int, int] = SHAPE, *, seed: int = 0) -> np.ndarray:
    """Sparse images around the centre whose sums are 2 % of `energies(count)`, GeV."""
    rng = np.random.default_rng(seed)
    x, y, z = shape
    ecal = np.zeros((count, *shape), np.float32)
    for image in ecal:
        cells = (
            rng.normal(x / 2, 2.5, 300).clip(0, x - 1).astype(int),
            rng.normal(y / 2, 2.5, 300).clip(0, y - 1).astype(int),
            rng.gamma(9, 1.2, 300).clip(0, z - 1).astype(int),
        )
        np.add.at(image, cells, rng.exponential(size=300))
    wanted = 0.02 * energies(count, seed=seed)
    return (ecal * (wanted / ecal.sum((1, 2, 3)))[:, None, None, None]).astype(np.float32)


def energies(count: int, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 1).uniform(10, 100, count).astype(np.float32)


def make_hdf5(path: Path, count: int = 20, *, per_gev: float = 50, **changes: Any) -> Path:
    """Writes the public layout; `changes` replace datasets, None leaves one out."""
    seed = changes.pop("seed", 0)
    shape = changes.pop("shape", SHAPE)
    ecal = make_ecal(count, shape, seed=seed) * np.float32(per_gev)
    theta = np.linspace(1.1, 2.0, count, dtype=np.float32)
    datasets: dict[str, Any] = {
        "ECAL": ecal,
        "energy": energies(count, seed=seed),
        "theta": theta,
        "mtheta": (0.2 + 0.87 * theta).astype(np.float32),
        "eta": (-np.log(np.tan(theta / 2))).astype(np.float64),
        "sum": ecal.sum((1, 2, 3)),
        "bins": np.arange(count * 6, dtype=np.int16).reshape(count, 6),
    } | changes
    with h5py.File(path, "w") as file:
        for name, data in datasets.items():
            if data is not None:
                file[name] = data
    return path


def make_store(folder: Path, *sources: Path, part: int = 6) -> Path:
    """Writes a store whose parts have `part` showers."""
    writer = Writer(folder, part_bytes=1)
    for source in sources:
        file = open_hdf5(source)
        writer.begin(file.info)
        for block in file.raw_blocks(part):
            writer.append(block)
    writer.finish()
    return folder


def make_any_store(folder: Path, parts: int = 3, *, records: int = 2, mark: str = "a") -> Path:
    """Writes a manifest and files of a few bytes each, which nobody can read as showers."""
    folder.mkdir(parents=True, exist_ok=True)
    infos = []
    for number in range(parts):
        paths = [folder / f"part-{number:05d}-{name}.npy" for name in (*ARRAYS, "energy")]
        for path in paths:
            path.write_bytes(f"{path.name} {mark}".encode() * 9)
        files = tuple(map(StoredFile.of, paths))
        infos.append(PartInfo(records=records, source=0, files=files))
    source = SourceInfo(
        name="s.h5",
        layout="3DGAN",
        bytes=1,
        modified_ns=0,
        records=records * parts,
        shape=SHAPE,
        ecal_per_gev=50,
        ecal_decided="so",
        columns=(ColumnInfo(name="energy", dtype="<f4"),),
    )
    whole = Manifest(records=records * parts, shape=SHAPE, parts=tuple(infos), sources=(source,))
    write_manifest(folder, whole)
    return folder


def flip(path: Path, byte: int, bit: int = 3) -> None:
    """Changes one bit of a file."""
    content = bytearray(path.read_bytes())
    content[byte] ^= 1 << bit
    path.write_bytes(content)


def reseal(folder: Path, name: str, array: np.ndarray) -> None:
    """Replaces an array and its checksums: damage that only the numbers show."""
    np.save(folder / name, array)
    manifest = read_manifest(folder)
    parts = tuple(
        part.model_copy(update={"files": tuple(StoredFile.of(folder / f.name) for f in part.files)})
        for part in manifest.parts
    )
    write_manifest(folder, manifest.model_copy(update={"parts": parts}))


@pytest.fixture
def public_hdf5(tmp_path: Path) -> Path:
    return make_hdf5(tmp_path / "public.h5")
