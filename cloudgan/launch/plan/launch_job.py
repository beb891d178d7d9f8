"""The job of a plan: its configuration, and what its workers are, from the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from cloudgan.core import machines
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import in_gib, this_machine
from cloudgan.core.labels import checked_name, spec_digits
from cloudgan.core.local_path import local_path
from cloudgan.gan.footprint import ERROR, check_stages
from cloudgan.launch.kubernetes.manifests import PYTHON_IMAGE
from cloudgan.launch.plan.environment import run_variables
from cloudgan.launch.plan.jobs import Kind, kind_of
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.money.billing import folder_ledger, usd_until_now
from cloudgan.money.catalog import is_of, load_catalog, spelt
from cloudgan.money.price_file import catalog_with
from cloudgan.schema.config import RunConfig, parse_config
from cloudgan.schema.plan import Workers
from cloudgan.schema.presets import find_profile
from cloudgan.schema.price_row import Market, PriceRow
from cloudgan.schema.run_folder import RunFolder
from cloudgan.speed.candidates import BatchRule
from cloudgan.speed.measured import PAPER_NETWORK, trained_batches
from cloudgan.training.forecast import footprint_on
from cloudgan.training.run_options import lay_over, read_run_yaml, with_preset

_PUBLIC_IMAGE = "tensorflow/tensorflow:2.21.0"
"""Default image of workers without accelerators."""
_CORES, _CORES_PER_ACCELERATOR = 4, 6
_GIB, _GIB_PER_ACCELERATOR = 8.0, 16.0
_NODE_SHARE = 0.75
"""Largest default request, of a node: its system needs the rest."""
_BATCH = "training.batch_per_replica"


class UnpricedNode(NamedTuple):
    """A node type without a known price in its region."""

    provider: str
    node_type: str
    accelerator: str
    accelerator_count: int
    vcpu: int | None
    memory_gib: float | None
    region: str
    market: Market


Node = PriceRow | UnpricedNode


@dataclass(frozen=True)
class AskedJob:
    """The requested job.

    Attributes:
        source: What they are called in messages.
        config: Its configuration, as requested: what follows from the workers is missing.
        name: Requested name; None: KIND-HASH.
    """

    kind: Kind
    keys: dict[str, Any]
    source: str
    config: RunConfig
    name: str | None

    def on(
        self, workers: Workers, *, name: str | None = None, global_batch: int | None = None
    ) -> RunConfig:
        """Returns the configuration that the workers of a run read.

        Args:
            name: Name of the run; None: as requested.
            global_batch: Showers per step that the number of workers must not change; None: as requested.
        """
        found = self.kind.layout(self.config, workers)
        found = {"training.threads": max(1, int(workers.cpus))} | found
        if global_batch is not None:
            found["training.global_batch_size"] = global_batch
        keys = lay_over(found, self.keys, self.source)
        config = parse_config(keys | {"name": self.config.name}, self.source)
        if not (name := name or self.name):
            digest = spec_digits(config.mathematics() | {"nodes": workers.nodes})[:6]
            name = f"{self.kind.title(config)}-{digest}"
        return config.model_copy(update={"name": checked_name(name)})


def asked_job(request: LaunchRequest, accelerators: int = 0) -> AskedJob:
    """Returns the job of a request; its files are read here, once. Accelerators decide its default preset."""
    given, file = request.training
    given = {key: value for key, value in given.items() if value is not None}
    document = read_run_yaml(str(local_path(file)) if file else None)
    kind = kind_of(given, document)
    kind.check(given, file, request)
    if kind.name == "evolve" and (batch := given.pop(_BATCH, None)):
        given["grid.batch_size"] = batch
    source = file or "the command line"
    accelerated = True if accelerators else _has_accelerator(request)
    keys = lay_over(with_preset(given, document, accelerated), document, source)
    preset = keys["model"]["preset"] if isinstance(keys.get("model"), dict) else ""
    config = parse_config(keys | {"name": keys.get("name") or str(preset)}, source)
    check_stages(config.parallel.stages, config.model)
    return AskedJob(kind, keys, source, config, request.name)


def _has_accelerator(request: LaunchRequest) -> bool | None:
    """Whether the requested nodes have an accelerator; None: as this machine."""
    name = request.accelerator_name
    if name is None and request.price_as:
        return catalog_with(request.price_file).row(request.price_as).accelerator_count > 0
    if name is None:
        return None if request.provider == "local" else request.is_provisioned
    nodes = (row for row in load_catalog(name).rows if row.node_type.casefold() == name.casefold())
    return all(row.accelerator_count > 0 for row in nodes)


def batch_rule(config: RunConfig, global_batch: int | None = None) -> BatchRule:
    """Returns the batches that a run may have.

    Those that were requested; else for the paper's network all that fit the memory, up to the largest that the paper
    trained to the end; else the usual one on each replica: nothing is known of the physics with a larger one.
    """
    training, usual = config.training, find_profile(config.model.networks).batch
    is_paper = config.model.network_name == PAPER_NETWORK
    whole = global_batch or training.global_batch_size
    kept = None if is_paper or whole else usual
    footprint = footprint_on(config, "GPU")
    return BatchRule(
        per_replica=None if global_batch else training.batch_per_replica or kept,
        global_batch=whole,
        usual=usual,
        most_global=max(trained_batches()),
        replica_bytes=lambda batch: footprint.of_replica(batch) * (1 + ERROR),
    )


def usd_of_earlier_attempts(folder: RunFolder) -> float:
    """Returns the known cost of all attempts of a run until now, in USD."""
    return usd_until_now(folder_ledger(folder.launch_file, folder.record_file))


def workers_on(request: LaunchRequest, nodes: int, node: Node | None) -> Workers:
    """Returns the resources of each worker; without a node type of an offer those of the request."""
    accelerator, count = _accelerator(request, node)
    cpus, memory_gib = request.cpus, request.memory_gib
    if request.provider == "local":
        machine = this_machine()
        cpus = cpus or max(1, machine.cores // nodes)
        memory_gib = memory_gib or max(1.0, round((machine.memory_gib or _GIB) / nodes, 1))
    return Workers(
        nodes=nodes,
        accelerator=accelerator,
        accelerators_per_node=count,
        cpus=cpus
        or _fitting(_CORES_PER_ACCELERATOR * count or _CORES, node.vcpu if node else None),
        memory_gib=memory_gib
        or _fitting(_GIB_PER_ACCELERATOR * count or _GIB, node.memory_gib if node else None),
        node_selector=dict(request.node_selector),
        env=run_variables(request.env, request.secrets, request.env_file),
        secrets=request.secrets,
        kubernetes_secrets=request.kubernetes_secrets,
        pull_secret=request.pull_secret,
        allow_open_ports=request.allow_open_ports,
    )


def with_image(request: LaunchRequest, workers: Workers, config: RunConfig) -> Workers:
    """Returns workers with the image of their pods: the requested one, or a public one for the engine."""
    if request.provider in ("local", "slurm"):
        return workers
    is_python = workers.accelerators_per_node or config.uses_jax  # TensorFlow's has no JAX
    image = request.image or (PYTHON_IMAGE if is_python else _PUBLIC_IMAGE)
    return workers.model_copy(update={"image": image})


def _fitting(wanted: float, capacity: float | None) -> float:
    return wanted if capacity is None else max(1, min(wanted, int(_NODE_SHARE * capacity)))


def _accelerator(request: LaunchRequest, node: Node | None) -> tuple[str | None, int]:
    """Accelerator and count per node, by the catalog's spelling or the offer."""
    name, count = request.accelerator_name, request.accelerator_count
    if node is None:
        return (spelt(name), count) if name else (None, 0)
    if name is None:
        return (node.accelerator, node.accelerator_count) if node.accelerator_count else (None, 0)
    if request.is_provisioned:  # the search has matched them
        return node.accelerator, node.accelerator_count
    if count != node.accelerator_count or not is_of(node.accelerator, name):
        raise ConfigError(
            f"--price-as={request.price_as} has {node.accelerator_count} x {node.accelerator}, and"
            f" --accelerator={name}:{count} was given; they must agree"
        )
    return node.accelerator, count


def memory_warnings(config: RunConfig, workers: Workers) -> tuple[str, ...]:
    """Returns a warning if the batch is expected not to fit in memory.

    An accelerator's memory is that of the catalog, a CPU worker's the requested one. For TPUs no
    measurement exists.
    """
    if not config.trains_one:
        return ()
    replicas = workers.accelerators_per_node or config.training.replicas or 1
    try:
        batch = config.global_batch(replicas * workers.nodes) // (replicas * workers.nodes)
    except ConfigError:
        return ()  # reported where the plan refuses it
    if workers.accelerators_per_node:
        available = None  # of a TPU, or unknown
        if workers.accelerator and not workers.accelerator.startswith("TPU"):
            its = [
                one for one in machines.table().values() if one.accelerator == workers.accelerator
            ]
            known = [one.accelerator_memory_gib for one in its if one.accelerator_memory_gib]
            available = min(known, default=None)
        expected = footprint_on(config, "GPU").of_replica(batch)
        owner = f"one {workers.accelerator}"
    else:
        available = workers.memory_gib
        expected = footprint_on(config, "CPU").of_process(batch, replicas)
        owner = "a worker"
    if available is None or expected <= available * (1 << 30):
        return ()
    warning = (
        f"a batch of {batch} per replica needs about {in_gib(expected)}, and {owner} has"
        f" {available:.3g} GiB; give a smaller --batch, or more memory"
    )
    return (warning,)
