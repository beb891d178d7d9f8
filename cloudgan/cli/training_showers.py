"""From what `--data` names to a folder of shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.bucket_shards import BucketShards
    from cloudgan.core.config import RunConfig
    from cloudgan.core.progress import Progress
    from cloudgan.data.source import ShowerSource
    from cloudgan.run_folder import RunFolder


def find_showers(
    config: RunConfig, folder: RunFolder, *, may_convert: bool
) -> Path | ShowerSource | BucketShards:
    """Returns a folder of shards, or what has to be made one; writes nothing.

    Raises:
        DataError: The showers are not what they should be.
        ConfigError: They changed since the run began, or workers elsewhere would each convert them.
    """
    from cloudgan.bucket_shards import is_bucket
    from cloudgan.data.convert import is_current
    from cloudgan.data.manifest import has_manifest
    from cloudgan.data.source import open_source

    named = Path(config.data.path)
    if has_manifest(named):
        return named
    if settings.is_supervised() and has_manifest(folder.shards):
        return folder.shards  # whoever started us put them there
    if is_bucket(config.data.path):
        return _in_bucket(config.data.path, folder)
    if not may_convert:
        if has_manifest(folder.shards):
            return folder.shards
        raise ConfigError(
            f"{config.data.path} is not a folder of shards, which workers on several machines"
            f" need; run `cloudgan convert {config.data.path} FOLDER` once and give --data=FOLDER"
        )
    source = open_source(config.data.path)
    if is_current(folder.shards, source):
        return folder.shards
    if folder.record_file.exists():
        raise ConfigError(
            f"{config.data.path} is not what {folder.path} was trained on: a file has changed"
            " since. Put it back, or take another --run"
        )
    return source


def _in_bucket(url: str, folder: RunFolder) -> Path | BucketShards:
    """What the run was trained on is in its folder already, and needs no network."""
    from cloudgan.bucket_shards import BucketShards
    from cloudgan.data.manifest import has_manifest

    if folder.record_file.exists() and has_manifest(folder.shards):
        return folder.shards
    bucket = BucketShards.at(url)
    return folder.shards if bucket.is_in(folder.shards) else bucket


def count_showers(showers: Path | ShowerSource | BucketShards) -> int:
    """Returns how many there are, held-back ones included."""
    from cloudgan.data.manifest import read_manifest

    return read_manifest(showers).records if isinstance(showers, Path) else showers.count


def as_shards(
    showers: Path | ShowerSource | BucketShards, folder: RunFolder, progress: Progress
) -> Path:
    """Converts, or fetches, into the run's folder what is not a folder of shards yet.

    Raises:
        DataError: A record is damaged; names file and record.
    """
    if isinstance(showers, Path):
        return showers
    from cloudgan.data.source import ShowerSource

    if not isinstance(showers, ShowerSource):
        showers.download(folder.shards, progress)
        return folder.shards
    import_tensorflow()
    from cloudgan.data.convert import convert

    convert(showers, folder.shards, overwrite=True, progress=progress)
    return folder.shards
