"""Which GPUs each of several processes on one machine takes: no two of them the same."""

from __future__ import annotations

from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import nvidia_gpus
from cloudgan.core.settings import variable

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def share_gpus(workers: int) -> list[dict[str, str]]:
    """Returns for each worker what its environment needs; nothing where there is no GPU.

    Raises:
        ConfigError: The workers cannot share the GPUs evenly.
    """
    gpus = visible_gpus()
    if not gpus:
        return [{} for _ in range(workers)]
    if len(gpus) % workers:
        raise ConfigError(
            f"{workers} workers cannot share {len(gpus)} GPUs evenly; use as many workers as divide"
            f" them, --strategy=mirrored for one process with all of them, or {_VISIBLE} to choose"
        )
    each = len(gpus) // workers
    return [{_VISIBLE: ",".join(gpus[each * i : each * (i + 1)])} for i in range(workers)]


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use; CUDA's own reading stops at a negative number."""
    asked = variable(_VISIBLE)
    if asked is None:
        return [str(number) for number in range(len(nvidia_gpus()))]
    names = [name.strip() for name in asked.split(",") if name.strip()]
    hidden = next((i for i, name in enumerate(names) if name.startswith("-")), len(names))
    return names[:hidden]
