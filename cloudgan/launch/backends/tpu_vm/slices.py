"""TPU slices (core/machines.csv): which runtime TensorFlow needs on them, and their caveats.

TensorFlow finds v5e, v5p and v6e only through its PJRT runtime, which environment variables select: the
instruction of Google's page in https://github.com/tensorflow/tensorflow/issues/90807 (2025-04-07) and the
tutorial of keras-rs for tensorflow-tpu 2.19.1 on v5p and v6e (2025-09-02). v2 to v4 use the older
runtime: https://docs.cloud.google.com/tpu/docs/supported-versions names PJRT images for v5e, v5p and v6e
only. Read 2026-11-22; not tested on a TPU.
"""

from __future__ import annotations

import re

from cloudgan.core import machines
from cloudgan.core.errors import PlanError, nearest
from cloudgan.core.machines import Machine

_OLDER_RUNTIME = ("TPU-v2", "TPU-v3", "TPU-v4")
"""Generations that fail with PJRT."""
_SEVENTH = re.compile(r"(tpu[-_]?v?|v)7x?([-_:].*)?", re.IGNORECASE)


def slices() -> dict[str, Machine]:
    """Returns the slices by name."""
    known = machines.sold("gcp")
    return {name: one for name, one in known.items() if one.accelerator.startswith("TPU-")}


def environment(node_type: str) -> dict[str, str]:
    """Returns the variables that TensorFlow needs for a slice.

    The third one of PJRT, TF_PLUGGABLE_DEVICE_LIBRARY_PATH, is a path in the pod: the worker sets it.
    """
    if slice_of(node_type).accelerator in _OLDER_RUNTIME:
        return {}
    return {"PJRT_DEVICE": "TPU", "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true"}


def unsupported_reason(name: str) -> str | None:
    """Returns why TensorFlow cannot train on a TPU7x; None for other names, in any spelling."""
    if not _SEVENTH.fullmatch(name):
        return None
    return (
        f"TensorFlow cannot train on {name}: its last release for TPUs, 2.20, is older than the"
        " TPU7x, which Cloud TPU's API lacks too; choose --accelerator=tpu-v6e:8 instead"
    )


def slice_of(node_type: str) -> Machine:
    """Returns a slice by name."""
    known = slices()
    if node_type in known:
        return known[node_type]
    why = unsupported_reason(node_type)
    raise PlanError(
        why
        or f"{node_type} is not a TPU slice that cloudgan supports.{nearest(node_type, known)} Supported:"
        f" {', '.join(known)}"
    )


def _one_host(wanted: Machine) -> str:
    """Returns the largest slice of a generation with one host; of v4, its successor's."""
    name = "TPU-v5p" if wanted.accelerator == "TPU-v4" else wanted.accelerator
    same = [one for one in slices().values() if one.accelerator == name and one.hosts == 1]
    return max(same, key=lambda one: one.accelerators).node_type


def notes(wanted: Machine) -> tuple[str, ...]:
    """Returns the caveats of a slice."""
    found = []
    if wanted.replacement:
        found.append(
            f"Google's list of TPU zones has no {wanted.node_type} any more: only a project with existing"
            f" quota may get it. The nearest generally available slice: {wanted.replacement}"
        )
    if wanted.hosts > 1:
        found.append(
            f"{wanted.node_type} has {wanted.hosts} VMs, on which `deploy` starts `-- train --engine=jax` only:"
            " TensorFlow's last releases for TPUs cannot connect them (tensorflow issue 93618). For other jobs"
            f" choose one VM, the nearest: {wanted.replacement or _one_host(wanted)}"
        )
    if wanted.accelerator == "TPU-v6e":
        found.append(
            "TensorFlow 2.18 and 2.19 are reported to fail on TPU v6e, and 2.20 is untested: start"
            " with --max-hours=1"
        )
    return tuple(found)
