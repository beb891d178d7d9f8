"""Small files in every layout, written with h5py and TensorFlow directly, not with our writers."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from cloudgan.data.record_checksums import frame_record
from cloudgan.data.shards.manifest import Manifest, ShardInfo, read_manifest, write_manifest
from cloudgan.data.shards.shower_record import encode_block
from cloudgan.data.sources.hdf5 import Hdf5File
from cloudgan.data.tfrecord_format import record_extents

if TYPE_CHECKING:
    from pathlib import Path

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


def make_shards(folder: Path, *sources: Path, per_shard: int = 6) -> Path:
    """Writes a sharded set without TensorFlow."""
    folder.mkdir()
    shards, infos = [], []
    for number, source in enumerate(sources):
        file = Hdf5File(source)
        infos.append(file.info)
        for block in file.raw_blocks(per_shard):
            content = b"".join(map(frame_record, encode_block(block, file.info.columns)))
            name = f"showers-{len(shards):05d}.tfrecord"
            (folder / name).write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            shards.append(
                ShardInfo(
                    name=name,
                    records=len(block),
                    bytes=len(content),
                    sha256=digest,
                    source=number,
                )
            )
    total = sum(info.records for info in infos)
    write_manifest(
        folder,
        Manifest(records=total, shape=infos[0].shape, shards=tuple(shards), sources=tuple(infos)),
    )
    return folder


def replace_record(folder: Path, number: int, record: int, change: Any) -> None:
    """Writes a record as `change` returns it, with valid checksums in shard and manifest."""
    path = folder / f"showers-{number:05d}.tfrecord"
    content = path.read_bytes()
    records = [
        content[start : start + size] for start, size in zip(*record_extents(path), strict=True)
    ]
    records[record] = change(records[record])
    path.write_bytes(b"".join(map(frame_record, records)))
    reseal(folder)


def reseal(folder: Path, **changes: Any) -> None:
    """Writes a manifest that fits the shards as they are now; `changes` replace its fields."""
    manifest = read_manifest(folder)
    shards = tuple(
        shard.model_copy(
            update={"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        )
        for shard in manifest.shards
        for content in [(folder / shard.name).read_bytes()]
    )
    write_manifest(folder, manifest.model_copy(update={"shards": shards} | changes))


@pytest.fixture
def write_shards() -> Any:
    return make_shards


@pytest.fixture
def public_hdf5(tmp_path: Path) -> Path:
    return make_hdf5(tmp_path / "public.h5")


@pytest.fixture
def write_hdf5_file() -> Any:
    return make_hdf5


@pytest.fixture
def showers_in_gev() -> Any:
    return make_ecal
