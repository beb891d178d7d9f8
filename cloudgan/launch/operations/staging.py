"""What a launched run needs before its nodes: data that fit and are uploaded, its image, its wheels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cloudgan.core.errors import ConfigError, counted
from cloudgan.core.hardware import this_machine
from cloudgan.core.lock import locked
from cloudgan.core.progress import Progress
from cloudgan.launch.kubernetes.image import tagged
from cloudgan.launch.kubernetes.manifests import CLAIM
from cloudgan.launch.lifecycle.wheels import (
    GLIBC_OF_TPU,
    cache_folder,
    dependency_wheels,
    object_name,
    own_wheel,
)
from cloudgan.launch.plan.jobs import KINDS
from cloudgan.launch.plan.showers import NO_SHOWERS, NOT_READ, of_manifest
from cloudgan.ranks.placement import check_mpi
from cloudgan.schema.config import RunConfig
from cloudgan.schema.launch import LOCAL, Launch
from cloudgan.schema.plan import NO_DATA, Plan, Showers, Wheel
from cloudgan.schema.run_folder import RunFolder
from cloudgan.storage.bucket_showers import BucketShowers, is_url
from cloudgan.storage.store import StoreError, open_store

_OF_MPI = ("mpi4py", "mpich")
_OF_TENSORFLOW = ("absl-py", "h5py", "ml-dtypes", "numpy", "optree", "protobuf")
"""The public image has these, built for its TensorFlow."""


def check_this_machine(plan: Plan) -> str | None:
    """Checks cores and memory of this machine for the workers of a plan, as `train` does for its processes.

    Returns:
        A warning if the training may not fit; None: it fits, or the workers run elsewhere.
    """
    workers, config = plan.workers, plan.config
    if plan.target.provider != LOCAL:
        return None
    machine = this_machine()
    if workers.cpus > machine.cores:
        raise ConfigError(
            f"--cpus={workers.cpus:g}: this machine has {counted(machine.cores, 'core')}; give at most"
            f" {machine.cores}, or omit it"
        )
    total_gib = workers.nodes * workers.memory_gib
    if machine.memory_gib and total_gib > max(workers.nodes, machine.memory_gib + 1):
        raise ConfigError(
            f"--memory-gib={workers.memory_gib:g} of {counted(workers.nodes, 'worker')} is {total_gib:g} GiB, and this"
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
    """Checks that a run can be started on its nodes: a training has data, and ranks can start there."""
    config, provider = plan.config, plan.target.provider
    if config.uses_jax and plan.wheels and plan.workers.has_gpus:
        raise ConfigError(
            "--engine=jax: pods without --image get wheels of JAX for CPUs and TPUs, not for GPUs, and nothing was"
            " started; give an --image that has cloudgan[jax] with JAX for CUDA, or omit --engine=jax"
        )
    if config.has_ranks and provider in {"local", "slurm"}:
        grid = config.grid
        flag = (
            f"--grid={grid.rows}x{grid.columns}" if grid else f"--parallel={config.parallel.mode}"
        )
        if provider == "local" and not (plan.has_peers or config.join):
            here = "evolve --engine=ranks" if grid else "train"
            raise ConfigError(
                f"--provider=local with one node starts no ranks, so {flag} is planned but not launched;"
                f" nothing was started. Run `cloudgan {here}`, or give --nodes=2 or more"
            )
        check_mpi(flag)  # the workers run this interpreter
    if plan.showers.source == NO_SHOWERS:
        return
    if KINDS[config.job].needs_showers and not config.data.path:
        raise ConfigError(
            "--data is missing; give --data=FILE.h5, a folder from `cloudgan convert`, or a bucket"
        )


def showers_in_bucket(url: str, progress: Progress) -> Showers:
    """Returns the showers of a store in a bucket, counted by its manifest, if this machine may read it.

    Raises:
        ConfigError: There is no such bucket.
        DataError: The bucket holds no complete store of showers there.
    """
    bucket = BucketShowers.from_url(url)
    try:
        return of_manifest(url, bucket.manifest)
    except StoreError as error:  # the workers may have a login or a network that this machine lacks
        progress.say(f"the showers were not counted: {error}")
        return Showers(source=url)


def upload_data(plan: Plan, folder: RunFolder, progress: Progress) -> None:
    """Converts and uploads the data as planned; skips what the store has."""
    source, data = plan.showers.source, plan.config.data
    if is_url(source) or source.startswith(CLAIM) or source in NOT_READ:
        return
    from cloudgan.data.manifest import has_manifest

    store = Path(source)
    if source != NO_DATA and not has_manifest(source):
        from cloudgan.data.convert import convert, is_current
        from cloudgan.data.sources import open_source

        found = open_source(source, data.unit or "", data.binning or "")
        store = folder.store
        if not is_current(store, found):
            convert(found, store, overwrite=True, progress=progress)
    if plan.showers.upload_to:
        remote = BucketShowers(open_store(plan.showers.upload_to))
        if not remote.is_copy_of(store):
            remote.upload(store, progress)


def with_pulled_image(plan: Plan, before: Launch, say: Callable[[str], None]) -> Plan:
    """Returns the plan with the image that the nodes of an earlier attempt pulled, if its tag is the same.

    A resumed run keeps its image, even if the tag has moved. The steps of the plan are not updated.
    """
    image = plan.workers.image
    if before.config_hash != plan.config.config_hash():
        return plan
    pulled = next((one.image for one in reversed(before.attempts) if one.image), None)
    if pulled is None or image != tagged(pulled):
        return plan
    say(f"resuming with the image of the run, {pulled}")
    workers = plan.workers.model_copy(update={"image": pulled})
    return plan.model_copy(update={"workers": workers})


def known_wheels(
    accelerator: str | None, config: RunConfig, *, fetch: bool = False
) -> tuple[Wheel, ...]:
    """Returns cloudgan's own wheel and the cached ones of its lock file; with `fetch` all of them.

    Args:
        accelerator: Accelerator of the workers; GPUs and TPUs need TensorFlow and its libraries as wheels, too.
        config: Of the run: MPI ranks need MPICH, blocks of a search Optuna, and JAX itself, whose image has no
            TensorFlow.
    """
    folder, platform = cache_folder(), {}
    extras = ("pod", "search") if config.join else ("pod",)
    ranks = _OF_MPI if config.has_ranks else ()
    if accelerator is not None and accelerator.upper().startswith("TPU"):
        lock = locked(*extras, "jax-tpu" if config.uses_jax else "tpu", packages=ranks)
        platform = {"platform": GLIBC_OF_TPU}
    elif config.uses_jax:
        lock = locked(*extras, "jax")
    elif accelerator is None:
        lock = locked(*extras, packages=ranks, without=_OF_TENSORFLOW)
    else:
        lock = locked(*extras, "gpu", packages=ranks)
    others = dependency_wheels(lock, folder=folder, fetch=fetch, **platform)
    return (own_wheel(folder), *others)


def all_wheels(progress: Progress, accelerator: str | None, config: RunConfig) -> tuple[Wheel, ...]:
    """Returns cloudgan's own wheel and those of its lock file; downloads what is not cached."""
    known = known_wheels(accelerator, config)
    if len(known) > 1:
        return known
    progress.start("downloading the wheels that pods install, once")
    return known_wheels(accelerator, config, fetch=True)


def upload_wheels(plan: Plan, progress: Progress) -> None:
    """Uploads the plan's wheels that the store does not have."""
    if not plan.wheels:
        return
    store, folder = open_store(plan.store), cache_folder()
    uploaded = set(store.list("wheels/"))
    missing = [wheel for wheel in plan.wheels if object_name(wheel) not in uploaded]
    if not missing:
        return
    size = sum(wheel.bytes for wheel in missing) / 2**20
    progress.start(f"uploading {len(missing)} wheels to {store.url}", size, "MiB")
    for wheel in missing:
        store.put(object_name(wheel), folder / wheel.file_name)
        progress.advance(wheel.bytes / 2**20)
