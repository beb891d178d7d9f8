"""Inventory of an account: cloudgan's resources, their runs, and which are orphaned.

The status follows from labels, desired states and Jobs only. A resource of a possibly live run is
never orphaned; at most its status is unknown.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from cloudgan.core.clock import parse_time_or_none
from cloudgan.core.clouds import region_of
from cloudgan.core.errors import CloudganError
from cloudgan.core.labels import EXPIRES, checked_name, moment_of
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.planner import cloud_planner
from cloudgan.launch.clouds.resource import Resource
from cloudgan.launch.lifecycle.ownership import CLUSTER, is_cluster_of, kept_until, user_of
from cloudgan.launch.lifecycle.run_registry import DesiredState, RunRegistry
from cloudgan.launch.operations.targets import open_backend
from cloudgan.schema.plan import Plan, Target
from cloudgan.storage.store import Store, open_store

ResourceStatusName = Literal["expected", "orphaned", "deleting", "unknown"]
"""expected: needed; orphaned: no run needs it; deleting: deletion in progress."""

STARTING: Final = dt.timedelta(hours=2)
"""A run may have no Job this long after its start: cluster, nodes, drivers."""
_LEFTOVER: Final = "leftover"


class ResourceStatus(NamedTuple):
    """Status of a resource and its reason."""

    state: ResourceStatusName
    reason: str

    @property
    def is_orphaned(self) -> bool:
        """Whether no run needs the resource."""
        return self.state in ("orphaned", "deleting")


@dataclass(frozen=True)
class RunView:
    """State of one run.

    Attributes:
        desired_state: The newest; None: in no known store.
        is_alive: Whether its Job runs or waits; None: unknown.
        reason: Phase, or the reason of an unknown state.
    """

    run: str
    desired_state: DesiredState | None
    is_alive: bool | None
    reason: str = ""


@dataclass(frozen=True)
class OrphanDetector:
    """Classifies resources by the runs that need them.

    Attributes:
        is_complete: Whether all of the cloud answered; else a cluster may have users that are not listed.
    """

    runs: Mapping[str, RunView]
    now: dt.datetime
    is_complete: bool = True

    def classify(self, resources: Iterable[Resource]) -> list[tuple[Resource, ResourceStatus]]:
        """Returns each resource with its status."""
        resources = tuple(resources)
        own = {
            resource.name: self._of_kept_nodes(resource) or self._of_run(resource)
            for resource in resources
            if resource.run
        }
        for resource in resources:
            if resource.run is None and resource.shared == CLUSTER:
                users = [one.name for one in resources if one.parent == resource.name and one.run]
                own[resource.name] = self._of_cluster(resource, [own[name] for name in users])
        return [(resource, self._of_any(resource, own)) for resource in resources]

    @staticmethod
    def _of_any(resource: Resource, own: Mapping[str, ResourceStatus]) -> ResourceStatus:
        if resource.state == "deleting":
            return ResourceStatus("deleting", "deletion in progress")
        if resource.shared == _LEFTOVER:
            return ResourceStatus("orphaned", "its parent resource is gone")
        # A part of a cluster without a run has the status of the cluster.
        found = own.get(resource.name) or own.get(resource.parent)
        return found or ResourceStatus("expected", "created once for all runs of the account")

    def _of_run(self, resource: Resource) -> ResourceStatus:
        assert resource.run is not None  # noqa: S101  checked by the caller
        view = self.runs[resource.run]
        if view.is_alive:
            return ResourceStatus("expected", f"run {view.run} is {view.reason or 'alive'}")
        expires = moment_of(resource.labels.get(EXPIRES))
        if expires and expires < self.now:  # days after its job's deadline
            return ResourceStatus("orphaned", f"it expired on {expires:%Y-%m-%d}")
        if view.is_alive is None:
            return ResourceStatus(
                "unknown", f"the state of run {view.run} is unknown: {view.reason}"
            )
        if view.desired_state is None:
            return self._of_unregistered_run(resource)
        if (
            view.desired_state.state == "starting"
            and self.now - view.desired_state.created_at < STARTING
        ):
            return ResourceStatus(
                "expected", f"run {view.run} is being started by {view.desired_state.lease_owner}"
            )
        return ResourceStatus("orphaned", _over(view.desired_state, view.reason))

    def _of_kept_nodes(self, resource: Resource) -> ResourceStatus | None:
        """Status of nodes that another run uses, or that wait for one; None: neither."""
        known = [view.desired_state for view in self.runs.values() if view.desired_state]
        last = user_of(resource, known)
        if last is None:
            return None
        until, user = kept_until(last), self.runs[last.plan.run]
        if user.run != resource.run and (user.is_alive or last.uses_nodes):
            return ResourceStatus("expected", f"run {user.run} uses it")
        if until is None or until <= self.now:
            return None
        return ResourceStatus(
            "expected",
            f"it waits for the next run until {until:%Y-%m-%d %H:%M} UTC (--keep-nodes of run"
            f" {user.run})",
        )

    def _of_unregistered_run(self, resource: Resource) -> ResourceStatus:
        why = "its run is in no known store"
        made = parse_time_or_none(resource.created_at)
        if made is None or self.now - made < STARTING:
            age = "creation time unknown" if made is None else f"created {made:%H:%M} UTC"
            return ResourceStatus(
                "unknown",
                f"{why}, and it may be starting ({age}); add its store with --store=URL",
            )
        return ResourceStatus("orphaned", f"{why}, and it has no Job")

    def _of_cluster(self, resource: Resource, users: Iterable[ResourceStatus]) -> ResourceStatus:
        users = tuple(users)
        if any(user.state in ("expected", "unknown") for user in users):
            return ResourceStatus("expected", "runs use it")
        for view in self.runs.values():
            if view.desired_state is None or not is_cluster_of(resource, view.desired_state.plan):
                continue
            young = self.now - view.desired_state.created_at < STARTING
            if view.is_alive or (view.desired_state.state == "starting" and young):
                return ResourceStatus("expected", f"run {view.run} uses it")
            if view.desired_state.plan.node_pool and view.desired_state.plan.node_pool.keep_cluster:
                return ResourceStatus("expected", f"kept by --keep-cluster of run {view.run}")
        made = parse_time_or_none(resource.created_at)
        if not users and made and self.now - made < STARTING:
            return ResourceStatus("unknown", f"no known run uses it, and it is new ({made:%H:%M})")
        if not self.is_complete:
            return ResourceStatus(
                "unknown", "no run that is listed uses it, and not all of the cloud answered"
            )
        return ResourceStatus("orphaned", "no run uses it")


def _over(desired_state: DesiredState, phase: str) -> str:
    run, day = desired_state.plan.run, f"{desired_state.created_at:%Y-%m-%d %H:%M} UTC"
    if desired_state.state == "removed":
        return f"run {run} was deleted on {day}, but this resource remains"
    if desired_state.state == "removing":
        return f"the deletion of run {run} was interrupted on {day}"
    if desired_state.state in ("finished", "failed", "stopped"):
        return f"run {run} is {desired_state.state} since {day}"
    if desired_state.state == "starting":
        return f"the start of run {run} was interrupted after {day}"
    return f"run {run} has no Job ({phase or 'absent'})"


def cluster_target(resource: Resource, account: Target, location: str) -> Target:
    """Returns the target of the cluster that contains a resource, to query it."""
    details = {name: value.replace("<zone>", location) for name, value in account.details.items()}
    found = {
        "region": region_of(account.provider, resource.region),
        "cluster": resource.parent.rpartition("/")[2] or account.cluster,
        "zone": location if account.zone == "<zone>" else account.zone,
        "details": details,
    }
    return account.model_copy(update=found)


_OVER = frozenset({"finished", "removed"})


@dataclass(frozen=True)
class Folder:
    """Folder of a run in a store.

    Attributes:
        region: Of the store; empty: not a bucket of the account.
        size_bytes: None: unknown.
        state: Newest desired state of the run.
    """

    run: str
    store: str
    region: str
    size_bytes: int | None
    state: str


@dataclass(frozen=True)
class Inventory:
    """Inventory of one account; in the regions that are `silent` resources may exist."""

    target: Target
    resources: tuple[tuple[Resource, ResourceStatus], ...]
    folders: tuple[Folder, ...]
    runs: dict[str, RunView]
    notes: tuple[str, ...]
    silent: tuple[str, ...]


@dataclass
class InventoryScanner:
    """Scans one account."""

    cloud: CloudClient
    target: Target
    stores: Iterable[str] = ()
    notes: list[str] = field(default_factory=list)
    _unreadable: dict[str, str] = field(default_factory=dict, init=False)
    _unread_stores: list[str] = field(default_factory=list, init=False)

    def scan(self, now: dt.datetime) -> Inventory:
        """Returns the inventory."""
        self.notes.clear()
        self._unreadable.clear()
        self._unread_stores.clear()
        resources = self.cloud.list_resources()
        run_registry, folders = self._desired_states(resources)
        names = sorted({*run_registry, *(resource.run for resource in resources if resource.run)})
        runs = {run: self._view(run, run_registry.get(run), resources) for run in names}
        detector = OrphanDetector(runs, now, is_complete=not resources.silent)
        judged = detector.classify(resources)
        ordered = sorted(
            judged, key=lambda one: (one[0].run or "~", one[0].deletion_order, one[0].name)
        )
        notes = tuple(dict.fromkeys(self.notes))
        return Inventory(self.target, tuple(ordered), tuple(folders), runs, notes, resources.silent)

    def backend_of(self, plan: Plan) -> JobBackend:
        """Opens the backend of a run, with the profile of this account."""
        here = plan.target.model_copy(update={"profile": self.target.profile})
        return open_backend(here, store=plan.store)

    def is_alive(self, run: str, inventory: Inventory) -> bool:
        """Whether a run may be active; queried again before its resources are deleted."""
        resources = [resource for resource, _ in inventory.resources]
        return self._view(run, inventory.runs[run].desired_state, resources).is_alive is not False

    def _desired_states(
        self, resources: Iterable[Resource]
    ) -> tuple[dict[str, DesiredState], list[Folder]]:
        provider = self.target.provider
        there = {region_of(provider, one.region) for one in resources if one.region}
        made = {region_of(provider, one.region) for one in resources if one.shared == "bucket"}
        own = {
            cloud_planner(provider).store_url(
                self.target.model_copy(update={"region": region})
            ): region
            for region in sorted({*there, self.target.region or ""})
        }
        found: dict[str, DesiredState] = {}
        folders: list[Folder] = []
        for url in dict.fromkeys((*own, *self.stores)):
            store = open_store(url)
            run_registry = RunRegistry(store, "doctor", self.target)
            try:
                runs = run_registry.list_runs()
            except CloudganError as error:
                if url not in own or own[url] in made:
                    self.notes.append(f"store {url} could not be read: {error}")
                    self._unread_stores.append(url)
                continue
            for run in runs:
                desired_state = self._read(run_registry, run)
                folders.append(self._folder(store, run, own.get(url, ""), desired_state))
                before = found.get(run)
                if desired_state and (
                    before is None or before.created_at < desired_state.created_at
                ):
                    found[run] = desired_state
        return found, folders

    def _read(self, run_registry: RunRegistry, run: str) -> DesiredState | None:
        try:
            checked_name(run)
            return run_registry.read(run)
        except CloudganError as error:
            self.notes.append(str(error))
            self._unreadable[run] = str(error)
            return None

    def _folder(
        self, store: Store, run: str, region: str, desired_state: DesiredState | None
    ) -> Folder:
        try:
            size: int | None = store.size_bytes(f"runs/{run}/")
        except CloudganError as error:
            self.notes.append(f"size of runs/{run} in {store.url}: {error}")
            size = None
        return Folder(
            run, store.url, region, size, desired_state.state if desired_state else "unknown"
        )

    def _view(
        self, run: str, desired_state: DesiredState | None, resources: Iterable[Resource]
    ) -> RunView:
        mine = [resource for resource in resources if resource.run == run]
        if run in self._unreadable:  # nothing is deleted because of a damaged document
            return RunView(run, desired_state, is_alive=None, reason=self._unreadable[run])
        if desired_state is None:
            view = self._orphan_run(run, mine, resources)
            if self._unread_stores and not view.is_alive:  # it may have the run, whose nodes wait
                where = ", ".join(self._unread_stores)
                return RunView(run, None, is_alive=None, reason=f"{where} could not be read")
            return view
        if desired_state.state in _OVER and not mine:
            return RunView(run, desired_state, is_alive=False, reason=desired_state.state)
        try:
            state = self.backend_of(desired_state.plan).state(run)
        except CloudganError as error:
            return RunView(run, desired_state, is_alive=None, reason=str(error))
        return RunView(run, desired_state, is_alive=not state.is_over, reason=state.phase)

    def _orphan_run(
        self, run: str, resources: list[Resource], all_things: Iterable[Resource]
    ) -> RunView:
        """State of a run without a desired state, from the Job in its cluster."""
        inside = [resource for resource in resources if resource.parent]
        if not inside:
            return RunView(
                run, None, is_alive=False if not any(t.nodes for t in resources) else None
            )
        first = inside[0]
        try:
            checked_name(run)
        except CloudganError as error:
            return RunView(run, None, is_alive=None, reason=str(error))
        from cloudgan.launch.backends.kubernetes.backend import (
            KubernetesBackend,
        )

        where = next((one.region for one in all_things if one.name == first.parent), first.region)
        there = cluster_target(first, self.target, where)
        try:
            api = self.cloud.cluster_api(there)
            state = KubernetesBackend(api, there.namespace).state(run) if api else None
        except CloudganError as error:
            return RunView(run, None, is_alive=None, reason=str(error))
        return RunView(
            run,
            None,
            is_alive=bool(state and not state.is_over),
            reason=state.phase if state else "",
        )
