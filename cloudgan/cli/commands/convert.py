"""`cloudgan convert`: showers from one layout to another."""

from __future__ import annotations

from typing import Literal

from cloudgan.api import showers as api
from cloudgan.cli.views.output import print_result, progress_bars
from cloudgan.core.errors import ConfigError
from cloudgan.schema.ecal_unit import EcalUnit


def convert(
    source: str,
    target: str = "",
    *,
    unit: EcalUnit | None = None,
    to: Literal["auto", "tfrecord", "hdf5"] = "auto",
    records_per_shard: int = 1024,
    overwrite: bool = False,
    verify: bool = False,
    json: bool = False,
) -> None:
    """Converts showers to sharded TFRecord for training, or back to HDF5; the data stay bit-identical.

    Empty showers are left out and counted.

    Args:
        source: HDF5 (public 3DGAN layout), published TFRecord, or shards: path, glob, comma list, or
            bucket.
        target: Folder or bucket (gs://, s3://, Azure Blob URL) for shards, a file .h5 for HDF5, or a
            file .parquet for a table of hits.
        unit: Unit of ECAL in files that state none, where several fit.
        to: tfrecord or hdf5; auto decides by the suffix of the target.
        records_per_shard: Showers per shard.
        overwrite: Replace an existing target when the new one is complete.
        verify: Read every shower of SOURCE, compare it with its checksums and count empty ones; writes
            nothing.
        json: Print the result as JSON.
    """
    if verify == bool(target):
        valid = "convert --verify SOURCE, or convert SOURCE TARGET"
        given = f"--verify with the target {target}" if verify else "no target"
        raise ConfigError(f"{given} was given; valid: cloudgan {valid}")
    with progress_bars(as_json=json) as progress:
        if verify:
            checked = api.verify_showers(source, unit=unit, progress=progress)
            result = {"verified": checked.path, "showers": checked.showers} | checked.facts
            print_result(result, as_json=json)
            return
        file = api.convert(
            source,
            target,
            unit=unit,
            to=to,
            records_per_shard=records_per_shard,
            overwrite=overwrite,
            progress=progress,
        )
    print_result({"written": file.path, "showers": file.showers} | file.facts, as_json=json)
