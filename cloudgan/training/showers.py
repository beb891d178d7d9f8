"""The showers of a run: found with their geometry, which the networks take, and made a store.

Imports NumPy and h5py, which a base installation lacks: commands import it where they begin to work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Progress
from cloudgan.data.batches import check_cells
from cloudgan.data.convert import convert, is_current
from cloudgan.data.manifest import SourceInfo, has_manifest, read_manifest
from cloudgan.data.sources import ShowerSource, open_source
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import find_profile
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.bucket_showers import BucketShowers, is_url

Found = Path | ShowerSource | BucketShowers
"""A store, or what `as_store` converts or downloads."""


def find_showers(
    config: RunConfig, folder: RunFolder, *, may_convert: bool = True
) -> tuple[RunConfig, Found]:
    """Returns a run with the networks of its showers' geometry, and the showers.

    Args:
        config: Of the run; `data.path` names the showers.
        folder: Of the run, where a copy of them can be.
        may_convert: False for a worker of a cluster, where each worker would convert the same files.
    """
    data, showers = config.data, _find(config, folder, may_convert=may_convert)
    if isinstance(showers, ShowerSource):
        config = with_geometry(config, showers.files[0].info)
        check_cells(config.model, showers.shape, data.path, showers.layout)
        return config, showers
    manifest = read_manifest(showers) if isinstance(showers, Path) else showers.manifest
    return with_geometry(config, manifest.sources[0]), showers


def _find(config: RunConfig, folder: RunFolder, *, may_convert: bool) -> Found:
    data, has_copy = config.data, has_manifest(folder.store)
    if has_manifest(data.path):
        return Path(data.path)
    if settings.is_supervised() and has_copy:
        return folder.store  # the supervisor downloaded them
    if is_url(data.path):
        if has_copy and folder.record_file.exists():  # of a run that began: needs no network
            return folder.store
        bucket = BucketShowers.from_url(data.path)
        return folder.store if bucket.is_downloaded(folder.store) else bucket
    if may_convert:
        return open_source(data.path, data.unit or "", data.binning or "")
    if has_copy:
        return folder.store
    raise ConfigError(
        f"--data={data.path}: workers on several machines need a store; run"
        f" `cloudgan convert {data.path} FOLDER` once and give --data=FOLDER"
    )


def with_geometry(config: RunConfig, info: SourceInfo) -> RunConfig:
    """Returns the configuration with the networks of the showers' geometry, where `info` states one.

    The cells are theirs unless the configuration has other cells than its preset, axes whose ends meet are periodic,
    energies over decades are conditioned on their logarithm, and what images do not show is no loss.
    """
    layout, model = info.dataset, config.model
    if layout is None:
        return config
    own = find_profile(model.networks).preset.image_shape
    keys: dict[str, Any] = {
        "periodic_axes": model.periodic_axes or layout.periodic_axes,
        "log_energy": model.log_energy or layout.spans_decades,
        "image_shape": info.shape if model.image_shape == own else model.image_shape,
    }
    if not layout.tilts:
        keys["loss_weights"] = model.loss_weights.model_copy(update={"angle": 0.0})
    changed = type(model).model_validate(model.model_dump() | keys)
    return config.model_copy(update={"model": changed})


def count_showers(showers: Found) -> int:
    """Returns the number of showers, held-out ones included."""
    return read_manifest(showers).records if isinstance(showers, Path) else showers.count


def as_store(showers: Found, folder: RunFolder, progress: Progress) -> Path:
    """Converts or downloads showers into the folder of a run, unless they are a store or were converted already."""
    if isinstance(showers, Path):
        return showers
    if isinstance(showers, BucketShowers):
        showers.download(folder.store, progress)
    elif not is_current(folder.store, showers):
        if folder.has_trained():
            raise ConfigError(
                f"{showers.files[0].path} has changed since {folder.path} was trained on it; restore the"
                " file, or give another --run"
            )
        convert(showers, folder.store, overwrite=True, progress=progress)
    return folder.store
