"""Which wheels the pods of a public image install, and how they come into the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan import assets
from cloudgan.launching.wheels import (
    GLIBC_OF_TPU,
    cache_folder,
    dependency_wheels,
    joined_lock,
    object_name,
    own_wheel,
)
from cloudgan.stores import open_store

if TYPE_CHECKING:
    from cloudgan.core.plan import Plan, Wheel
    from cloudgan.core.progress import Progress

_LOCK = "requirements/pod.txt"
_TPU_LOCK = "requirements/tpu.txt"


def known_wheels(accelerator: str | None = None) -> tuple[Wheel, ...]:
    """Returns the wheels that are known without a network: our own, and those of an earlier run.

    Args:
        accelerator: Of the workers; TensorFlow for TPUs is in no public image, so it is a wheel too.
    """
    return _wheels(accelerator, fetch=False)


def all_wheels(progress: Progress, accelerator: str | None = None) -> tuple[Wheel, ...]:
    """Returns cloudgan's own wheel and those of its lock, fetched once.

    Raises:
        ConfigError: They are not here and cannot be fetched.
    """
    known = known_wheels(accelerator)
    if len(known) > 1:
        return known
    progress.start("fetching the wheels that pods install, once")
    return _wheels(accelerator, fetch=True)


def upload_wheels(plan: Plan, progress: Progress) -> None:
    """Brings to the store what it lacks of the plan's wheels.

    Raises:
        CloudganError: The store cannot be written.
    """
    if not plan.wheels:
        return
    store, folder = open_store(plan.store), cache_folder()
    there = set(store.list("wheels/"))
    missing = [wheel for wheel in plan.wheels if object_name(wheel) not in there]
    if not missing:
        return
    size = sum(wheel.bytes for wheel in missing) / 2**20
    progress.start(f"uploading {len(missing)} wheels to {store.url}", size, "MiB")
    for wheel in missing:
        store.put(object_name(wheel), folder / wheel.file_name)
        progress.advance(wheel.bytes / 2**20)


def _wheels(accelerator: str | None, *, fetch: bool) -> tuple[Wheel, ...]:
    folder, lock = cache_folder(), assets.read_text(_LOCK)
    if accelerator is not None and accelerator.upper().startswith("TPU"):
        lock = joined_lock(lock, assets.read_text(_TPU_LOCK))
        others = dependency_wheels(lock, folder=folder, fetch=fetch, platform=GLIBC_OF_TPU)
    else:
        others = dependency_wheels(lock, folder=folder, fetch=fetch)
    return (own_wheel(folder), *others)
