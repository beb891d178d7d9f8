"""`cloudgan convert`: showers from one layout to another."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.tensorflow_import import import_tensorflow
from cloudgan.core.errors import ConfigError


def convert(
    source: str,
    target: str,
    *,
    to: Literal["auto", "tfrecord", "hdf5"] = "auto",
    records_per_shard: int = 1024,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Converts showers to sharded TFRecord for training, or back to HDF5, without losing a bit.

    Args:
        source: HDF5 (public 3DGAN layout), published TFRecord, shards; a glob or a comma list.
        target: A folder or bucket (gs://, s3://, Azure blob URL) for shards, a name in .h5 for HDF5.
        to: tfrecord or hdf5 where the name does not tell.
        records_per_shard: Showers per shard.
        overwrite: Replace a finished target, once the new one is whole.
        json: Print the result as JSON.
    """
    from cloudgan.bucket_shards import BucketShards, fetched, is_bucket

    with shown_progress(as_json=json) as progress, fetched(source, progress) as here:
        import_tensorflow()
        from cloudgan.data.convert import convert as converted

        how: dict[str, Any] = {"records_per_shard": records_per_shard, "progress": progress}
        if is_bucket(target):
            _refuse_hdf5(target, to)
            bucket = BucketShards.at(target)
            bucket.refuse_existing(overwrite=overwrite)
            with tempfile.TemporaryDirectory(prefix="cloudgan-") as folder:
                made = converted(here, Path(folder) / "shards", to="tfrecord", **how)
                bucket.upload(made.path, progress)
        else:
            made = converted(here, target, to=to, overwrite=overwrite, **how)
    result = {"written": target, "showers": made.count, "told": list(made.told)}
    show(result, as_json=json)


def _refuse_hdf5(target: str, to: str) -> None:
    from cloudgan.data.source import HDF5_SUFFIXES

    if to == "hdf5" or target.endswith(HDF5_SUFFIXES):
        raise ConfigError(
            f"{target}: a bucket gets shards; for HDF5 name a local file such as showers.h5"
        )
