"""The showers of a run: finds them, counts them, and makes shards of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.data.sources.source import ShowerSource
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.run_folder import RunFolder
    from cloudgan.storage.bucket_shards import BucketShards


def find_showers(
    config: RunConfig, folder: RunFolder, *, may_convert: bool
) -> Path | ShowerSource | BucketShards:
    """Returns the folder of shards of a run's showers, or the source to convert or to download.

    Args:
        config: The run's configuration; `data.path` names the showers.
        folder: Of the run.
        may_convert: False for a worker of a cluster, where each worker would convert the same files.

    Raises:
        DataError: The showers are missing or damaged.
        ConfigError: They changed since the run began, or `may_convert` forbids a conversion.
    """
    from cloudgan.data.shards.manifest import has_manifest
    from cloudgan.data.sources.convert import is_current
    from cloudgan.data.sources.source import open_source
    from cloudgan.storage.bucket_shards import is_url

    named = Path(config.data.path)
    if has_manifest(named):
        return named
    if settings.is_supervised() and has_manifest(folder.shards):
        return folder.shards  # the supervisor downloaded them
    if is_url(config.data.path):
        return _in_bucket(config.data.path, folder)
    if not may_convert:
        if has_manifest(folder.shards):
            return folder.shards
        raise ConfigError(
            f"--data={config.data.path}: workers on several machines need a folder of shards; run"
            f" `cloudgan convert {config.data.path} FOLDER` once and give --data=FOLDER"
        )
    source = open_source(config.data.path)
    if is_current(folder.shards, source):
        return folder.shards
    if folder.has_trained():
        raise ConfigError(
            f"{config.data.path} has changed since {folder.path} was trained on it; restore the file,"
            " or give another --run"
        )
    return source


def _in_bucket(url: str, folder: RunFolder) -> Path | BucketShards:
    """Prefers the copy in the folder of a run that began, which needs no network."""
    from cloudgan.data.shards.manifest import has_manifest
    from cloudgan.storage.bucket_shards import BucketShards

    if folder.record_file.exists() and has_manifest(folder.shards):
        return folder.shards
    bucket = BucketShards.from_url(url)
    return folder.shards if bucket.is_downloaded(folder.shards) else bucket


def count_showers(showers: Path | ShowerSource | BucketShards) -> int:
    """Returns the number of showers, held-out ones included."""
    from cloudgan.data.shards.manifest import read_manifest

    return read_manifest(showers).records if isinstance(showers, Path) else showers.count


def as_shards(
    showers: Path | ShowerSource | BucketShards, folder: RunFolder, progress: Progress
) -> Path:
    """Converts or downloads showers into the run's folder, unless they are a folder of shards.

    Raises:
        DataError: A record is damaged; the message names the file and the record.
    """
    if isinstance(showers, Path):
        return showers
    from cloudgan.data.sources.source import ShowerSource

    if not isinstance(showers, ShowerSource):
        showers.download(folder.shards, progress)
        return folder.shards
    import_tensorflow()
    from cloudgan.data.sources.convert import convert

    convert(showers, folder.shards, overwrite=True, progress=progress)
    return folder.shards
