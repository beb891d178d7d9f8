"""Software of the pods: the container image, pinned to its digest, and the wheels they install."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cloudgan.core import assets
from cloudgan.core.errors import ConfigError, CredentialsError
from cloudgan.launch.container_registry.client import Registry, RegistryError
from cloudgan.launch.container_registry.image_reference import (
    NODE_PLATFORM,
    is_pinned,
    parse,
    resolve,
)
from cloudgan.launch.container_registry.login import registry_login
from cloudgan.launch.provisioning.wheels import (
    GLIBC_OF_TPU,
    cache_folder,
    dependency_wheels,
    locked,
    merge_locks,
    object_name,
    own_wheel,
)
from cloudgan.storage.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.core.progress import Progress
    from cloudgan.schema.plan import Plan, Wheel

    OpenRegistry = Callable[[str], Registry]

_LOCK = "requirements/pod.txt"
_GPU_LOCK, _TPU_LOCK = "requirements/gpu.txt", "requirements/tpu.txt"
_MPI_LOCK, _OF_MPI = "requirements/mpi.txt", ("mpi4py", "mpich")


def open_registry(host: str) -> Registry:
    """Opens the container registry of a host, with the login of this machine if there is one."""
    try:
        return Registry(host, registry_login(host))
    except CredentialsError as error:  # a public image needs no login
        return Registry(host, why_no_login=str(error))


def pin_image(
    plan: Plan,
    before: Plan | None,
    say: Callable[[str], None],
    open_registry: OpenRegistry = open_registry,
) -> Plan:
    """Returns the plan with its image pinned to a digest, or with a warning why it is not.

    A resumed run keeps its image, even if the tag has moved.

    Args:
        plan: Plan with the requested image; its steps are not updated.
        before: Plan that started the run; None: a new run.
        say: Receives a line for a kept image.
        open_registry: Opens the registry of a host.

    Raises:
        ConfigError: The image does not exist, or not for the platform of the nodes.
    """
    image = plan.workers.image
    if image is None or is_pinned(image):
        return plan
    kept = before.workers.image if before and before.spec_hash == plan.spec_hash else None
    if kept and replace(parse(kept), digest=None) == parse(image) and is_pinned(kept):
        say(f"resuming with the image of the run, {kept}")
        return _with_image(plan, kept)
    try:
        found = resolve(image, open_registry)
    except (CredentialsError, RegistryError) as error:
        warning = (
            f"image {image} is not pinned to a digest: {error}. Pods that start later can get"
            " another image, and no record says which one trained. Give the image by its digest, or"
            " log in to its registry on this machine"
        )
        return plan.model_copy(update={"warnings": (*plan.warnings, warning)})
    _check_platform(plan, found.platforms)
    return _with_image(plan, found.image)


def _check_platform(plan: Plan, platforms: tuple[str, ...]) -> None:
    if not platforms or NODE_PLATFORM in platforms or not plan.target.is_provisioned:
        return
    raise ConfigError(
        f"--image={plan.workers.image} is built for {' and '.join(platforms)}, and the nodes are"
        f" {NODE_PLATFORM}; build it with --platform={NODE_PLATFORM}, as `cloudgan"
        " image` shows"
    )


def _with_image(plan: Plan, image: str) -> Plan:
    workers = plan.workers.model_copy(update={"image": image})
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
    folder, lock = cache_folder(), assets.read_text(_LOCK)
    if has_ranks:
        lock = merge_locks(lock, locked(assets.read_text(_MPI_LOCK), _OF_MPI))
    if accelerator is None:
        others = dependency_wheels(lock, folder=folder, fetch=fetch)
    elif accelerator.upper().startswith("TPU"):
        lock = merge_locks(lock, assets.read_text(_TPU_LOCK))
        others = dependency_wheels(lock, folder=folder, fetch=fetch, platform=GLIBC_OF_TPU)
    else:
        lock = merge_locks(lock, assets.read_text(_GPU_LOCK))
        others = dependency_wheels(lock, folder=folder, fetch=fetch)
    return (own_wheel(folder), *others)
