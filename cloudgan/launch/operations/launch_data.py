"""Training data of a launched run: checks, converts and uploads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Progress
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.launch.plan.showers import NO_SHOWERS, NOT_READ
from cloudgan.ranks.placement import check_mpi
from cloudgan.schema.launch import LOCAL
from cloudgan.schema.plan import NO_DATA, Plan, Showers
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.bucket_showers import BucketShowers, is_url
from cloudgan.storage.store import open_store

if TYPE_CHECKING:
    from cloudgan.data.sources import ShowerSource


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
    from cloudgan.training.forecast import expected_memory

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


def _to_convert(showers: Showers, unit: str | None, binning: str | None) -> ShowerSource | None:
    """Returns the files of this machine that are no store; None: there is nothing to convert."""
    if (
        showers.source == NO_DATA
        or showers.source in NOT_READ
        or is_url(showers.source)
        or showers.source.startswith(CLAIM)
    ):
        return None
    from cloudgan.data.manifest import has_manifest
    from cloudgan.data.sources import open_source

    return (
        None
        if has_manifest(showers.source)
        else open_source(showers.source, unit or "", binning or "")
    )


def upload_data(
    showers: Showers,
    folder: RunFolder,
    progress: Progress,
    unit: str | None = None,
    binning: str | None = None,
) -> Path | None:
    """Converts and uploads the data as planned; skips what the store has. `unit` and `binning` are those of the flags.

    Returns:
        Local store; None if the data are not on this machine.

    Raises:
        DataError: A file is damaged; names it.
    """
    if is_url(showers.source) or showers.source.startswith(CLAIM):
        return None
    if showers.source in NOT_READ:
        return None
    store = Path(showers.source)
    source = _to_convert(showers, unit, binning)
    if source:
        from cloudgan.data.convert import convert, is_current

        store = folder.store
        if not is_current(store, source):
            convert(source, store, overwrite=True, progress=progress)
    if showers.upload_to:
        remote = BucketShowers(open_store(showers.upload_to))
        if not remote.is_copy_of(store):
            remote.upload(store, progress)
    return store
