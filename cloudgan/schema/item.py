"""What money is spent on: the identifiers of lines in plan.json and cost.json, and their titles."""

from enum import StrEnum
from typing import Literal, Self

BillCategory = Literal["compute", "disk", "storage", "network", "control plane", "other"]


class Item(StrEnum):
    """An item of cost.

    Attributes:
        category: Category of a cloud's bill. What all runs of a cluster share has no label of a run:
            it is in `control plane`, whatever the cloud calls it.
    """

    display: str
    category: BillCategory

    def __new__(cls, value: str, display: str, category: BillCategory = "compute") -> Self:
        """Makes a member with its title and category."""
        made = str.__new__(cls, value)
        made._value_ = value
        made.display, made.category = display, category
        return made

    TRAINING = "training", "training"
    STARTUP = "startup", "node startup"
    STAGING = "staging", "staging of wheels and data"
    NODES = "nodes", "nodes"
    PROVISIONING = "provisioning", "provisioning"
    SET_UP = "set_up", "node set-up and image pull"
    INSTALL = "install", "wheel installation"
    SMOKE_STEP = "smoke_step", "smoke step and wait for all workers"
    START_UP = "start_up", "start-up and data staging"
    FIRST = "first_epoch", "first epoch"
    STEADY = "steady_epochs", "steady epochs"
    VALIDATION = "validation", "validation"
    CHECKPOINTS = "checkpoints", "checkpoints"
    REPEATED = "repeated", "preempted and repeated work"
    OTHER = "other", "other program time"
    INCONSISTENT = "inconsistent", "program, with activities longer than its total"
    COMPUTE = "compute", "compute"
    PROCESS_START = "process_start", "start of a process"
    PROCESS_END = "process_end", "end of a killed process"
    TAIL = "idle_tail", "idle tail"
    ROUNDING = "rounding", "billing minimum and rounding"
    NOT_ATTRIBUTED = "not_attributed", "unattributed node time"
    WAITING = "waiting", "waiting for the next run"
    CLUSTER = "cluster", "cluster", "control plane"
    SYSTEM_NODES = "system_nodes", "system nodes of the cluster", "control plane"
    CLUSTER_DISKS = "cluster_disks", "disks of the cluster", "control plane"
    CLUSTER_ADDRESSES = "cluster_addresses", "public addresses of the cluster", "control plane"
    LOAD_BALANCER = "load_balancer", "load balancer of the cluster", "control plane"
    BESIDE_NODES = "beside_nodes", "disks, addresses and data transfer of the nodes", "disk"
    DISKS = "disks", "disks of the nodes", "disk"
    ADDRESSES = "addresses", "public addresses of the nodes", "network"
    NAT = "nat", "NAT of the network", "network"
    TRANSFER = "transfer", "data transfer", "network"
    STORAGE = "storage", "storage", "storage"
    REQUESTS = "requests", "requests to the bucket", "storage"
    RESERVATION = "reservation", "the reservation before and after this run"
    EGRESS = "egress", "egress", "network"
