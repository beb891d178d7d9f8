"""`cloudgan convert`: showers from one layout to another."""

from __future__ import annotations

from typing import Literal

from cloudgan.cli.output import show, shown_progress
from cloudgan.cli.tensorflow_import import import_tensorflow


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
        target: A folder for shards, a name in .h5 for HDF5.
        to: tfrecord or hdf5 where the name does not tell.
        records_per_shard: Showers per shard.
        overwrite: Replace a finished target, once the new one is whole.
        json: Print the result as JSON.
    """
    with shown_progress(as_json=json) as progress:
        import_tensorflow()
        from cloudgan.data.convert import convert as converted

        made = converted(
            source,
            target,
            to=to,
            records_per_shard=records_per_shard,
            overwrite=overwrite,
            progress=progress,
        )
    show({"written": str(made.path), "showers": made.count, "told": list(made.told)}, as_json=json)
