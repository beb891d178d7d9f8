"""The Job controller: pods for indexes, counts, back-off, policies, deadlines.

The back-off is that of pkg/controller/job/backoff_utils.go and indexed_job_utils.go of Kubernetes 1.37, as
the real controller showed it (2026-11-25): see `Failures`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes.controller import Controller, record_event
from emulators.kubernetes.job_pods import (
    FAILURES,
    IGNORED,
    TRACKING,
    Verdict,
    index_of,
    judge,
    listed,
    new_pod,
    numbers,
    success_rule,
)
from emulators.kubernetes.quantities import is_over
from emulators.kubernetes.status_errors import Refusal
from emulators.kubernetes.store import condition, copied, now, owned_by, set_condition

if TYPE_CHECKING:
    from emulators.kubernetes.api import Api
    from emulators.kubernetes.store import Store

Object = dict[str, Any]
BY = "job-controller"


class Times(NamedTuple):
    """Times of a job with fractions of a second, which its status does not have."""

    started: float
    finished: float | None = None


BACKOFF_SECONDS, MOST_BACKOFF_SECONDS = 10.0, 600.0
"""DefaultJobPodFailureBackOff and MaxJobPodFailureBackOff of pkg/controller/job/job_controller.go."""


@dataclass
class Failures:
    """Failed pods of a job since the last success, or with backoffLimitPerIndex those of one index.

    The next pod is created BACKOFF_SECONDS * 2**(pods - 1) after the last failure. Each failed pod counts,
    also one that the failure policy ignores (https://github.com/kubernetes/kubernetes/issues/119378, read
    2026-11-25), so pods that fail together jump the sequence.
    """

    pods: int = 0
    counted: int = 0
    """Those that the failure policy does not ignore."""
    failed_at: float = 0.0

    def next_pod(self, scale: float) -> float:
        """Returns when a pod may be created; a second of the back-off lasts `scale` seconds."""
        if not self.pods:
            return 0.0
        seconds = min(BACKOFF_SECONDS * 2 ** min(self.pods - 1, 10), MOST_BACKOFF_SECONDS)
        return self.failed_at + seconds * scale


class JobController(Controller):
    """Reconciles all jobs from the current state."""

    def __init__(self, store: Store, api: Api, backoff_scale: float) -> None:
        super().__init__(store)
        self._api = api
        self._backoff_scale = backoff_scale
        self._times: dict[str, Times] = {}
        self._failures: dict[tuple[str, int | None], Failures] = {}
        self._counted: set[str] = set()
        self._wait: float | None = None

    def sync(self) -> float | None:
        self._wait = None
        pods = self.store.select("pods")
        jobs = self.store.select("jobs")
        for job in jobs:
            self._sync_job(job, owned_by(pods, job))
        living = {job["metadata"]["uid"] for job in jobs}
        for pod in pods:
            owners = {one["uid"] for one in pod["metadata"].get("ownerReferences") or []}
            if TRACKING in pod["metadata"].get("finalizers", ()) and not owners & living:
                self._release(pod)  # its job is gone, or left it behind
        return self._wait

    def _again_at(self, moment: float) -> None:
        seconds = max(0.001, moment - time.monotonic())
        self._wait = seconds if self._wait is None else min(self._wait, seconds)

    def _sync_job(self, job: Object, pods: list[Object]) -> None:
        uid = job["metadata"]["uid"]
        if "deletionTimestamp" in job["metadata"]:
            for pod in pods:
                if is_over(pod):
                    self._release(pod)
            return
        if condition(job, "Complete") or condition(job, "Failed"):
            for pod in pods:
                self._release(pod)
            self._expire(job)
            return
        before = copied(job)
        new = [
            pod
            for pod in pods
            if TRACKING in pod["metadata"].get("finalizers", ())
            and is_over(pod)
            and pod["metadata"]["uid"] not in self._counted
        ]
        verdict = self._count(job, new)
        self._drop_terminating(job, pods, new)
        if not self._suspended(job, pods):
            times = self._times.setdefault(uid, Times(time.monotonic()))
            self._decide(job, verdict, times)
            self._act(job, pods)
        self._tell_pods(job, [pod for pod in pods if not is_over(pod)])
        self._close(job, pods)
        if job != before:
            self.store.replace("jobs", job)
        held = self._held_indexes(job, pods)
        for pod in pods:
            if (is_over(pod) or pod in new) and index_of(pod) not in held:
                self._release(pod)

    @staticmethod
    def _held_indexes(job: Object, pods: list[Object]) -> set[int | None]:
        """Returns the indexes whose failed pods stay until their replacement has their failure count.

        canRemoveFinalizer and getPodsWithDelayedDeletionPerIndex of Kubernetes' controller.
        """
        ends = condition(job, "FailureTarget") or condition(job, "SuccessCriteriaMet")
        if "backoffLimitPerIndex" not in job["spec"] or ends:
            return set()
        status = job["status"]
        ended = numbers(status.get("completedIndexes", "")) | numbers(status["failedIndexes"])
        active = {index_of(pod) for pod in pods if not is_over(pod)}
        return {index_of(pod) for pod in pods} - ended - active

    def _count(self, job: Object, new: list[Object]) -> Verdict:
        """Counts the pods that ended since last time, by the failure policy."""
        spec, status, uid = job["spec"], job["status"], job["metadata"]["uid"]
        done = numbers(status.get("completedIndexes", ""))
        verdict = Verdict()
        indexed, limit = spec["completionMode"] == "Indexed", spec.get("backoffLimitPerIndex")
        broken = numbers(status.get("failedIndexes", ""))
        # A success forgets the failures before it.
        for pod in sorted(new, key=lambda one: one["status"]["phase"] == "Succeeded"):
            self._counted.add(pod["metadata"]["uid"])
            if pod["status"]["phase"] == "Succeeded":
                self._failures.pop((uid, None), None)
                if not indexed:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                elif (index := index_of(pod)) is not None and index < job["spec"]["completions"]:
                    done.add(index)
                continue
            action, why = judge(job, pod)
            index = None if limit is None else index_of(pod)
            failures = self._failures.setdefault((uid, index), Failures())
            failures.pods, failures.failed_at = failures.pods + 1, time.monotonic()
            if action == "FailJob" and not verdict.fails:
                verdict.fails = why
            if action != "Ignore":
                failures.counted += 1
                status["failed"] = status.get("failed", 0) + 1
            if index is not None and (action == "FailIndex" or failures.counted > limit):
                broken.add(index)
        if limit is not None:
            status["failedIndexes"] = listed(broken)
        if indexed and done:
            status["completedIndexes"] = listed(done)
            status["succeeded"] = len(done)
        return verdict

    def _drop_terminating(self, job: Object, pods: list[Object], new: list[Object]) -> None:
        """Where pods are replaced while they end, they count as failed from then on."""
        if job["spec"]["podReplacementPolicy"] == "Failed":
            return
        for pod in pods:
            own = pod["metadata"]
            tracked = TRACKING in own.get("finalizers", ())
            if "deletionTimestamp" in own and tracked and not is_over(pod):
                job["status"]["failed"] = job["status"].get("failed", 0) + 1
                new.append(pod)

    def _suspended(self, job: Object, pods: list[Object]) -> bool:
        status = job["status"]
        if not job["spec"]["suspend"]:
            if any(one["type"] == "Suspended" for one in status.get("conditions", [])):
                set_condition(job, "Suspended", "False", "JobResumed", "Job resumed")
            if "startTime" not in status:
                status["startTime"] = now()
                self._times[job["metadata"]["uid"]] = Times(time.monotonic())
            return False
        if not condition(job, "Suspended"):
            set_condition(job, "Suspended", "True", "JobSuspended", "Job suspended")
            record_event(self.store, job, "Suspended", "Job suspended", by=BY)
        status.pop("startTime", None)
        self._end(pods)
        return True

    def _decide(self, job: Object, verdict: Verdict, times: Times) -> None:
        """Adds the condition that a job is about to fail or to be complete."""
        if condition(job, "FailureTarget") or condition(job, "SuccessCriteriaMet"):
            return
        spec, status = job["spec"], job["status"]
        deadline = spec.get("activeDeadlineSeconds")
        completions = spec.get("completions")
        broken = len(numbers(status.get("failedIndexes", "")))
        if verdict.fails:
            self._fail(job, "PodFailurePolicy", verdict.fails)
        elif status.get("failed", 0) > spec["backoffLimit"]:
            text = "Job has reached the specified backoff limit"
            self._fail(job, "BackoffLimitExceeded", text)
        elif deadline and time.monotonic() >= times.started + deadline:
            text = "Job was active longer than specified deadline"
            self._fail(job, "DeadlineExceeded", text)
        elif broken > spec.get("maxFailedIndexes", broken):
            text = "Job has exceeded the specified maximal number of failed indexes"
            self._fail(job, "MaxFailedIndexesExceeded", text)
        elif broken and broken + status.get("succeeded", 0) >= completions:
            self._fail(job, "FailedIndexes", "Job has failed indexes")
        elif rule := success_rule(job):
            set_condition(job, "SuccessCriteriaMet", "True", "SuccessPolicy", rule)
        elif completions is not None and status.get("succeeded", 0) >= completions:
            text = "Reached expected number of succeeded pods"
            set_condition(job, "SuccessCriteriaMet", "True", "CompletionsReached", text)
        elif deadline:
            self._again_at(times.started + deadline)

    def _fail(self, job: Object, reason: str, message: str) -> None:
        set_condition(job, "FailureTarget", "True", reason, message)

    def _act(self, job: Object, pods: list[Object]) -> None:
        if condition(job, "FailureTarget") or condition(job, "SuccessCriteriaMet"):
            self._end(pods)
            return
        spec, only_failed = job["spec"], job["spec"]["podReplacementPolicy"] == "Failed"
        there = [
            pod
            for pod in pods
            if not is_over(pod) and (only_failed or "deletionTimestamp" not in pod["metadata"])
        ]
        active = [pod for pod in there if "deletionTimestamp" not in pod["metadata"]]
        if len(active) > spec["parallelism"]:
            self._end(active[spec["parallelism"] :])
            return
        room = spec["parallelism"] - len(there)
        if spec["completionMode"] == "Indexed":
            status = job["status"]
            ended = numbers(status.get("completedIndexes", ""))
            ended |= numbers(status.get("failedIndexes", ""))
            taken = ended | {index_of(pod) for pod in there}
            missing: list[int | None] = [n for n in range(spec["completions"]) if n not in taken]
        else:
            completions = spec.get("completions", spec["parallelism"])
            missing = [None] * (completions - job["status"].get("succeeded", 0) - len(there))
        for index in missing[: max(0, room)]:
            key = None if "backoffLimitPerIndex" not in spec else index
            failures = self._failures.get((job["metadata"]["uid"], key), Failures())
            if time.monotonic() < (moment := failures.next_pod(self._backoff_scale)):
                self._again_at(moment)
            elif not self._create(job, pods, index, failures):
                return

    def _create(
        self, job: Object, pods: list[Object], index: int | None, failures: Failures
    ) -> bool:
        pod = new_pod(job, index)
        if "backoffLimitPerIndex" in job["spec"]:
            counts = {FAILURES: failures.counted, IGNORED: failures.pods - failures.counted}
            own = {name: str(count) for name, count in counts.items() if count or name == FAILURES}
            pod["metadata"]["annotations"] |= own
        try:
            made = self._api.create_pod(pod)
        except Refusal as refusal:
            text = f"Error creating: {refusal.message}"
            record_event(self.store, job, "FailedCreate", text, kind="Warning", by=BY)
            self._again_at(time.monotonic() + 0.2)
            return False
        record_event(
            self.store, job, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}", by=BY
        )
        pods.append(made)
        return True

    def _end(self, pods: list[Object]) -> None:
        for pod in pods:
            if not is_over(pod) and "deletionTimestamp" not in pod["metadata"]:
                self._api.remove(pod)
                pod["metadata"]["deletionTimestamp"] = now()

    @staticmethod
    def _tell_pods(job: Object, living: list[Object]) -> None:
        active = [pod for pod in living if "deletionTimestamp" not in pod["metadata"]]
        ready = [pod for pod in active if condition(pod, "Ready")]
        counts = {"active": len(active), "ready": len(ready)}
        counts["terminating"] = len(living) - len(active)
        for name, count in counts.items():
            if count or name != "active":
                job["status"][name] = count
            else:
                job["status"].pop(name, None)

    def _close(self, job: Object, pods: list[Object]) -> None:
        """Adds the final condition of a job when all of its pods have ended."""
        if any(not is_over(pod) for pod in pods):
            return
        for about, final in (("FailureTarget", "Failed"), ("SuccessCriteriaMet", "Complete")):
            if outcome := condition(job, about):
                set_condition(job, final, "True", outcome["reason"], outcome["message"])
                if final == "Complete":
                    job["status"]["completionTime"] = now()
                    record_event(self.store, job, "Completed", "Job completed", by=BY)
                else:
                    record_event(
                        self.store,
                        job,
                        outcome["reason"],
                        outcome["message"],
                        kind="Warning",
                        by=BY,
                    )
                uid = job["metadata"]["uid"]
                times = self._times.get(uid) or Times(time.monotonic())
                self._times[uid] = times._replace(finished=time.monotonic())

    def _release(self, pod: Object) -> None:
        def let_go(found: Object) -> None:
            kept = [one for one in found["metadata"].get("finalizers", []) if one != TRACKING]
            found["metadata"]["finalizers"] = kept

        own = pod["metadata"]
        if TRACKING in own.get("finalizers", ()):
            self.store.edit("pods", own["namespace"], own["name"], let_go, own["uid"])

    def _expire(self, job: Object) -> None:
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return
        times = self._times.get(job["metadata"]["uid"])
        end = ((times and times.finished) or time.monotonic()) + seconds
        if time.monotonic() >= end:
            self._api.remove(job, "Foreground")
        else:
            self._again_at(end)
