"""The training data of a plan: what they are, and where the workers find them. Reads no shower."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import missing_file
from cloudgan.data.manifest import MANIFEST, Manifest, has_manifest, read_manifest
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.schema.config import DataConfig
from cloudgan.schema.plan import NO_DATA, Plan, Showers
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.simulation import SHOWERS
from cloudgan.speed.measured import PAPER_SHOWERS
from cloudgan.storage.bucket_showers import is_url
from cloudgan.storage.store import check_bucket

SIMULATED = "simulated by the workers"
"""Source of the showers of a plan whose workers simulate them."""
NO_SHOWERS = "none: the task of the grid has no showers"
OF_THE_SEARCH = "those of the search"
"""Source of the showers of a plan whose workers train the trials of a search."""
NOT_READ = frozenset({NO_SHOWERS, SIMULATED, OF_THE_SEARCH})
"""Sources of plans whose workers read no showers that this machine knows."""
KB_PER_SHOWER = 4.2
"""Size in a store, measured on the parametric source and Geant4's electrons (docs/decisions.md)."""
_BITS_PER_SECOND = 100e6
_FREE_INGRESS = ("gs://", "s3://", "https://")


class Found(NamedTuple):
    """Training data.

    Attributes:
        showers: The data where they are.
        digest: Identity of data on this machine, which remote workers need in a store; "": of others.
    """

    showers: Showers
    digest: str = ""


def find_showers(data: DataConfig) -> Found:
    """Describes the training data of a run."""
    if not data.path:
        return Found(Showers(source=NO_DATA, records=PAPER_SHOWERS, gib=gib_of(PAPER_SHOWERS)))
    if data.path.startswith(CLAIM) or is_url(data.path):
        return Found(Showers(source=data.path))
    if not set("*?[,") & set(data.path) and not Path(data.path).exists():
        raise missing_file(Path(data.path))
    if has_manifest(data.path):
        folder = Path(data.path)
        digest = _digest((folder / MANIFEST).read_bytes())
        return Found(of_manifest(data.path, read_manifest(folder)), digest)
    from cloudgan.data.sources import open_source

    unit = data.unit or ""
    source = open_source(data.path, unit, data.binning or "")
    identity: list[object] = [
        (one.info.name, one.info.bytes, one.info.modified_ns) for one in source.files
    ]
    identity += [unit] if unit else []
    identity += [one.info.dataset for one in source.files if one.info.dataset]
    gib = round(gib_of(source.count) * 2**30) / 2**30
    showers = Showers(source=data.path, records=source.count, gib=gib, convert=True)
    return Found(showers, _digest(repr(identity).encode()))


def of_manifest(source: str, manifest: Manifest) -> Showers:
    """Describes the showers of a store, here or in a bucket."""
    size = sum(file.bytes for file in manifest.files)
    return Showers(source=source, records=manifest.records, gib=size / 2**30, gib_is_exact=True)


def gib_of(showers: int) -> float:
    """Returns the size of showers in a store."""
    return showers * KB_PER_SHOWER * 1000 / 2**30


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def in_store(found: Found, store: str) -> Showers:
    """Returns the data as remote workers read them: local data are uploaded to the store of their run."""
    showers, source = found.showers, found.showers.source
    if source.startswith(CLAIM) and not store.startswith(CLAIM):
        raise ConfigError(
            f"--data={source} is a folder of the pods' volume claim, and --store is {store}; give"
            " --store=pvc:CLAIM, or other --data"
        )
    if is_url(source):
        check_bucket(source)
    if is_url(source) and not store.startswith(f"{source.partition('://')[0]}://"):
        raise ConfigError(
            f"--data={source} and --store={store} are in different clouds: each worker would pay for"
            f" the download at every start. Copy the data once with `cloudgan convert {source}"
            f" {store.rstrip('/')}/data/copy`, and give the copy as --data"
        )
    if not found.digest:
        return showers
    if store.startswith(CLAIM):
        raise ConfigError(
            f"--data={source} is on this machine, and only pods can write to {store}; copy a store"
            f" of showers there and give --data={CLAIM}FOLDER, or give a bucket as --store"
        )
    target = f"{store.rstrip('/')}/data/{found.digest}"
    is_free = "://" not in target or target.startswith(_FREE_INGRESS)
    upload = {
        "upload_to": target,
        "minutes": (showers.gib or 0.0) * 2**30 * 8 / _BITS_PER_SECOND / 60,
        "usd": 0.0 if is_free else None,
    }
    return showers.model_copy(update=upload)


def path_for_workers(showers: Showers, folder: RunFolder) -> str | None:
    """Returns the path of the data for the workers; None: they read none, or those of a search."""
    source = showers.source
    if source in NOT_READ:
        return None
    if source == NO_DATA:
        return ""
    if is_url(source):
        return source
    if source.startswith(CLAIM):
        return source.removeprefix(CLAIM).strip(
            "/"
        )  # a folder, which workers resolve in their store
    if showers.upload_to:
        return showers.upload_to
    return str((Path(source) if has_manifest(source) else folder.store).resolve())


def simulated_data(plan: Plan) -> str:
    """Returns the folder or URL of the simulated shards, for `--data`."""
    store = CLAIM if plan.store.startswith(CLAIM) else f"{plan.store.rstrip('/')}/"
    return f"{store}runs/{plan.run}/{SHOWERS}"
