"""The Job controller: pods for indexes, counts, back-off, failure policy, deadlines.

The back-off is that of pkg/controller/job/backoff_utils.go and indexed_job_utils.go of Kubernetes 1.37, as
the real controller showed it (2026-11-25): see `Failures`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from emulators.kubernetes.api import Api
from emulators.kubernetes.objects import (
    Object,
    Refusal,
    Store,
    at,
    condition,
    copied,
    is_deleted,
    is_over,
    now,
    owned_by,
    set_condition,
    suffix,
)

PREFIX = "batch.kubernetes.io"
INDEX, TRACKING = f"{PREFIX}/job-completion-index", f"{PREFIX}/job-tracking"
BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 10.0, 600.0
"""DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff of pkg/controller/job/job_controller.go."""
NEVER = float("inf")


@dataclass
class Failures:
    """Failed pods of a job since the last success, or with backoffLimitPerIndex those of one index.

    The next pod is created BACKOFF_SECONDS * 2**(pods - 1) after the last failure. Each failed pod counts,
    also one that the failure policy ignores (https://github.com/kubernetes/kubernetes/issues/119378, read
    2026-11-25), so pods that fail together jump the sequence. Not so here: without backoffLimitPerIndex the
    real controller keeps an ignored failure only if another part of the status changes with it
    (flushUncountedAndRemoveFinalizers), so on some clocks its delay does not grow.
    """

    pods: int = 0
    counted: int = 0
    """Those that the failure policy does not ignore."""
    failed_at: float = 0.0

    def next_pod(self, scale: float) -> float:
        """Returns when a pod may be created; a second of the back-off lasts `scale` seconds."""
        seconds = min(BACKOFF_SECONDS * 2 ** min(self.pods - 1, 10), MOST_BACKOFF_SECONDS)
        return self.failed_at + seconds * scale if self.pods else 0.0


class JobController:
    """Reconciles all jobs from the current state."""

    def __init__(self, store: Store, api: Api, backoff_scale: float) -> None:
        self._store, self._api, self._scale = store, api, backoff_scale
        self._started: dict[str, float] = {}
        """When a job started, with the fractions of a second that its status does not have."""
        self._failures: dict[tuple[str, int | None], Failures] = {}
        self._counted: set[str] = set()
        self._next = NEVER

    def sync(self) -> float:
        """Returns when it must look again without a change."""
        self._next = NEVER
        pods, jobs = self._store.select("pods"), self._store.select("jobs")
        for job in jobs:
            self._sync_job(job, owned_by(pods, job))
        living = {job["metadata"]["uid"] for job in jobs}
        for pod in pods:
            owners = {one["uid"] for one in pod["metadata"].get("ownerReferences", ())}
            if not owners & living:
                self._release(pod)  # its job is gone, or left it behind
        return self._next

    def _sync_job(self, job: Object, pods: list[Object]) -> None:
        if is_deleted(job) or condition(job, "Complete") or condition(job, "Failed"):
            for pod in pods:
                if is_over(pod) or not is_deleted(job):
                    self._release(pod)
            return
        before = copied(job)
        why = self._count(
            job,
            [one for one in pods if is_over(one) and one["metadata"]["uid"] not in self._counted],
        )
        self._start(job)
        self._decide(job, why)
        self._act(job, pods)
        living = [pod for pod in pods if not is_over(pod)]
        job["status"]["active"] = sum(not is_deleted(pod) for pod in living)
        if not living:
            self._close(job)
        if job != before:
            self._store.replace("jobs", job)
        held = self._held_indexes(job, pods)
        for pod in pods:
            if is_over(pod) and index_of(pod) not in held:
                self._release(pod)

    def _start(self, job: Object) -> None:
        """Sets when a job started: a suspension forgets it, so that the deadline begins again."""
        if job["spec"].get("suspend"):
            set_condition(job, "Suspended", "True", "JobSuspended", "Job suspended")
            job["status"].pop("startTime", None)
            return
        if condition(job, "Suspended"):
            set_condition(job, "Suspended", "False", "JobResumed", "Job resumed")
        if "startTime" not in job["status"]:
            job["status"]["startTime"] = now()
            self._started[job["metadata"]["uid"]] = time.monotonic()

    @staticmethod
    def _held_indexes(job: Object, pods: list[Object]) -> set[int | None]:
        """Returns the indexes whose failed pods stay until their replacement has their failure count.

        canRemoveFinalizer and getPodsWithDelayedDeletionPerIndex of Kubernetes' controller.
        """
        if "backoffLimitPerIndex" not in job["spec"] or _is_ending(job):
            return set()
        active = {index_of(pod) for pod in pods if not is_over(pod)}
        return {index_of(pod) for pod in pods} - _ended_indexes(job) - active

    def _count(self, job: Object, ended: list[Object]) -> str:
        """Counts the pods that ended since last time; returns why the job fails at once, if it does."""
        spec, status, uid, why = job["spec"], job["status"], job["metadata"]["uid"], ""
        limit, is_indexed = spec.get("backoffLimitPerIndex"), spec["completionMode"] == "Indexed"
        kinds = ("completedIndexes", "failedIndexes")
        done, broken = (numbers(status.get(one, "")) for one in kinds)
        # A success forgets the failures before it.
        for pod in sorted(ended, key=lambda one: one["status"]["phase"] == "Succeeded"):
            self._counted.add(pod["metadata"]["uid"])
            if pod["status"]["phase"] == "Succeeded":
                self._failures.pop((uid, None), None)
                status["succeeded"] = status.get("succeeded", 0) + 1
                done |= {index_of(pod)} if is_indexed else set()
                continue
            action, text = judge(job, pod)
            index = None if limit is None else index_of(pod)
            failures = self._failures.setdefault((uid, index), Failures())
            failures.pods, failures.failed_at = failures.pods + 1, time.monotonic()
            why = why or (text if action == "FailJob" else "")
            if action != "Ignore":
                failures.counted += 1
                status["failed"] = status.get("failed", 0) + 1
            if index is not None and (action == "FailIndex" or failures.counted > limit):
                broken.add(index)
        if limit is not None:
            status["failedIndexes"] = listed(broken)
        if done:
            status |= {"completedIndexes": listed(done), "succeeded": len(done)}
        return why

    def _decide(self, job: Object, why: str) -> None:
        """Adds the condition that a job is about to fail or to be complete."""
        if _is_ending(job):
            return
        spec, status = job["spec"], job["status"]
        deadline = NEVER
        if "startTime" in status and "activeDeadlineSeconds" in spec:
            started = self._started[job["metadata"]["uid"]]
            deadline = started + spec["activeDeadlineSeconds"]
        broken, succeeded = (
            len(numbers(status.get("failedIndexes", ""))),
            status.get("succeeded", 0),
        )
        kind, reason = "FailureTarget", ""
        if why:
            reason = "PodFailurePolicy"
        elif status.get("failed", 0) > spec["backoffLimit"]:
            reason, why = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        elif time.monotonic() >= deadline:
            reason, why = "DeadlineExceeded", "Job was active longer than specified deadline"
        elif broken > spec.get("maxFailedIndexes", NEVER):
            reason = "MaxFailedIndexesExceeded"
            why = "Job has exceeded the specified maximal number of failed indexes"
        elif succeeded >= spec["completions"]:
            kind, reason = "SuccessCriteriaMet", "CompletionsReached"
            why = "Reached expected number of succeeded pods"
        if reason:
            set_condition(job, kind, "True", reason, why)
        else:
            self._next = min(self._next, deadline)

    def _act(self, job: Object, pods: list[Object]) -> None:
        """Creates the pods that are missing, or ends those that are too many."""
        if _is_ending(job) or job["spec"].get("suspend"):
            self._end(pods)
            return
        spec, uid = job["spec"], job["metadata"]["uid"]
        waits = spec["podReplacementPolicy"] == "Failed"  # for the end of a terminating pod
        there = [pod for pod in pods if not is_over(pod) and (waits or not is_deleted(pod))]
        self._end([pod for pod in there if not is_deleted(pod)][spec["parallelism"] :])
        done = job["status"].get("succeeded", 0)
        missing: list[int | None] = [None] * (spec["completions"] - done - len(there))
        if spec["completionMode"] == "Indexed":
            taken = _ended_indexes(job) | {index_of(pod) for pod in there}
            missing = [index for index in range(spec["completions"]) if index not in taken]
        for index in missing[: max(0, spec["parallelism"] - len(there))]:
            key = index if "backoffLimitPerIndex" in spec else None
            failures = self._failures.get((uid, key), Failures())
            if time.monotonic() < (moment := failures.next_pod(self._scale)):
                self._next = min(self._next, moment)
                continue
            try:
                made = self._api.create_pod(_new_pod(job, index, failures))
            except Refusal as refusal:
                text = f"Error creating: {refusal.message}"
                self._store.record_event(job, "FailedCreate", text)
                self._next = time.monotonic() + 0.2
                return
            pods.append(made)

    def _end(self, pods: list[Object]) -> None:
        for pod in pods:
            if not is_over(pod) and not is_deleted(pod):
                self._api.remove(pod)
                pod["metadata"]["deletionTimestamp"] = now()

    def _close(self, job: Object) -> None:
        """Adds the final condition of a job, none of whose pods lives any more."""
        for about, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
            if outcome := condition(job, about):
                set_condition(job, final, "True", outcome["reason"], outcome["message"])
                if final == "Complete":
                    job["status"]["completionTime"] = now()
                else:
                    reason, text = outcome["reason"], outcome["message"]
                    self._store.record_event(job, reason, text)

    def _release(self, pod: Object) -> None:
        if TRACKING in pod["metadata"].get("finalizers", ()):
            self._store.edit(
                "pods", pod, lambda one: one["metadata"]["finalizers"].remove(TRACKING)
            )


def _is_ending(job: Object) -> bool:
    return bool(condition(job, "FailureTarget") or condition(job, "SuccessCriteriaMet"))


def _ended_indexes(job: Object) -> set[int | None]:
    status = job["status"]
    return numbers(status.get("completedIndexes", "")) | numbers(status.get("failedIndexes", ""))


def _new_pod(job: Object, index: int | None, failures: Failures) -> Object:
    """Returns a pod of a job as the real controller makes it."""
    own, template = job["metadata"], copied(job["spec"]["template"])
    meta, spec = template["metadata"], template["spec"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": own["name"], "uid": own["uid"]}
    owner |= {"controller": True, "blockOwnerDeletion": True}
    meta |= {"namespace": own["namespace"], "finalizers": [TRACKING], "ownerReferences": [owner]}
    meta["name"] = f"{own['name']}-{suffix()}"
    if job["spec"]["completionMode"] == "Indexed":
        meta["name"] = f"{own['name']}-{index}-{suffix()}"
        counts = {"failure": failures.counted, "ignored-failure": failures.pods - failures.counted}
        meta.setdefault("annotations", {})[INDEX] = meta["labels"][INDEX] = str(index)
        if "backoffLimitPerIndex" in job["spec"]:
            for kind, count in counts.items():
                if count or kind == "failure":
                    meta["annotations"][f"{PREFIX}/job-index-{kind}-count"] = str(count)
        spec.setdefault("hostname", f"{own['name']}-{index}")
        variable = {"name": "JOB_COMPLETION_INDEX"}
        variable["valueFrom"] = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            container.setdefault("env", []).append(variable)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def index_of(pod: Object) -> int | None:
    """Returns the completion index of a pod."""
    found = at(pod, "metadata", "annotations", INDEX)
    return None if found is None else int(found)


def judge(job: Object, pod: Object) -> tuple[str, str]:
    """Returns the action of the failure policy for a failed pod, and its message."""
    own = pod["metadata"]
    named = f"{own['namespace']}/{own['name']}"
    kinds = ("initContainerStatuses", "containerStatuses")
    statuses = [one for kind in kinds for one in pod["status"].get(kind, ())]
    for number, rule in enumerate(at(job, "spec", "podFailurePolicy", "rules", default=())):
        matching = f"matching {rule['action']} rule at index {number}"
        for pattern in rule.get("onPodConditions") or ():
            if condition(pod, pattern["type"]):
                return rule["action"], f"Pod {named} has condition {pattern['type']} {matching}"
        codes = rule.get("onExitCodes") or {"operator": "In", "values": []}
        for one in statuses:
            code = at(one, "state", "terminated", "exitCode", default=0)
            is_meant = codes.get("containerName") in {None, one["name"]}
            if code and is_meant and (code in codes["values"]) == (codes["operator"] == "In"):
                text = f"Container {one['name']} for pod {named} failed with exit code {code} {matching}"
                return rule["action"], text
    return "Count", ""


def numbers(text: str) -> set[int | None]:
    """Reads the indexes of a status; this double writes no ranges, which nothing here reads but this."""
    return {int(part) for part in text.split(",") if part}


def listed(indexes: set[int | None]) -> str:
    return ",".join(str(one) for one in sorted(one for one in indexes if one is not None))
