"""Cloud TPU machines by queued resources: what is rented, and the request for it. Pure.

A queued resource waits for its machines on Google's side, and they begin by themselves: all that a
worker needs is in the request. https://docs.cloud.google.com/tpu/docs/queued-resources (a stored copy
of its beginning, read 2026-11-21) and the discovery document of tpu.v2, revision 20261001. There a
queued resource carries no labels, its node does; and nothing limits how long it runs (`maxRunDuration`
is in the alpha version only), so the machine ends itself: see tpu_startup.sh.
"""

from __future__ import annotations

import shlex
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from cloudgan import assets
from cloudgan.core.errors import PlanError
from cloudgan.core.labels import derived_name
from cloudgan.core.plan import Rental, Step
from cloudgan.kubernetes.job_body import JobBody
from cloudgan.kubernetes.manifests import job, run_yaml, trainer, wheel_list
from cloudgan.providers.gcp.addresses import TPU, TPU_ACCOUNT, account_email
from cloudgan.providers.gcp.tpu_slices import notes, slice_of
from cloudgan.stores.address import Address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.core.plan import Plan, Workers
    from cloudgan.providers.clouds import Wanted

ENGINE: Final = "tpu_vm"
KIND: Final = "TPU queued resource"
IMAGE: Final = "python:3.11-slim"
"""TensorFlow's public image has none for TPUs: that is a wheel, like all else."""
STOP_FILE: Final = "stop"
DEADLINE: Final = "cloudgan-deadline-seconds"
"""What of the job's time these machines have; in the metadata, like all that a machine asks for."""
_PUBLIC = "tensorflow/tensorflow:"
_LONGEST_NAME = 40
_GRACE_SECONDS = 25
"""A spot machine is told 30 s before (https://docs.cloud.google.com/compute/docs/instances/spot)."""


def rental(wanted: Wanted) -> Rental:
    """Returns what is rented.

    Raises:
        PlanError: TensorFlow or Cloud TPU cannot serve it.
    """
    found = slice_of(wanted.node_type)
    if wanted.nodes > 1:
        raise PlanError(
            f"--nodes={wanted.nodes}: several slices of TPUs train as one with JAX and PyTorch only"
            f" (Multislice); leave --nodes out, one {wanted.node_type} is one node"
        )
    if wanted.flex_start:
        raise PlanError(
            "--flex_start: Cloud TPU's API has it in its alpha version only; leave it out, or take"
            " --spot=always, which is cheaper"
        )
    return Rental(
        node_type=found.name,
        market=wanted.market,
        pool=derived_name(wanted.run, wanted.spec, _LONGEST_NAME),
        engine=ENGINE,
        runtime=found.runtime,
        hosts=found.hosts,
        instead=found.instead,
        notes=notes(found),
    )


def workers(workers: Workers, rental: Rental) -> Workers:
    """Returns the workers as such machines take them: one process drives a whole slice."""
    image = workers.image or IMAGE
    return workers.model_copy(
        update={
            "accelerators_per_node": slice_of(rental.node_type).chips,
            "image": IMAGE if image.startswith(_PUBLIC) else image,
            "resource": "google.com/tpu",
            "grace_seconds": _GRACE_SECONDS,
        }
    )


def steps(plan: Plan) -> tuple[Step, ...]:
    """Returns the request for the machines; bucket and intent come before."""
    name, parent = _rented(plan).pool, _parent(plan)
    return (
        Step(
            ensure=f"{KIND} {name}",
            method="POST",
            path=f"{TPU}/{parent}/queuedResources?queuedResourceId={name}",
            find=f"{TPU}/{full_name(plan)}",
            at="cloud",
            body=body(plan),
        ),
    )


def full_name(plan: Plan) -> str:
    """Returns the queued resource's name, as the API wants it."""
    return f"{_parent(plan)}/queuedResources/{_rented(plan).pool}"


def body(plan: Plan) -> dict[str, Any]:
    """Returns the queued resource."""
    rented = _rented(plan)
    is_spot = rented.market == "spot"
    node: dict[str, Any] = {
        "acceleratorType": rented.node_type,
        "runtimeVersion": rented.runtime,
        "labels": plan.labels().as_dict(),
        "networkConfig": {"enableExternalIps": True},
        "serviceAccount": {
            "email": account_email(TPU_ACCOUNT, plan.place.account or ""),
            "scope": ["https://www.googleapis.com/auth/cloud-platform"],
        },
        "metadata": _metadata(plan),
    }
    if is_spot:
        node["schedulingConfig"] = {"spot": True}
    wait = f"{plan.limits.gang_timeout_seconds:.0f}s"
    spec = {"parent": _parent(plan), "nodeId": rented.pool, "node": node}
    found = {"tpu": {"nodeSpec": [spec]}, "queueingPolicy": {"validUntilDuration": wait}}
    return found | {"spot": {}} if is_spot else found  # no tier means on demand


def _metadata(plan: Plan) -> dict[str, str]:
    found = {
        "startup-script": startup_script(plan),
        DEADLINE: str(plan.limits.deadline_seconds),
        "cloudgan-run-yaml": run_yaml(plan),
    }
    if plan.wheels:
        found["cloudgan-wheels-txt"] = wheel_list(plan.wheels)
        found["cloudgan-fetch-wheels-py"] = assets.read_text("k8s/fetch_wheels.py")
    return found


def startup_script(plan: Plan) -> str:
    """Returns what each host runs at each boot."""
    fixed = resources.files(__package__).joinpath("tpu_startup.sh").read_text(encoding="utf-8")
    return "\n".join(("#!/bin/bash", *_values(plan), "", fixed))


def _values(plan: Plan) -> Iterator[str]:
    manifest = job(plan)
    made, store = JobBody(manifest), Address.of(plan.store, "gs://BUCKET/prefix")
    values = {
        "run": plan.run,
        "queued_resource": full_name(plan),
        "image": plan.workers.image or IMAGE,
        "bucket": store.host,
        "prefix": "/".join((*store.path, "runs", plan.run, "")),
        "again": " ".join(map(str, made.tried_again())),
        "grace_seconds": str(plan.workers.grace_seconds),
    }
    yield from (f"{name}={shlex.quote(value)}" for name, value in values.items())
    alone = {"JOB_COMPLETION_INDEX": "0", "CLOUDGAN_PEERS": "localhost:2222"}
    here = {"CLOUDGAN_TPU": "local", "HOME": "/cloudgan/scratch"}
    environment = made.environment({}) | alone | here
    flags = [flag for name, value in environment.items() for flag in ("-e", f"{name}={value}")]
    yield f"environment=({shlex.join(flags)})"
    yield f"worker=({shlex.join(trainer(manifest)['command'])})"
    containers = manifest["spec"]["template"]["spec"].get("initContainers", ())
    yield f"fetch=({shlex.join([word for one in containers for word in one['command']])})"


def _parent(plan: Plan) -> str:
    return f"projects/{plan.place.account}/locations/{plan.place.zone}"


def _rented(plan: Plan) -> Rental:
    if plan.rental is None:
        raise PlanError(f"run {plan.run} rents nothing")
    return plan.rental
