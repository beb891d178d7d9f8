"""Plans for the clouds as the command line makes them, and one user's emulated account."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cloudgan.core import machines
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.engine import Engine
from cloudgan.launch.clouds.planner import NodePoolRequest, cloud_planner
from cloudgan.launch.clouds.resource import Resource
from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.lifecycle.provisioned_backend import ProvisionedBackend
from cloudgan.launch.lifecycle.run_registry import RunRegistry
from cloudgan.launch.plan.build import PlanRequest, all_steps, make_plan, with_node_pool
from cloudgan.money.catalog import shipped_catalog
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import INTERNAL_IPS, Plan, Showers, Step, Workers, fill_placeholders
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.run_folder import RunFolder
from cloudgan.speed.model import build_throughput_model
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import Store
from crashing import Outcome, When, run_killed
from emulators.kubernetes import Cluster

IMAGE = "registry.example/lab/cloudgan@sha256:" + "5" * 64
NOW = dt.datetime(2026, 11, 21, 9, 30, tzinfo=dt.UTC)
POLL_SECONDS = 0.002
USUAL = {
    "aws": ("g4dn.xlarge", "us-east-1"),
    "azure": ("Standard_NC4as_T4_v3", "eastus"),
    "gcp": ("g2-standard-4", "us-central1"),
}
"""A machine of each cloud with one GPU, and its region."""
EACH = pytest.mark.parametrize("lab", USUAL, indirect=True)
AWS, AZURE, GCP = (pytest.mark.parametrize("lab", [one], indirect=True) for one in USUAL)
EACH_WHOLE = pytest.mark.parametrize("whole_lab", USUAL, indirect=True)
OF_POOL = {one.name for one in fields(NodePoolRequest)}


def wanted(provider: str, node_type: str = "", **changes: Any) -> NodePoolRequest:
    """Returns the request for the nodes of a run."""
    usual = {"run": "gan", "spec_hash": "", "market": "on_demand", "nodes": 1}
    return NodePoolRequest(node_type=node_type or USUAL[provider][0], **usual | changes)


def planned(
    provider: str,
    node_type: str = "",
    *,
    name: str = "gan",
    region: str = "",
    account: str | None = None,
    zone: str | None = None,
    cluster: str | None = None,
    details: dict[str, str] | None = None,
    epochs: int = 2,
    **others: Any,
) -> Plan:
    """Returns a plan with placeholders; `others` are fields of `NodePoolRequest` and `PlanRequest`."""
    planner, region = cloud_planner(provider), region or USUAL[provider][1]
    target = planner.target(account, region, zone, cluster)
    target = target.model_copy(update={"details": target.details | (details or {})})
    asked = {key: others.pop(key) for key in OF_POOL & set(others)}
    asked |= {"run": name, "internal_ips": INTERNAL_IPS in target.details}
    pool = wanted(provider, node_type, **{"has_own_image": True} | asked)
    machine = machines.table().get((provider, pool.node_type))
    kind: dict[str, Any] = {}
    if machine:
        kind = {"accelerator": machine.accelerator, "accelerators_per_node": machine.accelerators}
    url = others.pop("store", planner.store_url(target))
    training: dict[str, Any] = {"epochs": epochs, "seed": 7, "threads": 2}
    if pool.nodes > 1:
        training |= {"strategy": "multiworker", "workers": pool.nodes}
    config = {"name": name, "data": {"path": f"{url}/data/0a1b"}, "training": training}
    values = {
        "config": parse_config(config, "a test"),
        "target": target,
        "workers": Workers(nodes=pool.nodes, cpus=2, memory_gib=8, image=IMAGE, **kind),
        "store": url,
        "showers": Showers(source="electrons.h5", records=124_987),
        "owner": "physicist",
        "price": _prices().get((provider, pool.node_type, region, pool.market)),
    }
    request = with_node_pool(PlanRequest(**values | others), pool)
    return make_plan(request, build_throughput_model("paper", 1000, ()), all_steps, NOW)


@functools.cache
def _prices() -> dict[tuple[str, ...], PriceRow]:
    return {
        (one.provider, one.node_type, one.region, one.market): one for one in shipped_catalog().rows
    }


def rows(*found: tuple[Any, ...]) -> list[Any]:
    """Parametrizes by cloud and what follows; the second value names the row."""
    return [pytest.param(one[0], *one[2:], id=f"{one[0]}-{one[1]}") for one in found]


def of_cloud(plan: Plan) -> list[Step]:
    """Returns the steps that the cloud gets, without those of the store and the cluster."""
    return [step for step in plan.steps if step.at == "cloud"]


class Lab(ABC):
    """An emulated account after `setup`, and a user whose processes keep nothing but a folder."""

    provider: str

    account: Callable[[Path], Any]
    """Opens an emulated account whose files are in a folder."""

    def __init__(self, folder: Path, cluster: Cluster | None = None) -> None:
        self.folder, self.cluster = folder, cluster
        self.said: list[str] = []

    @abstractmethod
    def cloud(self) -> CloudClient:
        """Returns a client as a new process opens it."""

    @abstractmethod
    def left(self) -> list[str]:
        """Returns what the account holds that `setup` did not create, sorted by name."""

    @abstractmethod
    def pools_created(self) -> int:
        """Returns how many requests to create a pool the cloud got."""

    @abstractmethod
    def names_of(self, resource: Resource) -> list[str]:
        """Returns the names of a listed resource as `left` has them."""

    def store(self) -> Store:
        """Returns the run's store."""
        return FolderStore(self.folder / "store")

    def planned(self, node_type: str = "", **asked: Any) -> Plan:
        return planned(self.provider, node_type, **asked)

    def resolved(self, plan: Plan) -> Plan:
        """Returns a plan with the values of the account, as `deploy` does."""
        found = fill_placeholders(plan, self.cloud().resolve_placeholders(plan))
        return found.model_copy(update={"steps": all_steps(found)})

    def plan(self, node_type: str = "", **asked: Any) -> Plan:
        return self.resolved(self.planned(node_type, **asked))

    def step(self, word: str, plan: Plan | None = None) -> Step:
        """Returns the first request of a plan whose operation or path contains a word."""
        steps = of_cloud(plan or self.plan())
        return next(one for one in steps if word in f"{one.method} {one.path}")

    def engine(self, gone_seconds: float = 10.0) -> Engine:
        return Engine(self.cloud(), self.said.append, POLL_SECONDS, gone_seconds)

    def make(self, plan: Plan | None = None, **asked: Any) -> Plan:
        """Creates the resources of a plan in the account, and starts nothing on them."""
        plan = self.resolved(plan) if plan else self.plan(**asked)
        for step in of_cloud(plan):
            self.engine().ensure(step, plan)
        return plan

    def remove(self, run: str | None = None) -> list[str]:
        """Deletes the resources that the account lists; returns their kinds and names."""
        engine = self.engine()
        return list(engine.destroy(engine.list(run)))

    def launcher(self) -> ProvisionedBackend:
        """Returns the backend of a new process."""
        cloud = self.cloud()

        return ProvisionedBackend(
            cloud,
            RunRegistry(self.store(), "a test"),
            all_steps=all_steps,
            say=self.said.append,
            poll_seconds=POLL_SECONDS,
        )

    def start(self, plan: Plan) -> LaunchLog:
        log = LaunchLog(RunFolder(self.folder / "runs" / plan.run), plan)
        apply(plan, self.launcher(), log, self.said.append)
        return log

    def deploy(self, node_type: str = "", **asked: Any) -> Plan:
        """Deploys like `deploy --detach`; returns the plan."""
        plan = self.plan(node_type, **asked)
        self.start(plan)
        return plan

    def down(self, *runs: str) -> list[str]:
        """Runs `down` in a new process; returns what is left."""
        for run in runs or ("gan",):
            list(self.launcher().destroy(run))
        return self.left()

    def lose_patience(self) -> None:  # noqa: B027  Azure's retries take no time here
        """Opens clients from now on that hardly retry."""

    def in_cluster(self) -> list[str]:
        """Returns the objects of runs in the test cluster."""
        kinds = (
            ("pods", "jobs", "services", "configmaps", "networkpolicies") if self.cluster else ()
        )
        return [
            f"{kind}/{one['metadata']['name']}"
            for kind in kinds
            for one in self.cluster.select(kind, "cloudgan")
            if one["metadata"]["name"] != "kube-root-ca.crt"
        ]

    def forked(self) -> Lab:
        """Returns what a fork of this process uses, whose connections are its own."""
        return self

    def killed(
        self, program: Callable[[Lab], object], number: int | None = None, when: When = "before"
    ) -> Outcome:
        """Runs a program in a process of its own; kills it at a call."""
        return run_killed(lambda: program(self.forked()) and None, self.folder, number, when)

    def reserve(self, count: int = 2) -> str:
        """Reserves the usual machine; returns the name for --reservation, empty if it takes more."""
        raise NotImplementedError

    def listed(self) -> list[str]:
        """Returns what a new process finds, by the names that `left` has."""
        found = [one for one in self.cloud().list_resources() if one.shared in (None, "cluster")]
        return sorted(name for one in found for name in self.names_of(one))


NEEDS = {
    "aws": ("boto3", "moto"),
    "azure": ("azure.mgmt.containerservice",),
    "gcp": ("google.auth", "googleapiclient"),  # whose discovery documents check what is sent
}


@contextlib.contextmanager
def opened(provider: str, folder: Path, cluster: Cluster | None = None) -> Iterator[Lab]:
    """Opens an account after `setup`; its clusters are a test cluster."""
    for library in NEEDS[provider]:
        pytest.importorskip(library)
    module = importlib.import_module(f"launch.clouds.{provider}.lab")
    lab = getattr(module, f"{provider.title()}Lab")
    folder.mkdir(exist_ok=True)
    with lab.account(folder) as made:
        yield lab(folder, made, cluster)
