"""Brings the showers of a run to the disk of this machine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.bucket_shards import BucketShards, is_bucket
from cloudgan.core.errors import ConfigError

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.worker.place import Place


def stage(place: Place, progress: Progress) -> None:
    """Fetches the shards that run.yaml names, unless they are a folder of this machine.

    A URL is fetched as it is, a relative path from the store. They become the run's own folder of
    shards: `data.path` stays as it was asked for, so that the run stays the same run wherever its
    data lie.

    Raises:
        ConfigError: No showers are named.
        DataError: There are none, or they are not what their manifest says.
        StoreError: The store failed.
    """
    named = place.config.data.path
    if not named:
        raise ConfigError("run.yaml names no showers; set data.path to a folder of shards or a URL")
    if Path(named).is_absolute():
        return
    url = named if is_bucket(named) else f"{place.store_url}/{named}"
    target = place.work / "data" / hashlib.sha256(url.encode()).hexdigest()[:16]
    target.mkdir(parents=True, exist_ok=True)
    BucketShards.at(url).download(target, progress)
    shards = place.folder.shards
    shards.parent.mkdir(parents=True, exist_ok=True)
    shards.unlink(missing_ok=True)
    shards.symlink_to(target, target_is_directory=True)
