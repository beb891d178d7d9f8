"""Scripted clouds in memory, for tests of the code that all clouds share.

`CloudDouble` implements `launch.clouds.client.CloudClient`, `RulesDouble` implements
`launch.clouds.planner.CloudPlanner`. `install` puts both in place of the modules of a cloud, where commands find them:

    double = CloudDouble("gcp", tmp_path)
    double.refuse("node pool", "no V100 in this zone", region="us-central1")
    install(monkeypatch, double)
    main(["deploy", "--provider=gcp", ...])

Each `Trouble` scripts a delay or a fault; `calls` has all requests. Nodes are no machines: a `PlaceDouble`
for each run replaces the trainer, as on machines of Cloud TPU, which are in no cluster. If a test gives the
cluster's API as `api`, such as a `JobDouble`, a run has a cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from cloudgan.core.errors import (
    CapacityError,
    CredentialsError,
    LaunchError,
    PlanError,
    StockOutError,
)
from cloudgan.core.labels import RUN, SHARED
from cloudgan.launch.clouds.planner import CloudPlanner, NodePoolRequest, desired_state_step
from cloudgan.launch.clouds.resource import Finding, Listing, Resource, ResourceCause
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import NodePool, Plan, Step, Target, Workers
from cloudgan.schema.run_state import RunState
from launch.lifecycle.place_double import PlaceDouble

BUCKET, CLUSTER, POOL, IDENTITY = "bucket", "cluster", "pool", "identity"
RANKS = {POOL: 10, CLUSTER: 60, IDENTITY: 65, BUCKET: 70}
PROJECT, REGION = "lab-1", "us-central1"
LOGIN = Finding("login", "ok", "marie in project lab-1")
How = Literal["refused", "failed", "never ready", "broken"]


@dataclass
class Trouble:
    """A planned fault of the resources of a kind.

    Attributes:
        why: The cloud's sentence.
        how: refused: the request is; failed: it is accepted, and the resource fails later; never ready: it stays in
            the making; broken: any other refusal.
        cause: Of a failure.
        region: Only there; None: everywhere. Of pools also market, node type and zone.
    """

    kind: str
    why: str
    how: How = "refused"
    cause: ResourceCause = "capacity"
    region: str | None = None
    market: str | None = None
    node_type: str | None = None
    zone: str | None = None
    times: int = 10**6

    def meets(self, body: Mapping[str, Any]) -> bool:
        wanted = {"kind": self.kind, "region": self.region, "market": self.market}
        wanted |= {"node_type": self.node_type, "zone": self.zone}
        return self.times > 0 and all(
            value is None or body.get(key) == value for key, value in wanted.items()
        )


@dataclass
class CloudDouble:
    """One account of one cloud.

    Attributes:
        name: Of the cloud.
        folder: Its buckets are folders in here.
        there: What exists, by name.
        troubles: Planned faults; the first that matches a request applies.
        calls: All requests, as (verb, subject).
        made: The step of each accepted request, in order.
        api: Of every cluster; None: runs have no cluster around their nodes, or none answers.
        runs: The replaced trainer by run; a test may set its states before.
        zones: Letters of the zones with the node type, in each region.
        quota: Missing quota by region, as `check` reports it.
        unserved: Regions without these machines, as `resolve_placeholders` reports it.
        findings: What `check` returns if no quota is missing.
        has_no_login: Whether no login is found.
        sees: Gets each step before it is taken; may raise.
        passes: Runs at each listing and query of the cluster: changes of the cloud's own.
        deleted: Names, in the order in which they went.
        refuses: A deletion of such a name is refused so often.
        fails: Raises this error at each deletion and query of such a name.
        lingers: How often `refresh` still finds a resource that is being deleted.
        silent: Zones that do not answer.
    """

    name: str = "gcp"
    folder: Path = Path()
    there: dict[str, Resource] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    made: list[Step] = field(default_factory=list)
    api: Any = None
    runs: dict[str, PlaceDouble] = field(default_factory=dict)
    zones: str = "a"
    quota: dict[str, str] = field(default_factory=dict)
    unserved: dict[str, str] = field(default_factory=dict)
    has_no_login: bool = False
    findings: tuple[Finding, ...] = (LOGIN,)
    sees: Callable[[Step], None] = lambda step: None
    passes: Callable[[], None] = lambda: None
    deleted: list[str] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)
    fails: dict[str, Exception] = field(default_factory=dict)
    lingers: int = 0
    silent: list[str] = field(default_factory=list)

    # For tests.

    def refuse(self, kind: str, why: str, how: How = "refused", **where: Any) -> Trouble:
        """Plans a fault of the resources of a kind from now on."""
        self.troubles.append(Trouble(kind, why, how, **where))
        return self.troubles[-1]

    def add(self, kind: str, name: str, run: str | None = None, **more: Any) -> Resource:
        """Adds a resource: of a run, or one that all runs share."""
        labels = ({RUN: run} if run else {SHARED: kind}) | more.pop("labels", {})
        known = {"state": "ready", "labels": labels, "deletion_order": RANKS[kind]}
        known |= {"region": REGION, "may_be_foreign": kind != POOL}
        self.there[name] = Resource(kind=kind, name=name, **(known | more))
        return self.there[name]

    @property
    def nodes(self) -> int:
        """How many machines bill."""
        return sum(resource.nodes for resource in self.there.values() if resource.kind == POOL)

    def kinds(self) -> list[str]:
        """The kinds of all that exists."""
        return sorted(resource.kind for resource in self.there.values())

    def asked(self, verb: str) -> list[str]:
        """Returns the subjects of the requests with a verb."""
        return [subject for each, subject in self.calls if each == verb]

    # The functions of CloudClient.

    def identify(self) -> Mapping[str, str]:
        if self.has_no_login:
            raise CredentialsError(f"{self.name}: no login was found; type: gcloud auth login")
        return {"account": PROJECT, "who": "marie@example.org"}

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        self.identify()
        region = plan.target.region or ""
        self.calls.append(("resolve_placeholders", region))
        if region in self.unserved:
            raise PlanError(self.unserved[region])
        wanted = plan.target.zone or "<zone>"
        zones = [f"{region}-{one}" for one in self.zones] if wanted == "<zone>" else [wanted]
        return {"<account>": PROJECT, "<zone>": zones[0], "<zones>": " ".join(zones)}

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        self.identify()
        region = (plan.target.region if plan else region) or ""
        self.calls.append(("check", region))
        if region in self.quota:
            return (Finding(f"quota in {region}", "missing", self.quota[region], is_quota=True),)
        return self.findings

    def find(self, step: Step) -> Resource | None:
        self.calls.append(("find", step.ensure))
        return self.there.get(step.find or "")

    def create(self, step: Step) -> None:
        self.calls.append(("create", step.ensure))
        self.sees(step)
        body: Any = step.body
        trouble = next((one for one in self.troubles if one.meets(body)), None)
        if trouble:
            trouble.times -= 1
        if trouble and trouble.how == "refused":
            kind = StockOutError if trouble.cause == "capacity" else CapacityError
            raise kind(trouble.why)
        if trouble and trouble.how == "broken":
            raise LaunchError(trouble.why)
        self.made.append(step)
        self._make(str(step.find), body, trouble)

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        self.identify()
        self.passes()
        self.calls.append(("list_resources", run or ""))
        silent = [
            one for one in self.silent if regions is None or one.rpartition("-")[0] in regions
        ]
        return Listing(
            (
                one
                for one in self.there.values()
                if run in (None, one.run)
                if one.region not in silent
                if regions is None or one.region in regions
            ),
            silent,
        )

    def delete(self, resource: Resource) -> None:
        name = resource.name
        self.calls.append(("delete", name))
        if resource.kind == BUCKET and list((self.folder / name).rglob("*.*")):
            raise LaunchError("the bucket you tried to delete is not empty")
        if name in self.fails:
            raise self.fails[name]
        if self.refuses.get(name, 0) > 0:
            self.refuses[name] -= 1
            raise LaunchError("another operation runs on this cluster")
        now = self.there.get(name)
        if now is not None and now.state != "deleting":
            self.there[name] = replace(now, state="deleting")
            self.deleted.append(name)

    def refresh(self, resource: Resource) -> Resource | None:
        self.calls.append(("refresh", resource.name))
        if resource.name in self.fails:
            raise self.fails[resource.name]
        now = self.there.get(resource.name)
        if now is not None and now.state == "deleting":
            self.lingers -= 1
            if self.lingers < 0:
                del self.there[resource.name]
        return self.there.get(resource.name)

    def cluster_api(self, target: Target) -> Any:
        self.passes()
        has_any = any(one.kind == CLUSTER for one in self.there.values())
        return self.api if has_any else None

    def job_backend(self, plan: Plan) -> RunOfNodes | None:
        """Returns the backend of a plan that runs outside Kubernetes."""
        if plan.node_pool is None or plan.node_pool.engine == "cluster":
            return None
        self.runs.setdefault(plan.run, PlaceDouble())
        return RunOfNodes(self, plan)

    def _make(self, name: str, body: Mapping[str, Any], trouble: Trouble | None) -> None:
        known = {key: value for key, value in body.items() if key != "zone"}
        rank = RANKS[body["kind"]]
        resource = Resource(name=name, state="ready", deletion_order=rank, **known)
        if trouble and trouble.how == "never ready":
            resource = replace(resource, state="creating", reason=trouble.why)
        elif trouble and trouble.how == "failed":
            resource = replace(
                resource, state="failed", reason=trouble.why, cause=trouble.cause, nodes=0
            )
        self.there[name] = resource


class RunOfNodes:
    """The `JobBackend` of a run's nodes: its job is absent without them."""

    def __init__(self, cloud: CloudDouble, plan: Plan) -> None:
        self._cloud, self._plan, self._inner = cloud, plan, cloud.runs[plan.run]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def state(self, run: str) -> RunState:
        labelled = (run, self._plan.node_run)
        there = self._cloud.there.values()
        pools = [one for one in there if one.run in labelled and one.kind == POOL]
        if not any(pool.state in ("ready", "creating") for pool in pools):
            return RunState("absent")
        return self._inner.state(run) if self._inner.states else RunState("finished")

    def destroy(self, run: str) -> Iterator[str]:
        yield from ()

    def clear(self, run: str) -> None:
        self.stop(run)

    def stop(self, run: str) -> None:
        self._inner.calls.append(("stop", run))

    def nodes(self, run: str) -> tuple[Node, ...]:
        return ()


class RulesDouble:
    """The planner of a cloud: its bucket is a folder, and it plans all node types that a test does not refuse.

    Args:
        cloud: Whose rules these are.
        refused: Types of nodes that it refuses, with the reason.
        engine: What runs the job; None: TPUs are machines of their own, GPUs are in a cluster.
        hosts: Machines of a node.
    """

    def __init__(
        self,
        cloud: CloudDouble,
        refused: Mapping[str, str] | None = None,
        engine: Literal["cluster", "tpu_vm"] | None = "tpu_vm",
        hosts: int = 1,
    ) -> None:
        self._cloud, self._refused, self._engine = cloud, refused or {}, engine
        self._hosts = hosts

    def target(
        self, account: str | None, region: str, zone: str | None, cluster: str | None
    ) -> Target:
        return Target(
            provider=self._cloud.name,
            account=account or "<account>",
            region=region,
            zone=zone or "<zone>",
            cluster=cluster or "cloudgan",
            namespace="cloudgan",
            service_account="cloudgan",
        )

    def node_pool(self, wanted: NodePoolRequest) -> NodePool:
        if wanted.node_type in self._refused:
            raise PlanError(self._refused[wanted.node_type])
        engine = self._engine or ("tpu_vm" if wanted.node_type[:1] == "v" else "cluster")
        return wanted.pool(40, engine=engine, hosts=self._hosts)

    def workers(self, workers: Workers, node_pool: NodePool) -> Workers:
        return workers.model_copy(update={"grace_seconds": 25})

    def store_url(self, place: Target) -> str:
        return str(self._cloud.folder / f"{self._cloud.name}-{place.region}")

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        node_pool, region = plan.node_pool, plan.target.region
        assert node_pool is not None
        pool = {
            "nodes": plan.workers.nodes,
            "node_type": node_pool.node_type,
            "market": node_pool.market,
            "zone": plan.target.zone,
            "labels": plan.labels().as_dict(),
            "parent": f"{region}/{plan.target.cluster}",
        }
        bucket = self.setup_steps(plan.target)[0]
        nodes = _step(POOL, f"{region}/{node_pool.name}", region, **pool)
        if node_pool.engine == "tpu_vm":
            return bucket, desired_state_step(plan), nodes
        cluster = _step(CLUSTER, f"{region}/{plan.target.cluster}", region, fee="GKE standard")
        return bucket, desired_state_step(plan), cluster, nodes

    def keep_steps(self, plan: Plan) -> tuple[Step, ...]:
        return (
            Step(ensure=f"Job that holds the nodes of {plan.run}", method="POST", path="/jobs"),
        )

    def setup_steps(self, place: Target) -> tuple[Step, ...]:
        return (
            _step(BUCKET, f"{self._cloud.name}-{place.region}", place.region, is_free=True),
            _step(IDENTITY, "cloudgan-pods", place.region, is_free=True),
        )


def _step(kind: str, name: str, region: str | None, **body: Any) -> Step:
    known = {"kind": kind, "region": region, "labels": {SHARED: kind}}
    return Step(
        ensure=f"{kind} {name}",
        method="POST",
        path=f"https://cloud.example/{name}",
        find=name,
        at="cloud",
        body=known | body,
    )


def installed(monkeypatch: Any, folder: Path, provider: str = "gcp") -> CloudDouble:
    """Replaces a cloud by a double with all nodes in clusters; its buckets are in ``folder/buckets``."""
    cloud = CloudDouble(provider, folder / "buckets")
    install(monkeypatch, cloud, RulesDouble(cloud, engine="cluster"))
    return cloud


def install(monkeypatch: Any, cloud: CloudDouble, rules: CloudPlanner | None = None) -> None:
    """Replaces the modules of a cloud by a double; nothing waits long for it."""

    class Client:
        @staticmethod
        def open(place: Target, say: Callable[[str], None]) -> CloudDouble:
            cloud.identify()
            return cloud

    name = {"aws": "AwsClient", "azure": "AzureClient", "gcp": "GcpClient"}[cloud.name]
    modules = {"planner": rules or RulesDouble(cloud), "client": SimpleNamespace(**{name: Client})}
    for module, double in modules.items():
        monkeypatch.setitem(sys.modules, f"cloudgan.launch.clouds.{cloud.name}.{module}", double)
    monkeypatch.setattr("cloudgan.launch.lifecycle.provisioned_backend._POLL_SECONDS", 0.001)


class JobDouble:
    """The API of a cluster with the Jobs of some runs.

    Attributes:
        active: Runs whose Job has a pod that runs.
    """

    def __init__(self, *active: str) -> None:
        self.active = set(active)

    def get(self, path: str) -> dict[str, Any] | None:
        run = path.rpartition("/")[2]
        if "/jobs/" not in path or run not in self.active:
            return None
        return {
            "metadata": {"name": run, "creationTimestamp": "2026-11-21T12:00:00Z"},
            "spec": {"completions": 1, "parallelism": 1},
            "status": {"active": 1, "startTime": "2026-11-21T12:00:00Z"},
        }

    def list(self, path: str, selector: str = "") -> dict[str, Any]:
        return {"items": [], "metadata": {}}

    def delete(self, path: str) -> bool:
        self.active.discard(path.rpartition("/")[2])
        return False
