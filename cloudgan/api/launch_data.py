"""Training data of a launched run: finds, converts and uploads them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.api.join_plan import JOINED
from cloudgan.api.ranks import check_mpi
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.hardware import this_machine
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.schema.launch import LOCAL
from cloudgan.schema.plan import Showers
from cloudgan.storage.bucket_shards import BucketShards, is_url
from cloudgan.storage.store import open_store

if TYPE_CHECKING:
    from cloudgan.core.progress import Progress
    from cloudgan.data.sources.source import ShowerSource
    from cloudgan.schema.plan import Plan
    from cloudgan.schema.run_folder import RunFolder

SIMULATED = "simulated by the workers"
"""Source of the showers of a plan whose workers simulate them."""
NO_SHOWERS = "none: the task of the grid has no showers"
PAPER_SHOWERS = 124_987
NO_DATA = "none given: the paper's are assumed"
KB_PER_SHOWER = 4.2
"""Size as shards, measured on the parametric source and Geant4's electrons (docs/decisions.md)."""
_BITS_PER_SECOND = 100e6
_FREE_INGRESS = ("gs://", "s3://", "https://")


def find_data(data: str, store: str, *, moves: bool) -> Showers:
    """Describes a run's training data without reading showers.

    Args:
        data: Value of `--data`; empty is valid in a plan.
        store: Store of the run.
        moves: Whether the workers are remote, so that local data must be uploaded.

    Raises:
        ConfigError: The data are in another kind of store, or cannot be uploaded.
        DataError: The data are missing or damaged.
    """
    if not data:
        gib = PAPER_SHOWERS * KB_PER_SHOWER * 1000 / 2**30
        return Showers(source=NO_DATA, records=PAPER_SHOWERS, gib=gib)
    if data.startswith(CLAIM):
        if not store.startswith(CLAIM):
            raise ConfigError(
                f"--data={data} is a folder of the pods' volume claim, and --store is {store}; give"
                " --store=pvc:CLAIM, or other --data"
            )
        return Showers(source=data)
    if is_url(data):
        _check_kind(data, store, moves=moves)
        return Showers(source=data)
    if not moves:
        return _local(data, None)
    if store.startswith(CLAIM):
        raise ConfigError(
            f"--data={data} is on this machine, and only pods can write to {store}; copy shards"
            f" there and give --data={CLAIM}FOLDER, or give a bucket as --store"
        )
    return _local(data, store)


def path_for_workers(showers: Showers, folder: RunFolder, *, moves: bool) -> str:
    """Returns the path of the data for the workers."""
    from cloudgan.data.shards.manifest import has_manifest

    if showers.source == NO_DATA:
        return ""
    if is_url(showers.source) or showers.source.startswith(CLAIM):
        return _in_claim(showers.source)
    if moves:
        return showers.upload_to or ""
    found = Path(showers.source)
    return str((found if has_manifest(found) else folder.shards).resolve())


def _in_claim(source: str) -> str:
    """A bucket's URL, or the folder in a claim, which workers resolve in their store."""
    return source if is_url(source) else source.removeprefix(CLAIM).strip("/")


def check_this_machine(plan: Plan) -> str | None:
    """Checks cores and memory of this machine for the workers of a plan, as `train` does for its processes.

    Returns:
        A warning if the training may not fit; None: it fits, or the workers run elsewhere.

    Raises:
        ConfigError: There are fewer cores, or the training cannot fit.
    """
    workers, config = plan.workers, plan.config
    if plan.target.provider != LOCAL:
        return None
    machine = this_machine()
    if workers.cpus > machine.cores:
        raise ConfigError(
            f"--cpus={workers.cpus:g}: this machine has {machine.cores} cores; give at most"
            f" {machine.cores}, or omit it"
        )
    total_gib = workers.nodes * workers.memory_gib
    if machine.memory_gib and total_gib > max(workers.nodes, machine.memory_gib + 1):
        raise ConfigError(
            f"--memory-gib={workers.memory_gib:g} of {workers.nodes} workers is {total_gib:g} GiB, and this"
            f" machine has {machine.memory_gib:g}; give less, or omit it"
        )
    if not config.trains_one:
        return None
    from cloudgan.training.expected_memory import expected_memory

    here = config.parallel.ranks or workers.nodes
    of_all = config.parallel.group if config.has_ranks else workers.nodes
    memory = expected_memory(config, workers=of_all, processes=here)
    return memory.check() if memory else None


def check_startable(plan: Plan) -> None:
    """Checks that a run can be started on its nodes: a training has data, and ranks can start there.

    Raises:
        ConfigError: The path of the data is empty, the provider starts no ranks, mpi4py is missing, or the
            engine is JAX.
    """
    config, provider = plan.config, plan.target.provider
    if config.task == "train" and config.training.engine == "jax":
        raise ConfigError(
            "training.engine: jax is planned but not launched: workers have no wheels of JAX, and their smoke"
            " step is TensorFlow's; nothing was started. Run `cloudgan train --engine=jax` on the machine, or"
            " omit the key"
        )
    if config.has_ranks and provider in {"local", "slurm"}:
        grid = config.grid
        flag = (
            f"--grid={grid.rows}x{grid.columns}" if grid else f"--parallel={config.parallel.mode}"
        )
        if provider == "local" and not plan.has_peers:
            here = "evolve --engine=ranks" if grid else "train"
            raise ConfigError(
                f"--provider=local with one node starts no ranks, so {flag} is planned but not launched;"
                f" nothing was started. Run `cloudgan {here}`, or give --nodes=2 or more"
            )
        check_mpi(flag)  # the workers run this interpreter
    if plan.showers.source == NO_SHOWERS:
        return
    if config.task == "train" and not config.data.path:
        raise ConfigError(
            "--data is missing; give --data=FILE.h5, a folder from `cloudgan convert`, or a bucket"
        )


def check_conversion(showers: Showers, folder: RunFolder) -> None:
    """Checks that `upload_data` can convert the data, before anything is created.

    Raises:
        ModuleNotFoundError: The data need a conversion, and TensorFlow is not installed.
    """
    source = _to_convert(showers)
    if source:
        from cloudgan.api.tensorflow_import import require_tensorflow
        from cloudgan.data.sources.convert import is_current

        if not is_current(folder.shards, source):
            require_tensorflow()


def _to_convert(showers: Showers) -> ShowerSource | None:
    """Returns the files of this machine that are no shards; None: there is nothing to convert."""
    if (
        showers.source in {NO_DATA, NO_SHOWERS, SIMULATED, JOINED.source}
        or is_url(showers.source)
        or showers.source.startswith(CLAIM)
    ):
        return None
    from cloudgan.data.shards.manifest import has_manifest
    from cloudgan.data.sources.source import open_source

    return None if has_manifest(showers.source) else open_source(showers.source)


def upload_data(showers: Showers, folder: RunFolder, progress: Progress) -> Path | None:
    """Converts and uploads the data as planned; skips what the store has.

    Returns:
        Local folder of shards; None if the data are not on this machine.

    Raises:
        DataError: A record is damaged; names file and record.
    """
    if is_url(showers.source) or showers.source.startswith(CLAIM):
        return None
    if showers.source in {NO_SHOWERS, SIMULATED, JOINED.source}:
        return None
    shards = Path(showers.source)
    source = _to_convert(showers)
    if source:
        from cloudgan.api.tensorflow_import import import_tensorflow
        from cloudgan.data.sources.convert import convert, is_current

        shards = folder.shards
        if not is_current(shards, source):
            import_tensorflow()
            convert(source, shards, overwrite=True, progress=progress)
    if showers.upload_to:
        remote = BucketShards(open_store(showers.upload_to))
        if not remote.is_copy_of(shards):
            remote.upload(shards, progress)
    return shards


def _local(data: str, store: str | None) -> Showers:
    if not set("*?[,") & set(data) and not Path(data).exists():
        raise DataError(f"--data={data}: the file or folder does not exist")
    from cloudgan.data.shards.manifest import MANIFEST, has_manifest, read_manifest

    if has_manifest(data):
        folder = Path(data)
        manifest = read_manifest(folder)
        size = sum(shard.bytes for shard in manifest.shards)
        digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:16]
        return _showers(data, manifest.records, size, digest, store, converted=True)
    from cloudgan.data.sources.source import open_source

    source = open_source(data)
    identity = [(one.info.name, one.info.bytes, one.info.modified_ns) for one in source.files]
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    size = round(source.count * KB_PER_SHOWER * 1000)
    return _showers(data, source.count, size, digest, store, converted=False)


def _showers(
    data: str, records: int, size: int, digest: str, store: str | None, *, converted: bool
) -> Showers:
    target = f"{store.rstrip('/')}/data/{digest}" if store else None
    return Showers(
        source=data,
        records=records,
        gib=size / 2**30,
        gib_is_exact=converted,
        upload_to=target,
        convert=not converted,
        minutes=size * 8 / _BITS_PER_SECOND / 60 if target else None,
        usd=0.0 if target and ("://" not in target or target.startswith(_FREE_INGRESS)) else None,
    )


def _check_kind(data: str, store: str, *, moves: bool) -> None:
    kind = data.partition("://")[0]
    if moves and not store.startswith(f"{kind}://"):
        raise ConfigError(
            f"--data={data} and --store={store} are in different clouds: each worker would pay for"
            f" the download at every start. Copy the data once with `cloudgan convert {data}"
            f" {store.rstrip('/')}/data/copy`, and give the copy as --data"
        )
