"""TPU slices (core/machines.csv) and the requests for their queued resources. Pure, needs no SDK.

A queued resource waits for capacity on Google's side, and its VMs start the run by themselves: the
request holds all that a worker needs. https://docs.cloud.google.com/tpu/docs/queued-resources (stored
copy of its beginning, read 2026-11-21) and the discovery document of tpu.v2, revision 20261001. There
a queued resource has no labels, but its node has; and no field limits its lifetime (`maxRunDuration`
is alpha only), so the VM deletes itself: see startup.sh.

TensorFlow finds v5e, v5p and v6e only through its PJRT runtime, which environment variables select: the
instruction of Google's page in https://github.com/tensorflow/tensorflow/issues/90807 (2025-04-07) and the
tutorial of keras-rs for tensorflow-tpu 2.19.1 on v5p and v6e (2025-09-02). v2 to v4 use the older
runtime: https://docs.cloud.google.com/tpu/docs/supported-versions names PJRT images for v5e, v5p and v6e
only. Read 2026-11-22; not tested on a TPU.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Any, Final
from urllib.parse import quote

from cloudgan.core import machines
from cloudgan.core.errors import PlanError, nearest
from cloudgan.core.machines import Machine
from cloudgan.core.run_secret import new_secret
from cloudgan.launch.clouds.gcp import names, network
from cloudgan.launch.clouds.gcp.kinds import QUEUED
from cloudgan.launch.clouds.planner import NodePoolRequest, pool_of
from cloudgan.launch.kubernetes.job_state import KEY_FILE, KEY_FOLDER, RESTART_CODES, environment
from cloudgan.launch.kubernetes.manifests import (
    PYTHON_IMAGE,
    job,
    run_yaml,
    trainer,
    wheel_files,
)
from cloudgan.schema.plan import NodePool, Plan, Step, Workers
from cloudgan.schema.price_row import PoolFee
from cloudgan.storage.store import BucketAddress, Store

ENGINE: Final = "tpu_vm"
RESOURCE: Final = "google.com/tpu"
"""Extended resource in Kubernetes, and taint of its nodes."""
STOP_FILE: Final = "stop"
SECRET: Final = "secret"  # noqa: S105  its name
"""Object with the secret of a run on several VMs: the bucket is all that they share before they know each other."""
DEADLINE: Final = "cloudgan-deadline-seconds"
"""Metadata key of the time limit of these VMs."""
_LONGEST_NAME = 40
_GRACE_SECONDS = 25
"""Spot VMs get a notice of 30 s (https://docs.cloud.google.com/compute/docs/instances/spot)."""


_OLDER_RUNTIME = ("TPU-v2", "TPU-v3", "TPU-v4")
"""Generations that fail with PJRT."""
_SEVENTH = re.compile(r"(tpu[-_]?v?|v)7x?([-_:].*)?", re.IGNORECASE)


def slices() -> dict[str, Machine]:
    """Returns the slices of TPU VMs by name; those of nodes in GKE have no system image of their own."""
    known = machines.sold("gcp")
    return {
        name: one for name, one in known.items() if one.accelerator.startswith("TPU-") and one.image
    }


def slice_environment(node_type: str) -> dict[str, str]:
    """Returns the variables that TensorFlow needs for a slice.

    The third one of PJRT, TF_PLUGGABLE_DEVICE_LIBRARY_PATH, is a path in the pod: the worker sets it.
    """
    if slice_of(node_type).accelerator in _OLDER_RUNTIME:
        return {}
    return {"PJRT_DEVICE": "TPU", "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true"}


def unsupported_reason(name: str) -> str | None:
    """Returns why no engine can train on a TPU7x; None for other names, in any spelling."""
    if not _SEVENTH.fullmatch(name):
        return None
    return (
        f"cloudgan cannot train on {name}: TensorFlow's last release for TPUs, 2.20, is older than the"
        " TPU7x, and Cloud TPU's API, which --engine=jax needs, lacks it; choose"
        " --accelerator=tpu-v6e:8 instead"
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


def slice_notes(wanted: Machine) -> tuple[str, ...]:
    """Returns the caveats of a slice."""
    found = []
    if wanted.replacement:
        found.append(
            f"Google's list of TPU zones has no {wanted.node_type} any more: only a project with existing"
            f" quota may get it. The nearest generally available slice: {wanted.replacement}"
        )
    if wanted.hosts > 1:
        # The largest slice of the generation with one host; of v4, its successor's.
        kind = "TPU-v5p" if wanted.accelerator == "TPU-v4" else wanted.accelerator
        same = [one for one in slices().values() if one.accelerator == kind and one.hosts == 1]
        nearest_one = max(same, key=lambda one: one.accelerators).node_type
        found.append(
            f"{wanted.node_type} has {wanted.hosts} VMs, on which `deploy` starts `-- train --engine=jax` only:"
            " TensorFlow's last releases for TPUs cannot connect them (tensorflow issue 93618). For other jobs"
            f" choose one VM, the nearest: {wanted.replacement or nearest_one}"
        )
    if wanted.accelerator == "TPU-v6e":
        found.append(
            "TensorFlow 2.18 and 2.19 are reported to fail on TPU v6e, and 2.20 is untested: start"
            " with --max-hours=1"
        )
    return tuple(found)


def node_pool(wanted: NodePoolRequest) -> NodePool:
    """Returns the slice as a node pool."""
    found = slice_of(wanted.node_type)
    if wanted.nodes > 1:
        raise PlanError(
            f"--nodes={wanted.nodes}: several slices of TPUs train as one with JAX and PyTorch only"
            f" (Multislice); omit --nodes, since one {wanted.node_type} is one node"
        )
    if wanted.flex_start:
        raise PlanError(
            "--flex-start is in the alpha version of Cloud TPU's API only; omit it, or pass"
            " --market=spot, which is cheaper"
        )
    address = PoolFee(kind="public_ip", quantity=found.hosts)
    if wanted.reservation:
        network.parse_reservation(wanted.reservation)
    return wanted.pool(
        _LONGEST_NAME,
        keep_cluster=False,
        served_runs=1,
        engine=ENGINE,
        runtime=found.image,
        hosts=found.hosts,
        fees=(network.NAT if wanted.internal_ips else address,),
        replacement=found.replacement,
        notes=slice_notes(found),
    )


def check_no_secrets(names: Iterable[str]) -> None:
    """Refuses secret variables: what a TPU VM knows at its start is metadata, for all who may see the VM.

    https://docs.cloud.google.com/compute/docs/metadata/overview (read 2026-11-25).
    """
    if given := ", ".join(names):
        raise PlanError(
            f"{given}: Cloud TPU VMs get their settings as instance metadata, which is not secret; omit"
            " --secret and --kubernetes-secrets, or give an accelerator whose nodes Google's Kubernetes Engine"
            " has, such as --accelerator=l4"
        )


def workers(workers: Workers, node_pool: NodePool) -> Workers:
    """Returns the workers of a slice: a process on each of its VMs drives the chips there."""
    check_no_secrets((*workers.secrets, *workers.kubernetes_secrets))
    return workers.model_copy(
        update={
            "accelerators_per_node": slice_of(node_pool.node_type).accelerators,
            "image": workers.image or PYTHON_IMAGE,
            "resource": RESOURCE,
            "environment": slice_environment(node_pool.node_type),
            "grace_seconds": _GRACE_SECONDS,
        }
    )


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the request for the queued resource."""
    name, parent = pool_of(plan).name, _parent(plan)
    path = f"{names.TPU}/{parent}/queuedResources?queuedResourceId={name}"
    return (QUEUED.step(f"{QUEUED.name} {name}", _ref(plan), path, body(plan)),)


def put_secret(plan: Plan, store: Store) -> None:
    """Writes a new secret for the workers of several VMs to the store, before the VMs exist."""
    if plan.node_pool and plan.node_pool.hosts > 1:
        store.put(f"runs/{plan.run}/{SECRET}", new_secret().encode())


def full_name(plan: Plan) -> str:
    """Returns the full name of the queued resource."""
    return QUEUED.name_of(_ref(plan))


def _ref(plan: Plan) -> dict[str, str]:
    where = {"project": str(plan.target.account), "location": str(plan.target.zone)}
    return where | {"name": pool_of(plan).name}


def body(plan: Plan) -> dict[str, Any]:
    """Returns the request body of the queued resource."""
    pool = pool_of(plan)
    files = {"run.yaml": run_yaml(plan), **wheel_files(plan.wheels)}
    node: dict[str, Any] = {
        "acceleratorType": pool.node_type,
        "runtimeVersion": pool.runtime,
        "labels": plan.labels().as_dict(),
        "networkConfig": network.tpu_fields(plan.target),
        "serviceAccount": {
            "email": names.account_email(names.TPU_ACCOUNT, plan.target.account or ""),
            "scope": [names.SCOPE],
        },
        "metadata": {
            "startup-script": startup_script(plan),
            DEADLINE: str(plan.limits.deadline_seconds),
            **{f"cloudgan-{re.sub('[._]', '-', name)}": text for name, text in files.items()},
        },
    }
    wait = f"{plan.limits.gang_timeout_seconds:.0f}s"
    spec = {"parent": _parent(plan), "nodeId": pool.name, "node": node}
    found: dict[str, Any] = {
        "tpu": {"nodeSpec": [spec]},
        "queueingPolicy": {"validUntilDuration": wait},
    }
    if pool.reservation:
        project, zone = plan.target.account or "", plan.target.zone or ""
        found["reservationName"] = network.tpu_reservation(pool.reservation, project, zone)
    # The tier is a field of the queued resource only, as gcloud's --spot sets it; on demand is the default.
    return found | {"spot": {}} if pool.market == "spot" else found


def startup_script(plan: Plan) -> str:
    """Returns the startup script, which each VM runs at each boot."""
    fixed = resources.files(__package__).joinpath("startup.sh").read_text(encoding="utf-8")
    return "\n".join(("#!/bin/bash", *_values(plan), "", fixed))


def _values(plan: Plan) -> Iterator[str]:
    manifest = job(plan)
    hosts = pool_of(plan).hosts
    store = BucketAddress.parse(plan.store, "gs://BUCKET/prefix")
    values = {
        "run": plan.run,
        "queued_resource": full_name(plan),
        "image": plan.workers.image or PYTHON_IMAGE,
        "bucket": store.host,
        "prefix": quote("/".join((*store.path, "runs", plan.run, "")), safe=""),  # as URLs have it
        "again": " ".join(map(str, RESTART_CODES)),
        "grace_seconds": str(plan.workers.grace_seconds),
        "hosts": str(hosts),
    }
    yield from (f"{name}={shlex.quote(value)}" for name, value in values.items())
    own = {"CLOUDGAN_TPU": "local", "HOME": "/cloudgan/scratch", "CLOUDGAN_WORLD": str(hosts)}
    own["CLOUDGAN_ACCELERATORS"] = str(plan.workers.accelerators_per_node // hosts)
    if hosts > 1:
        own["CLOUDGAN_SECRET_FILE"] = f"{KEY_FOLDER}/{KEY_FILE}"
    variables = environment(manifest, {}) | own
    flags = [flag for name, value in variables.items() for flag in ("-e", f"{name}={value}")]
    yield f"environment=({shlex.join(flags)})"
    pod = manifest["spec"]["template"]["spec"]
    containers = (*pod.get("initContainers", ()), trainer(manifest))
    steps = dict(zip(("worker", "install", "fetch"), reversed(containers), strict=False))
    for name in ("fetch", "install", "worker"):  # program, image and arguments for `docker run`
        words: tuple[str, ...] = ()
        if container := steps.get(name):
            program, *arguments = container["command"]
            words = (f"--entrypoint={program}", container["image"], *arguments)
        yield f"{name}=({shlex.join(words)})"


def _parent(plan: Plan) -> str:
    return f"projects/{plan.target.account}/locations/{plan.target.zone}"
