"""A cloud in memory, its client and its planner, for tests of the code that all clouds share.

It implements `launch.clouds.client.CloudClient` and `launch.clouds.planner.CloudPlanner`. Tests install it in
place of the modules of a cloud; they patch nothing else of the product.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.core.labels import RUN, SHARED
from cloudgan.schema.plan import NodePool, Plan, Step, Target, Workers
from cloudgan.schema.resource import Finding, Listing, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from cloudgan.core.clouds import CloudName
    from cloudgan.launch.clouds.planner import NodePoolRequest

PROJECT, REGION = "lab-1", "us-central1"
KINDS = {"bucket": 70, "identity": 65, "cluster": 60, "pool": 10}


class CloudDouble:
    """One account.

    Attributes:
        there: What exists, by name.
        findings: What `check` returns.
        api: Of every cluster; None: none answers.
        deleted: Names, in the order in which they went.
        refuses: A deletion of such a name is refused so often.
        has_no_login: Whether no login is found.
        silent: Zones that do not answer.
        fails: Raises this error at each deletion and query of such a name.
        lingers: How often `refresh` still finds a resource that is being deleted.
        sees: Gets each step that creates a resource.
        passes: Runs at each listing and query of the cluster: changes of the cloud's own.
        buckets: Folder that holds them.
    """

    def __init__(self, buckets: Path = Path()) -> None:
        self.there: dict[str, Resource] = {}
        self.buckets = buckets
        self.findings: tuple[Finding, ...] = (Finding("login", "ok", "marie in project lab-1"),)
        self.api: Any = None
        self.deleted: list[str] = []
        self.refuses: dict[str, int] = {}
        self.has_no_login = False
        self.silent: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.lingers = 0
        self.asked: list[tuple[str, ...]] = []
        self.sees: Callable[[Step], None] = lambda step: None
        self.passes: Callable[[], None] = lambda: None

    def add(self, kind: str, name: str, run: str | None = None, **more: Any) -> Resource:
        """Adds a resource, with the labels of a run or as one that all runs share."""
        labels = {RUN: run} if run else {SHARED: kind}
        labels |= more.pop("labels", {})
        known = {"region": REGION, "deletion_order": KINDS[kind], "labels": labels}
        known |= {"may_be_foreign": kind != "pool"} | more
        resource = Resource(kind=kind, name=name, **({"state": "ready"} | known))
        self.there[name] = resource
        return resource

    def identify(self) -> Mapping[str, str]:
        if self.has_no_login:
            raise CredentialsError(
                "Google Cloud: no login was found; type: gcloud auth application-default login"
            )
        return {"project": PROJECT, "who": "marie@example.org"}

    def resolve_placeholders(self, plan: Plan) -> Mapping[str, str]:
        self.identify()
        return {"<project>": PROJECT, "<zone>": f"{REGION}-a"}

    def check(self, plan: Plan | None, region: str | None = None) -> tuple[Finding, ...]:
        self.identify()
        self.asked.append(("check", plan.run if plan else "", region or ""))
        return self.findings

    def find(self, step: Step) -> Resource | None:
        return self.there.get(step.find or "")

    def create(self, step: Step) -> None:
        body: Any = step.body
        self.asked.append(("create", step.ensure))
        self.sees(step)
        self.there[str(step.find)] = Resource(
            state="ready", deletion_order=KINDS[body["kind"]], name=str(step.find), **body
        )

    def list_resources(
        self, run: str | None = None, regions: Collection[str] | None = None
    ) -> Listing:
        self.identify()
        self.passes()
        silent = [
            one for one in self.silent if regions is None or one.rpartition("-")[0] in regions
        ]
        return Listing(
            (
                resource
                for resource in self.there.values()
                if run is None or resource.labels.get(RUN) == run
                if resource.region not in silent
                if regions is None or resource.region in regions
            ),
            silent,
        )

    def delete(self, resource: Resource) -> None:
        if resource.kind == "bucket" and list((self.buckets / resource.name).rglob("*.*")):
            raise LaunchError("the bucket you tried to delete is not empty")
        if resource.name in self.fails:
            raise self.fails[resource.name]
        if self.refuses.get(resource.name, 0) > 0:
            self.refuses[resource.name] -= 1
            raise LaunchError("another operation runs on this cluster")
        now = self.there.get(resource.name)
        if now is None or now.state == "deleting":
            return
        self.there[resource.name] = replace(now, state="deleting")
        self.deleted.append(resource.name)

    def refresh(self, resource: Resource) -> Resource | None:
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
        has_any = any(one.kind == "cluster" for one in self.there.values())
        return self.api if has_any else None

    def job_backend(self, plan: Plan) -> None:
        return None


class RulesDouble:
    """A cloud whose bucket is a folder of the test."""

    def __init__(self, folder: Path, provider: CloudName = "gcp") -> None:
        self._folder, self._provider = folder, provider

    def target(
        self, account: str | None, region: str, zone: str | None, cluster: str | None
    ) -> Target:
        return Target(
            provider=self._provider,
            account=account or "<project>",
            region=region,
            zone=zone or "<zone>",
            cluster=cluster or "cloudgan",
            namespace="cloudgan",
            service_account="cloudgan",
        )

    def node_pool(self, wanted: NodePoolRequest) -> NodePool:
        return NodePool(
            node_type=wanted.node_type,
            market=wanted.market,
            reservation=wanted.reservation,
            name=wanted.run,
            keep_cluster=wanted.keep_cluster,
            keep_seconds=wanted.keep_seconds,
            served_runs=wanted.served_runs,
        )

    def workers(self, workers: Workers, node_pool: NodePool) -> Workers:
        return workers

    def store_url(self, place: Target) -> str:
        return f"{self._folder}/cloudgan-{place.account}-{place.region}"

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        desired_state = Step(
            ensure=f"desired state of run {plan.run}",
            method="PUT",
            path=f"{plan.store}/runs/{plan.run}/desired-state/",
            at="store",
        )
        assert plan.node_pool is not None
        cluster = _step("cluster", "cloudgan", plan.target, fee="GKE standard")
        pool = _step(
            "pool",
            f"cloudgan/{plan.node_pool.name}",
            plan.target,
            labels=plan.labels().as_dict(),
            parent="cloudgan",
            node_type=plan.node_pool.node_type,
            market=plan.node_pool.market,
            nodes=plan.workers.nodes,
        )
        return (self.setup_steps(plan.target)[0], desired_state, cluster, pool)

    def setup_steps(self, place: Target) -> tuple[Step, ...]:
        return (
            _step("bucket", f"cloudgan-{place.account}-{place.region}", place, is_free=True),
            _step("identity", "cloudgan-pods", place, is_free=True),
        )


def _step(kind: str, name: str, place: Target, **more: Any) -> Step:
    known = {"kind": kind, "region": place.region, "labels": {SHARED: kind}}
    return Step(
        ensure=f"{kind} {name}",
        method="POST",
        path=f"https://cloud.example/{kind}s",
        at="cloud",
        find=name,
        body=known | more,
    )


def installed(monkeypatch: Any, folder: Path, provider: CloudName = "gcp") -> CloudDouble:
    """Replaces the modules of a cloud by a double; its buckets are in ``folder/buckets``."""
    cloud, found = CloudDouble(folder / "buckets"), RulesDouble(folder / "buckets", provider)
    pure, client = ModuleType("requests of a double"), ModuleType("client of a double")
    for name in ("target", "node_pool", "workers", "store_url", "steps", "setup_steps"):
        setattr(pure, name, getattr(found, name))

    class Client:
        @staticmethod
        def open(place: Target, say: Callable[[str], None]) -> CloudDouble:
            cloud.identify()
            return cloud

    setattr(
        client, {"aws": "AwsClient", "azure": "AzureClient", "gcp": "GcpClient"}[provider], Client
    )
    monkeypatch.setitem(sys.modules, f"cloudgan.launch.clouds.{provider}.planner", pure)
    monkeypatch.setitem(sys.modules, f"cloudgan.launch.clouds.{provider}.client", client)
    return cloud


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
