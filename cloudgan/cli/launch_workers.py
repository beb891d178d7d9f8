"""What each worker gets: accelerators, cores, memory, and the container it runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.cli.launch_fit import is_rented
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import this_machine
from cloudgan.core.plan import Workers
from cloudgan.cost.catalog import is_of, load_catalog

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.planning.node_kind import NodeKind

PUBLIC_IMAGE = "tensorflow/tensorflow:2.21.0"
_CORES, _CORES_PER_ACCELERATOR = 4, 6
_GIB, _GIB_PER_ACCELERATOR = 8.0, 16.0
_OF_A_NODE = 0.75


def _fitting(wanted: float, of_the_node: float | None) -> float:
    """What is asked for by default: a node keeps a fifth or so for its system, or takes no pod."""
    return wanted if of_the_node is None else max(1, min(wanted, int(_OF_A_NODE * of_the_node)))


def workers_of(flags: LaunchFlags, nodes: int, node: NodeKind | None) -> Workers:
    """Returns what each worker gets.

    Args:
        flags: As asked.
        nodes: How many.
        node: What it has; None: nobody said.

    Raises:
        ConfigError: The accelerators asked and the offer's disagree.
    """
    accelerator, count = _accelerators(flags, node)
    cpus, memory_gib = flags.cpus, flags.memory_gib
    if flags.provider == "local":
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
        node_selector=flags.node_selector,
        image=(flags.image or PUBLIC_IMAGE + ("-gpu" if count else ""))
        if flags.provider not in ("local", "slurm")
        else None,
        secrets=flags.secrets,
    )


def _accelerators(flags: LaunchFlags, node: NodeKind | None) -> tuple[str | None, int]:
    """What each node has: as asked, with the catalogue's spelling, or as the offer says."""
    if flags.accelerator is None:
        has_some = node is not None and node.accelerator_count > 0
        return (node.accelerator, node.accelerator_count) if node and has_some else (None, 0)
    name, count = flags.accelerator
    if node and is_rented(flags):
        return node.accelerator, node.accelerator_count  # that is what it was found by
    if node and (count != node.accelerator_count or not is_of(node, name)):
        raise ConfigError(
            f"--as={flags.offer} has {node.accelerator_count} x {node.accelerator}, and"
            f" --accelerator={name}:{count} was asked; they must agree"
        )
    if node:
        return node.accelerator, count
    spelt = {known.casefold(): known for known in load_catalog().accelerators()}
    return spelt.get(name.casefold(), name), count
