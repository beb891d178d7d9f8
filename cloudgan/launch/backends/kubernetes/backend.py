"""Runs on a Kubernetes cluster: creates, watches, stops and deletes their objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from cloudgan.core.clock import monotonic_seconds, utc_moment
from cloudgan.core.clouds import NAMESPACE
from cloudgan.core.documents import parse_model
from cloudgan.core.errors import (
    CloudganError,
    ConfigError,
    CredentialsError,
    DataError,
    LaunchError,
    OpenPortsError,
)
from cloudgan.core.labels import RUN, SPEC
from cloudgan.launch.backends.job_backend import JobBackend
from cloudgan.launch.backends.kubernetes.checks import (
    GANG_GROUP,
    REVIEW,
    WAIT,
    check_cluster,
    check_rights,
    has_cilium,
    kueue_path,
    list_nodes,
    wait_for_nodes,
    wait_for_port_probe,
)
from cloudgan.launch.backends.kubernetes.pod_exec import execute
from cloudgan.launch.backends.remote_command import CommandStreams
from cloudgan.launch.backends.run_document import RunSource
from cloudgan.launch.kubernetes.api import AlreadyExistsError, ApiError, ClusterApi
from cloudgan.launch.kubernetes.extensions import (
    JOB_LABEL,
    REQUESTS,
    in_queue,
    progress,
    requested_by,
)
from cloudgan.launch.kubernetes.job_state import index_of, run_state
from cloudgan.launch.kubernetes.manifests import (
    COMPONENT,
    PLAN_PLACEHOLDER,
    PORT_PROBE,
    PROBE,
    TRAINER,
    filled_secret,
    manifest_steps,
)
from cloudgan.schema.launch import Node
from cloudgan.schema.plan import Plan, Step
from cloudgan.schema.run_state import LogLine, RunState

_GONE_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.5
_NODE_TYPE: Final = "node.kubernetes.io/instance-type"
_POLICY_OF_CILIUM: Final = "CiliumNetworkPolicy"
_OF_JOB: Final = ("PodTemplate", "ProvisioningRequest", _POLICY_OF_CILIUM)
_SHARED: Final = ("Namespace", "ServiceAccount", "DaemonSet")
"""Objects that all runs share: created if missing, never changed or deleted."""


class KubernetesBackend(JobBackend):
    """One namespace of one cluster; `poll_seconds` is the interval between two looks at nodes that start."""

    def __init__(
        self,
        api: ClusterApi,
        namespace: str | None,
        *,
        gone_seconds: float = _GONE_SECONDS,
        poll_seconds: float = 5.0,
    ) -> None:
        namespace = namespace or NAMESPACE
        self._poll_seconds = poll_seconds
        self._api, self._namespace, self._gone_seconds = api, namespace, gone_seconds
        core = f"/api/v1/namespaces/{namespace}"
        self._pods, self._events = f"{core}/pods", f"{core}/events"
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        policies = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        self._maps = f"{core}/configmaps"
        # The plan is deleted last: until then another machine can destroy the run.
        self._owned = (self._jobs, f"{core}/services", policies, self._maps)
        self._resource_version = ""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Checks permissions, accelerators, queue and claim before anything is created."""
        return check_cluster(self._api, plan, self._namespace)

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the plan's steps, with gang scheduling if the cluster's API supports it."""
        return manifest_steps(plan, gang=GANG_GROUP in self._api.groups())

    def desired_state(self, run: str) -> Plan | None:
        """Returns the stored plan of a run; None if there is no such run."""
        found = self._api.get(f"{self._maps}/{run}")
        if found is None:
            return None
        if (found["metadata"].get("labels") or {}).get(RUN) != run:
            raise _name_taken("ConfigMap", run, self._namespace)
        place = f"plan.json in ConfigMap {run} of namespace {self._namespace}"
        try:
            plan = parse_model((found.get("data") or {}).get("plan.json") or "", Plan, place)
        except DataError as error:
            raise ConfigError(
                f"run {run} in namespace {self._namespace} was started by another version of"
                " cloudgan; use that version, or delete the run with `cloudgan down`"
            ) from error
        return RunSource(place, run, labels=found["metadata"]["labels"]).checked_plan(plan)

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Creates the step's object if it is missing; returns whether a request was sent.

        Raises:
            OpenPortsError: Others could reach the ports of the workers; all objects are deleted.
        """
        if step.method == PROBE:
            self._probe_ports(step, plan)
        elif step.method == REVIEW:
            check_rights(self._api, plan, self._poll_seconds)
        elif step.method == WAIT:
            wait_for_nodes(self._api, plan, self._poll_seconds)
        else:
            return self._ensure_object(step, plan)
        return False

    def _ensure_object(self, step: Step, plan: Plan) -> bool:
        assert step.find is not None  # noqa: S101  every manifest step has one
        kind = _kind(step)
        if kind == "Secret" or kind in _OF_JOB:
            create = self._create_for_job if kind in _OF_JOB else self._create_secret
            return create(step, plan)
        shared = kind in _SHARED
        try:
            found = self._api.get(step.find)
        except CredentialsError:
            if not shared:
                raise
            found = {}  # without permission to read it, a shared object exists already
        if found is None:
            try:
                self._api.create(step.path, _resolved(step, plan))
            except AlreadyExistsError:
                # The response of an earlier request was lost, or another launcher was faster.
                return self._ensure_object(step, plan)
            return True
        if not shared and found["metadata"].get("deletionTimestamp"):
            self._wait_for_deletion(step.find)
            return self._ensure_object(step, plan)
        if not shared:
            self._update(step, plan, found)
        return False

    def _update(self, step: Step, plan: Plan, found: dict[str, Any]) -> None:
        """Updates the data of an object of this run."""
        labels = found["metadata"].get("labels") or {}
        if labels.get(RUN) != plan.run:
            raise _name_taken(_kind(step), plan.run, self._namespace)
        if labels.get(SPEC) != plan.spec_hash:
            raise ConfigError(
                f"run {plan.run} has other settings; use another --name, or delete"
                f" it first: cloudgan down {plan.run}"
            )
        data = _resolved(step, plan).get("data")
        if data is not None and data != found.get("data"):
            self._api.patch(str(step.find), {"data": data})  # such as another deadline

    def _create_secret(self, step: Step, plan: Plan) -> bool:
        """Creates the Secret of the run's Job with a new value, without reading an existing one."""
        body: Any = step.body
        try:
            self._api.create(step.path, filled_secret(body, self._job_uid(plan)))
        except AlreadyExistsError:
            return False
        return True

    def _create_for_job(self, step: Step, plan: Plan) -> bool:
        """Creates an object of the run's Job; that of an earlier Job is deleted with it."""
        if _kind(step) == _POLICY_OF_CILIUM and not has_cilium(self._api):
            return False
        body: Any = step.body
        uid, found = self._job_uid(plan), self._api.get(str(step.find))
        if found is not None:
            owners = found["metadata"].get("ownerReferences") or ()
            if any(one["uid"] == uid for one in owners):
                return False
            self._wait_for_deletion(str(step.find))
        metadata = body["metadata"]
        (owner,) = metadata["ownerReferences"]
        owned = metadata | {"ownerReferences": [owner | {"uid": uid}]}
        try:
            self._api.create(step.path, {**body, "metadata": owned})
        except AlreadyExistsError:
            return self._create_for_job(step, plan)
        return True

    def _job_uid(self, plan: Plan) -> str:
        job = self._api.get(f"{self._jobs}/{plan.run}")
        if job is None:
            raise LaunchError(f"the Job of run {plan.run} was deleted while it was started")
        return str(job["metadata"]["uid"])

    def state(self, run: str) -> RunState:
        """Returns the state of a run and its workers."""
        job = self._api.get(f"{self._jobs}/{run}")
        listed = self._api.list(self._pods, f"{RUN}={run}")
        self._resource_version = str(listed["metadata"].get("resourceVersion", ""))
        found = run_state(job, listed["items"], utc_moment(), self._node_sizes)
        if job and found.phase == "waiting" and job["spec"].get("suspend"):
            return in_queue(found, job, self._workload(job))
        if job and not found.is_over and len(found.workers) < int(job["spec"]["completions"]):
            return replace(found, reason=found.reason or self._why_no_pods(run))
        if job and found.phase in ("waiting", "starting") and (name := requested_by(job)):
            request = self._api.get(f"{REQUESTS.format(self._namespace)}/{name}")
            said, is_lost = progress(request) if request else ("", False)
            cause = "capacity" if is_lost else found.cause
            return replace(found, reason=said or found.reason, cause=cause)
        if found.phase == "absent" and self._api.get(f"{self._maps}/{run}") is not None:
            return replace(found, phase="stopped")
        return found

    def _workload(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Returns what Kueue made of a Job; None: nothing yet, or this login may not read it."""
        try:
            path = kueue_path(self._api, self._namespace)
            label = f"{JOB_LABEL}={job['metadata']['uid']}"
            made = self._api.list(f"{path}/workloads", label)["items"] if path else []
        except CredentialsError:
            return None
        return made[0] if made else None

    def nodes(self, run: str) -> tuple[Node, ...]:
        """Returns the nodes that were provisioned for a run, whose label they have."""
        return list_nodes(self._api, run)

    def _node_sizes(self) -> dict[str, str]:
        """Returns the type of each node; nothing without the permission to list nodes."""
        try:
            nodes = [one["metadata"] for one in self._api.list("/api/v1/nodes")["items"]]
        except CredentialsError:
            return {}
        return {one["name"]: (one.get("labels") or {}).get(_NODE_TYPE, "") for one in nodes}

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Waits until a pod of the run changes after the last `state`, at most `seconds`."""
        started = monotonic_seconds()
        try:
            if seconds >= 1:  # the API counts whole seconds
                for _ in self._api.watch(
                    self._pods, f"{RUN}={run}", self._resource_version, int(seconds)
                ):
                    return
        except ApiError:
            pass  # the next `state` lists the pods again
        # Prevents a busy loop if the stream ends at once.
        time.sleep(max(0.0, min(_POLL_SECONDS, seconds - (monotonic_seconds() - started))))

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns by pod name a function that yields log lines; the argument means follow."""
        listed = self._api.list(self._pods, f"{RUN}={run}")["items"]
        return {
            pod["metadata"]["name"]: _source(self._api, self._pods, pod)
            for pod in listed
            if (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")
        }

    def execute(
        self, run: str, worker: int, command: Sequence[str], streams: CommandStreams
    ) -> int:
        """Runs a command in the container of a worker."""
        for pod in self._api.list(self._pods, f"{RUN}={run}")["items"]:
            phase = (pod.get("status") or {}).get("phase")
            if index_of(pod) == worker and phase == "Running":
                path = f"{self._pods}/{pod['metadata']['name']}"
                return execute(self._api.client, path, TRAINER, command, streams)
        raise LaunchError(f"worker {worker} of run {run} has no running pod")

    def stop(self, run: str) -> None:
        """Deletes a run's Job and waits for the deletion of its pods; keeps the plan."""
        uid = self._delete(f"{self._jobs}/{run}", run)
        self._wait_for_pods(run)
        self._wait_for_deletion(f"{self._jobs}/{run}", uid)

    def clear(self, run: str) -> None:
        """Deletes a Job that has ended; one that another launcher created since stays."""
        path = f"{self._jobs}/{run}"
        job = self._api.get(path)
        if job is None:
            self._wait_for_pods(run)
            return
        found = run_state(job, (), utc_moment())
        if job["spec"].get("suspend"):
            found = in_queue(found, job, self._workload(job))
        if found.is_over:
            uid = job["metadata"]["uid"]
            self._delete(path, run, uid)
            self._wait_for_deletion(path, uid)

    def destroy(self, run: str) -> Iterator[str]:
        """Deletes all objects with the run's label; yields each name when it is deleted."""
        for number, kind in enumerate(self._owned):
            for found in self._api.list(kind, f"{RUN}={run}")["items"]:
                name = found["metadata"]["name"]
                self._delete(f"{kind}/{name}", run)
                self._wait_for_deletion(f"{kind}/{name}")
                yield f"{kind.rpartition('/')[2]}/{name}"
            if number == 0:
                self._wait_for_pods(run)

    def list_runs(self) -> tuple[str, ...]:
        """Returns the names of all runs in the namespace."""
        found = self._api.list(self._maps, f"app.kubernetes.io/name=cloudgan,{RUN}")["items"]
        return tuple(sorted(one["metadata"]["labels"][RUN] for one in found))

    def _probe_ports(self, step: Step, plan: Plan) -> None:
        """Waits for the result of the port probe and deletes its objects, or all of a refused run."""
        try:
            wait_for_port_probe(self._api, self._pods, step, plan)
        except OpenPortsError:
            for _ in self.destroy(plan.run):
                pass
            raise
        for kind in self._owned:
            for found in self._api.list(kind, f"{RUN}={plan.run},{COMPONENT}={PORT_PROBE}")[
                "items"
            ]:
                path = f"{kind}/{found['metadata']['name']}"
                self._delete(path, plan.run)
                self._wait_for_deletion(path)

    def _delete(self, path: str, run: str, uid: str | None = None) -> str | None:
        """Deletes an object of a run, with `uid` only that one; returns its UID, None if there is none."""
        found = self._api.get(path)
        if found is None:
            return None
        if (found["metadata"].get("labels") or {}).get(RUN) != run:
            raise _name_taken(path.rpartition("/")[0].rpartition("/")[2], run, self._namespace)
        self._api.delete(path, uid=uid)
        return str(found["metadata"]["uid"])

    def _wait_for_pods(self, run: str) -> None:
        """Waits until no pod of a deleted Job is left; another launcher may have created the next Job by now."""
        deadline = monotonic_seconds() + self._gone_seconds
        while self._has_pods_of_deleted_job(run):
            if monotonic_seconds() > deadline:
                raise LaunchError(
                    f"pods of run {run} in namespace {self._namespace} are not deleted after"
                    f" {self._gone_seconds:.0f} s; check them with kubectl, then run:"
                    f" cloudgan down {run}"
                )
            time.sleep(_POLL_SECONDS)

    def _has_pods_of_deleted_job(self, run: str) -> bool:
        pods = self._api.list(self._pods, f"{RUN}={run}")["items"]
        job = self._api.get(f"{self._jobs}/{run}") if pods else None
        stays = job is not None and not job["metadata"].get("deletionTimestamp")
        uid = job["metadata"]["uid"] if job and stays else None
        owners = (pod["metadata"].get("ownerReferences") or () for pod in pods)
        return any(uid not in [one["uid"] for one in each] for each in owners)

    def _wait_for_deletion(self, path: str, uid: str | None = None) -> None:
        """Waits until an object is gone; with `uid` until it is gone or another one has its name."""
        deadline = monotonic_seconds() + self._gone_seconds
        while (found := self._api.get(path)) and uid in (None, found["metadata"]["uid"]):
            if monotonic_seconds() > deadline:
                raise LaunchError(
                    f"the deletion of {path} does not finish; check its finalizers. Use another"
                    " --name, or ask an administrator"
                )
            time.sleep(_POLL_SECONDS)

    def _why_no_pods(self, run: str) -> str:
        """Returns the newest warning of the Job controller, such as a failed pod creation."""
        events = self._api.list(self._events)["items"]
        about = [
            event
            for event in events
            if (event.get("involvedObject") or {}).get("name") == run
            and event.get("type") == "Warning"
        ]
        return " ".join(str(about[-1].get("message", "")).split()) if about else ""


def _kind(step: Step) -> str:
    return str(step.body["kind"]) if isinstance(step.body, dict) else ""


def _resolved(step: Step, plan: Plan) -> dict[str, Any]:
    body: dict[str, Any] = dict(step.body) if isinstance(step.body, dict) else {}
    data = body.get("data")
    if isinstance(data, dict) and data.get("plan.json") == PLAN_PLACEHOLDER:
        body["data"] = data | {"plan.json": plan.model_dump_json()}
    return body


def _source(api: ClusterApi, pods: str, pod: dict[str, Any]) -> Callable[[bool], Iterator[LogLine]]:
    index = index_of(pod) or 0
    path = f"{pods}/{pod['metadata']['name']}/log"
    inits = (pod.get("status") or {}).get("initContainerStatuses") or ()
    ends = {one["name"]: (one.get("state") or {}).get("terminated") or {} for one in inits}
    # The trainer never ran where an init container failed.
    container = next((name for name, end in ends.items() if end.get("exitCode")), TRAINER)

    def lines(follow: bool) -> Iterator[LogLine]:
        try:
            for line in api.log(path, container=container, follow=follow):
                moment, _, text = line.partition(" ")
                yield LogLine(index, moment, text)
        except ApiError:
            return  # deleted or not started; the caller retries

    return lines


def _name_taken(kind: str, name: str, namespace: str) -> CloudganError:
    return ConfigError(
        f"{kind} {name} in namespace {namespace} exists but is not managed by cloudgan; use another"
        " --name"
    )
