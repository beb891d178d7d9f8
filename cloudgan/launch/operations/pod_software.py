"""Software of the pods: the container image of a resumed run, and the wheels they install."""

from __future__ import annotations

from collections.abc import Callable

from cloudgan.core.lock import locked
from cloudgan.core.progress import Progress
from cloudgan.launch.lifecycle.wheels import (
    GLIBC_OF_TPU,
    cache_folder,
    dependency_wheels,
    object_name,
    own_wheel,
)
from cloudgan.schema.image import tagged
from cloudgan.schema.launch import Launch
from cloudgan.schema.plan import Plan, Wheel
from cloudgan.storage.store import open_store

_OF_MPI = ("mpi4py", "mpich")
_OF_TENSORFLOW = ("absl-py", "h5py", "ml-dtypes", "numpy", "optree", "protobuf")
"""The public image has these, built for its TensorFlow."""


def with_pulled_image(plan: Plan, before: Launch, say: Callable[[str], None]) -> Plan:
    """Returns the plan with the image that the nodes of an earlier attempt pulled, if its tag is the same.

    A resumed run keeps its image, even if the tag has moved.

    Args:
        plan: Plan with the requested image; its steps are not updated.
        before: Earlier attempts of the run.
        say: Receives a line for a kept image.
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
    accelerator: str | None = None,
    has_ranks: bool = False,
) -> tuple[Wheel, ...]:
    """Returns the wheels that are on this machine: cloudgan's own, and cached ones.

    Args:
        accelerator: Accelerator of the workers; GPUs and TPUs need TensorFlow and its libraries as wheels, too.
        has_ranks: Whether the workers start MPI ranks, which need MPICH.
    """
    return _wheels(accelerator, has_ranks=has_ranks, fetch=False)


def all_wheels(
    progress: Progress,
    accelerator: str | None = None,
    has_ranks: bool = False,
) -> tuple[Wheel, ...]:
    """Returns cloudgan's own wheel and those of its lock file; downloads what is not cached.

    Raises:
        ConfigError: A wheel is not cached and cannot be downloaded.
    """
    known = known_wheels(accelerator, has_ranks)
    if len(known) > 1:
        return known
    progress.start("downloading the wheels that pods install, once")
    return _wheels(accelerator, has_ranks=has_ranks, fetch=True)


def upload_wheels(plan: Plan, progress: Progress) -> None:
    """Uploads the plan's wheels that the store does not have.

    Raises:
        CloudganError: The store cannot be written.
    """
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


def _wheels(accelerator: str | None, *, has_ranks: bool, fetch: bool) -> tuple[Wheel, ...]:
    folder, ranks = cache_folder(), _OF_MPI if has_ranks else ()
    if accelerator is None:
        lock = locked("pod", packages=ranks, without=_OF_TENSORFLOW)
        others = dependency_wheels(lock, folder=folder, fetch=fetch)
    elif accelerator.upper().startswith("TPU"):
        lock = locked("pod", "tpu", packages=ranks)
        others = dependency_wheels(lock, folder=folder, fetch=fetch, platform=GLIBC_OF_TPU)
    else:
        lock = locked("pod", "gpu", packages=ranks)
        others = dependency_wheels(lock, folder=folder, fetch=fetch)
    return (own_wheel(folder), *others)
