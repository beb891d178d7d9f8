"""A cloud in memory, and what is true of it without asking: for what is generic over the clouds.

It fulfils `launching.cloud.CloudClient` and `providers.clouds.CloudPlanner`. Tests let it stand where the
modules of a cloud are imported; nothing of the product is patched.
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
from cloudgan.schema.resource import Finding, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloudgan.core.clouds import CloudName
    from cloudgan.launch.clouds.planner import NodePoolRequest

PROJECT, REGION = "lab-1", "us-central1"
KINDS = {"bucket": 70, "identity": 65, "cluster": 60, "pool": 10}


class CloudDouble:
    """One account.

    Attributes:
        there: What exists, by name.
        findings: What `check` tells.
        api: Of every cluster; None: none answers.
        deleted: Names, in the order in which they went.
        refuses: A deletion of such a name is refused so often.
        nobody: Whether no login is found.
        lingers: So many looks see a thing that is being deleted.
        sees: Is told each thing that is made.
        passes: Is called when somebody looks: what happens by itself happens then.
        buckets: Folder that holds them.
    """

    def __init__(self, buckets: Path = Path()) -> None:
        self.there: dict[str, Resource] = {}
        self.buckets = buckets
        self.findings: tuple[Finding, ...] = (Finding("login", "ok", "marie in project lab-1"),)
        self.api: Any = None
        self.deleted: list[str] = []
        self.refuses: dict[str, int] = {}
        self.nobody = False
        self.lingers = 0
        self.asked: list[tuple[str, ...]] = []
        self.sees: Callable[[Step], None] = lambda step: None
        self.passes: Callable[[], None] = lambda: None

    def add(self, kind: str, name: str, run: str | None = None, **more: Any) -> Resource:
        """Puts a thing there, with the labels of a run or as one of all runs."""
        labels = {RUN: run} if run else {SHARED: kind}
        labels |= more.pop("labels", {})
        known = {"region": REGION, "deletion_order": KINDS[kind], "labels": labels} | more
        thing = Resource(kind=kind, name=name, **({"state": "ready"} | known))
        self.there[name] = thing
        return thing

    def identify(self) -> Mapping[str, str]:
        if self.nobody:
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

    def list_resources(self, run: str | None = None) -> tuple[Resource, ...]:
        self.identify()
        self.passes()
        return tuple(
            thing for thing in self.there.values() if run is None or thing.labels.get(RUN) == run
        )

    def delete(self, thing: Resource) -> None:
        if thing.kind == "bucket" and list((self.buckets / thing.name).rglob("*.*")):
            raise LaunchError("the bucket you tried to delete is not empty")
        if self.refuses.get(thing.name, 0) > 0:
            self.refuses[thing.name] -= 1
            raise LaunchError("another operation runs on this cluster")
        now = self.there.get(thing.name)
        if now is None or now.state == "deleting":
            return
        self.there[thing.name] = replace(now, state="deleting")
        self.deleted.append(thing.name)

    def refresh(self, thing: Resource) -> Resource | None:
        now = self.there.get(thing.name)
        if now is not None and now.state == "deleting":
            self.lingers -= 1
            if self.lingers < 0:
                del self.there[thing.name]
        return self.there.get(thing.name)

    def cluster_api(self, plan: Plan) -> Any:
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
    """Lets a double stand for a cloud; its buckets are in ``folder/buckets``."""
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
    """The API of a cluster on which a run's Job is, or not.

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
