"""Runs on a cluster: made step by step, followed, stopped, and removed until gone."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from cloudgan.core.clock import monotonic_seconds, utc_moment
from cloudgan.core.errors import CloudganError, ConfigError, CredentialsError, LaunchError
from cloudgan.core.labels import RUN, SPEC
from cloudgan.core.plan import Plan
from cloudgan.core.run_state import LogLine, RunState
from cloudgan.kubernetes.job_state import INDEX, run_state
from cloudgan.kubernetes.manifests import PLAN_PLACEHOLDER, TRAINER
from cloudgan.kubernetes.refusal import AlreadyThereError, ApiError, GoneError
from cloudgan.providers.kubernetes.requests import steps
from cloudgan.providers.kubernetes.rights import GANG_GROUP, check_place, check_rights
from cloudgan.providers.standing_machines import StandingMachines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloudgan.core.plan import Step
    from cloudgan.kubernetes.api import ClusterApi

STATE: Final = "cloudgan/state"
STOPPED: Final = "stopped"
_GONE_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.5
_SHARED: Final = ("Namespace ", "ServiceAccount ", "DaemonSet ")
"""Of all runs: made where missing, left alone otherwise."""


class KubernetesProvider(StandingMachines):
    """One namespace of one cluster."""

    def __init__(
        self, api: ClusterApi, namespace: str, *, gone_seconds: float = _GONE_SECONDS
    ) -> None:
        self._api, self._namespace, self._gone_seconds = api, namespace, gone_seconds
        core = f"/api/v1/namespaces/{namespace}"
        self._pods, self._events = f"{core}/pods", f"{core}/events"
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        policies = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
        self._maps = f"{core}/configmaps"
        # The intent goes last: until then another machine can see what has to be removed.
        self._owned = (self._jobs, f"{core}/services", policies, self._maps)
        self._seen = ""

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Asks for rights, accelerators, queue and claim before anything is made.

        Returns:
            What could not be looked at.

        Raises:
            CloudganError: Something is missing; says what.
        """
        check_rights(self._api, self._namespace)
        return check_place(self._api, plan)

    def steps(self, plan: Plan) -> tuple[Step, ...]:
        """Returns the plan's steps, with a gang where this cluster's API has gangs."""
        return steps(plan, gang=GANG_GROUP in self._api.groups())

    def intent(self, run: str) -> Plan | None:
        """Returns the plan that a run was started with; None where none of this name was.

        Raises:
            ConfigError: Something else has this name, or another version of cloudgan made it.
        """
        found = self._api.get(f"{self._maps}/{run}")
        if found is None:
            return None
        if (found["metadata"].get("labels") or {}).get(RUN) != run:
            raise _foreign("ConfigMap", run, self._namespace)
        try:
            return Plan.model_validate_json(found["data"]["plan.json"])
        except (ValidationError, KeyError) as error:
            raise ConfigError(
                f"run {run} in namespace {self._namespace} was started by another version of"
                " cloudgan; use that one, or remove the run with `cloudgan down`"
            ) from error

    def ensure(self, step: Step, plan: Plan) -> bool:
        """Makes what a step wants, unless it is there; whether a request was sent.

        Raises:
            ConfigError: There is something of this name that is not this run's.
            LaunchError: What an earlier run left does not go away.
        """
        assert step.find is not None  # noqa: S101  every step of requests.py can be found
        shared = step.ensure.startswith(_SHARED)
        try:
            found = self._api.get(step.find)
        except CredentialsError:
            if shared:
                return False  # whoever may not look at namespaces was given one
            raise
        if found is None:
            try:
                self._api.create(step.path, _resolved(step, plan))
            except AlreadyThereError:
                # The answer of an earlier try was lost, or another launcher was faster.
                return self.ensure(step, plan)
            return True
        if shared:
            return False
        if found["metadata"].get("deletionTimestamp"):
            self._wait_until_gone(step.find)
            return self.ensure(step, plan)
        labels = found["metadata"].get("labels") or {}
        if labels.get(RUN) != plan.run:
            raise _foreign(step.ensure.partition(" ")[0], plan.run, self._namespace)
        if labels.get(SPEC) != plan.spec:
            raise ConfigError(
                f"run {plan.run} was started with other settings; take another --name, or remove"
                f" it first: cloudgan down {plan.run}"
            )
        data = _resolved(step, plan).get("data")
        if data is not None and data != found.get("data"):
            self._api.patch(step.find, {"data": data})  # such as another deadline
        return False

    def mark(self, run: str, state: str) -> None:
        """Notes on the intent what is wanted of a run, for whoever looks later."""
        self._api.patch(f"{self._maps}/{run}", {"metadata": {"annotations": {STATE: state}}})

    def state(self, run: str) -> RunState:
        """Returns how a run is doing."""
        job = self._api.get(f"{self._jobs}/{run}")
        listed = self._api.list(self._pods, f"{RUN}={run}")
        self._seen = str(listed["metadata"].get("resourceVersion", ""))
        found = run_state(job, listed["items"], utc_moment())
        if job and not found.is_over and len(found.workers) < int(job["spec"]["completions"]):
            return replace(found, why=found.why or self._why_no_pods(run))
        if found.phase == "absent" and self._api.get(f"{self._maps}/{run}") is not None:
            return replace(found, phase="stopped")
        return found

    def wait_for_change(self, run: str, seconds: float) -> None:
        """Returns when a pod of the run changed since `state` looked, at the latest in `seconds`."""
        began = monotonic_seconds()
        try:
            if seconds >= 1:  # the API counts whole seconds
                for _ in self._api.watch(self._pods, f"{RUN}={run}", self._seen, int(seconds)):
                    return
        except (GoneError, ApiError):
            pass  # looked at anew
        # A stream that ends at once must not make a busy loop.
        time.sleep(max(0.0, min(_POLL_SECONDS, seconds - (monotonic_seconds() - began))))

    def log_sources(self, run: str) -> dict[str, Callable[[bool], Iterator[LogLine]]]:
        """Returns, for each pod with a log, what yields its lines; True follows it."""
        listed = self._api.list(self._pods, f"{RUN}={run}")["items"]
        return {
            pod["metadata"]["name"]: _source(self._api, self._pods, pod)
            for pod in listed
            if (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")
        }

    def stop(self, run: str) -> None:
        """Ends a run's job, and waits until its pods are gone; its intent stays."""
        if self._api.get(f"{self._maps}/{run}") is not None:
            self.mark(run, STOPPED)
        self._delete(f"{self._jobs}/{run}", run)
        self._wait_for_pods(run)

    def remove(self, run: str) -> Iterator[str]:
        """Deletes all that carries the run's label, and waits until it is gone; yields what went.

        Raises:
            LaunchError: Something does not go away.
        """
        for number, kind in enumerate(self._owned):
            for found in self._api.list(kind, f"{RUN}={run}")["items"]:
                name = found["metadata"]["name"]
                self._delete(f"{kind}/{name}", run)
                self._wait_until_gone(f"{kind}/{name}")
                yield f"{kind.rpartition('/')[2]}/{name}"
            if number == 0:
                self._wait_for_pods(run)

    def runs(self) -> tuple[str, ...]:
        """Returns the names of all runs that are meant here."""
        found = self._api.list(self._maps, f"app.kubernetes.io/name=cloudgan,{RUN}")["items"]
        return tuple(sorted(one["metadata"]["labels"][RUN] for one in found))

    def _delete(self, path: str, run: str) -> None:
        found = self._api.get(path)
        if found is None:
            return
        if (found["metadata"].get("labels") or {}).get(RUN) != run:
            raise _foreign(path.rpartition("/")[0].rpartition("/")[2], run, self._namespace)
        self._api.delete(path)

    def _wait_for_pods(self, run: str) -> None:
        deadline = monotonic_seconds() + self._gone_seconds
        while self._api.list(self._pods, f"{RUN}={run}")["items"]:
            if monotonic_seconds() > deadline:
                raise LaunchError(
                    f"pods of run {run} do not go away in namespace {self._namespace}; look at"
                    f" them with kubectl, then: cloudgan down {run}"
                )
            time.sleep(_POLL_SECONDS)

    def _wait_until_gone(self, path: str) -> None:
        deadline = monotonic_seconds() + self._gone_seconds
        while self._api.get(path) is not None:
            if monotonic_seconds() > deadline:
                raise LaunchError(
                    f"{path} is being deleted and does not go away; an object that it waits for is"
                    " named in its finalizers. Take another --name, or ask an administrator"
                )
            time.sleep(_POLL_SECONDS)

    def _why_no_pods(self, run: str) -> str:
        """The newest reason why the Job controller could make no pod."""
        events = self._api.list(self._events)["items"]
        about = [
            event
            for event in events
            if (event.get("involvedObject") or {}).get("name") == run
            and event.get("type") == "Warning"
        ]
        return " ".join(str(about[-1].get("message", "")).split()) if about else ""


def _resolved(step: Step, plan: Plan) -> dict[str, Any]:
    body: dict[str, Any] = dict(step.body) if isinstance(step.body, dict) else {}
    data = body.get("data")
    if isinstance(data, dict) and data.get("plan.json") == PLAN_PLACEHOLDER:
        body["data"] = data | {"plan.json": plan.model_dump_json()}
    return body


def _source(api: ClusterApi, pods: str, pod: dict[str, Any]) -> Callable[[bool], Iterator[LogLine]]:
    index = int((pod["metadata"].get("annotations") or {}).get(INDEX, 0))
    path = f"{pods}/{pod['metadata']['name']}/log"

    def lines(follow: bool) -> Iterator[LogLine]:
        try:
            for line in api.log(path, container=TRAINER, follow=follow):
                moment, _, text = line.partition(" ")
                yield LogLine(index, moment, text)
        except ApiError:
            return  # gone, or not begun; whoever follows asks again

    return lines


def _foreign(kind: str, name: str, namespace: str) -> CloudganError:
    return ConfigError(
        f"namespace {namespace} has a {kind} {name} that is no run's of cloudgan; it is left as it"
        " is. Take another --name"
    )
