"""The training data of a launched run: what must be made and moved, before anything is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.bucket_shards import BucketShards, is_bucket
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.plan import Showers
from cloudgan.kubernetes.manifests import CLAIM
from cloudgan.stores import open_store

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.run_folder import RunFolder

PAPER_SHOWERS = 124_987
NONE = "none named: the paper's are assumed"
KB_PER_SHOWER = 4.2
"""As shards; measured on the parametric source and on Geant4's electrons (docs/decisions.md)."""
_BITS_PER_SECOND = 100e6
_FREE_TO_ENTER = ("gs://", "s3://", "https://")


def look_at(data: str, store: str, *, moves: bool) -> Showers:
    """Finds what a run's data are, without reading showers.

    Args:
        data: As `--data`; empty where nobody said, which a plan may.
        store: Of the run.
        moves: Whether the workers are elsewhere, so that local data must go to the store.

    Raises:
        ConfigError: They are in another kind of store, or cannot be moved.
        DataError: They are not what they should be.
    """
    if not data:
        gib = PAPER_SHOWERS * KB_PER_SHOWER * 1000 / 2**30
        return Showers(source=NONE, records=PAPER_SHOWERS, gib=gib)
    if data.startswith(CLAIM):
        if not store.startswith(CLAIM):
            raise ConfigError(
                f"--data={data} is a folder of the claim that pods have as their store, and --store"
                f" is {store}; give --store=pvc:CLAIM, or data that are elsewhere"
            )
        return Showers(source=data)
    if is_bucket(data):
        _check_kind(data, store, moves=moves)
        return Showers(source=data)
    if not moves:
        return _local(data, None)
    if store.startswith(CLAIM):
        raise ConfigError(
            f"--data={data} is on this machine, and only pods can write to {store}; copy shards"
            f" there and name them as --data={CLAIM}FOLDER, or take a bucket as --store"
        )
    return _local(data, store)


def path_for_workers(showers: Showers, folder: RunFolder, *, moves: bool) -> str:
    """Returns where the workers will find the data."""
    from cloudgan.data.manifest import has_manifest

    if showers.source == NONE:
        return ""
    if is_bucket(showers.source) or showers.source.startswith(CLAIM):
        return _in_claim(showers.source)
    if moves:
        return showers.upload_to or ""
    found = Path(showers.source)
    return str((found if has_manifest(found) else folder.shards).resolve())


def _in_claim(source: str) -> str:
    """A bucket's URL as it is; of a claim the folder in it, which workers look up in their store."""
    return source if is_bucket(source) else source.removeprefix(CLAIM).strip("/")


def make_ready(plan_showers: Showers, folder: RunFolder, progress: Progress) -> Path | None:
    """Converts where that was planned, and uploads what the store lacks; again is cheap.

    Returns:
        The folder of shards here; None where the data were elsewhere already.

    Raises:
        DataError: A record is damaged; names file and record.
    """
    from cloudgan.data.manifest import has_manifest

    if is_bucket(plan_showers.source) or plan_showers.source.startswith(CLAIM):
        return None
    shards = Path(plan_showers.source)
    if not has_manifest(shards):
        from cloudgan.cli.tensorflow_import import import_tensorflow
        from cloudgan.data.convert import convert, is_current
        from cloudgan.data.source import open_source

        source = open_source(plan_showers.source)
        shards = folder.shards
        if not is_current(shards, source):
            import_tensorflow()
            convert(source, shards, overwrite=True, progress=progress)
    if plan_showers.upload_to:
        there = BucketShards(open_store(plan_showers.upload_to))
        if not there.holds(shards):
            there.upload(shards, progress)
    return shards


def _local(data: str, store: str | None) -> Showers:
    if not set("*?[,") & set(data) and not Path(data).exists():
        raise DataError(f"--data={data}: there is no such file or folder")
    from cloudgan.data.manifest import MANIFEST, has_manifest, read_manifest

    if has_manifest(data):
        folder = Path(data)
        manifest = read_manifest(folder)
        size = sum(shard.bytes for shard in manifest.shards)
        digits = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:16]
        return _showers(data, manifest.records, size, digits, store, converted=True)
    from cloudgan.data.source import open_source

    source = open_source(data)
    seen = [(one.info.name, one.info.bytes, one.info.modified_ns) for one in source.files]
    digits = hashlib.sha256(repr(seen).encode()).hexdigest()[:16]
    size = round(source.count * KB_PER_SHOWER * 1000)
    return _showers(data, source.count, size, digits, store, converted=False)


def _showers(
    data: str, records: int, size: int, digits: str, store: str | None, *, converted: bool
) -> Showers:
    target = f"{store.rstrip('/')}/data/{digits}" if store else None
    return Showers(
        source=data,
        records=records,
        gib=size / 2**30,
        gib_is_exact=converted,
        upload_to=target,
        convert=not converted,
        minutes=size * 8 / _BITS_PER_SECOND / 60 if target else None,
        usd=0.0 if target and ("://" not in target or target.startswith(_FREE_TO_ENTER)) else None,
    )


def _check_kind(data: str, store: str, *, moves: bool) -> None:
    kind = data.partition("://")[0]
    if moves and not store.startswith(f"{kind}://"):
        raise ConfigError(
            f"--data={data} and --store={store} are kept by different clouds: each worker would pay"
            f" to fetch them on every start. Copy them once: cloudgan convert {data}"
            f" {store.rstrip('/')}/data/copy, and name that as --data"
        )
