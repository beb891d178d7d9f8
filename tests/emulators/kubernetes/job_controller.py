"""The Job controller: pods for indexes, counts, policies, deadlines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes.controller import Controller, record_event
from emulators.kubernetes.job_pods import (
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
    next_pod: float = 0.0


class JobController(Controller):
    """Reconciles all jobs from the current state."""

    def __init__(self, store: Store, api: Api, pod_backoff_seconds: float) -> None:
        super().__init__(store)
        self._api = api
        self._pod_backoff_seconds = pod_backoff_seconds
        self._times: dict[str, Times] = {}
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
            if TRACKING in pod["metadata"].get("finalizers", ()) and is_over(pod)
        ]
        verdict = self._count(job, new)
        self._drop_terminating(job, pods, new)
        if not self._suspended(job, pods):
            times = self._times.setdefault(uid, Times(time.monotonic()))
            if new and verdict.failed_now:
                backoff = times.started if not times.next_pod else time.monotonic()
                backoff = max(backoff, time.monotonic()) + self._pod_backoff_seconds
                times = self._times[uid] = times._replace(next_pod=backoff)
            self._decide(job, verdict, times)
            self._act(job, pods, times)
        self._tell_pods(job, [pod for pod in pods if not is_over(pod)])
        self._close(job, pods)
        if job != before:
            self.store.replace("jobs", job)
        for pod in new:
            self._release(pod)

    def _count(self, job: Object, new: list[Object]) -> Verdict:
        """Counts the pods that ended since last time, by the failure policy."""
        status = job["status"]
        done = numbers(status.get("completedIndexes", ""))
        verdict = Verdict()
        indexed = job["spec"]["completionMode"] == "Indexed"
        for pod in new:
            if pod["status"]["phase"] == "Succeeded":
                if not indexed:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                elif (index := index_of(pod)) is not None and index < job["spec"]["completions"]:
                    done.add(index)
                continue
            action, why = judge(job, pod)
            verdict.failed_now = True
            if action == "FailJob" and not verdict.fails:
                verdict.fails = why
            if action != "Ignore":
                status["failed"] = status.get("failed", 0) + 1
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
        if verdict.fails:
            self._fail(job, "PodFailurePolicy", verdict.fails)
        elif status.get("failed", 0) > spec["backoffLimit"]:
            text = "Job has reached the specified backoff limit"
            self._fail(job, "BackoffLimitExceeded", text)
        elif deadline and time.monotonic() >= times.started + deadline:
            text = "Job was active longer than specified deadline"
            self._fail(job, "DeadlineExceeded", text)
        elif rule := success_rule(job):
            set_condition(job, "SuccessCriteriaMet", "True", "SuccessPolicy", rule)
        elif completions is not None and status.get("succeeded", 0) >= completions:
            text = "Reached expected number of succeeded pods"
            set_condition(job, "SuccessCriteriaMet", "True", "CompletionsReached", text)
        elif deadline:
            self._again_at(times.started + deadline)

    def _fail(self, job: Object, reason: str, message: str) -> None:
        set_condition(job, "FailureTarget", "True", reason, message)

    def _act(self, job: Object, pods: list[Object], times: Times) -> None:
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
            done = numbers(job["status"].get("completedIndexes", ""))
            taken = done | {index_of(pod) for pod in there}
            missing: list[int | None] = [n for n in range(spec["completions"]) if n not in taken]
        else:
            completions = spec.get("completions", spec["parallelism"])
            missing = [None] * (completions - job["status"].get("succeeded", 0) - len(there))
        if missing and room > 0 and time.monotonic() < times.next_pod:
            self._again_at(times.next_pod)
            return
        for index in missing[: max(0, room)]:
            if not self._create(job, pods, index):
                return

    def _create(self, job: Object, pods: list[Object], index: int | None) -> bool:
        pod = new_pod(job, index)
        try:
            made = self._api.create_pod(pod)
        except Refusal as refusal:
            text = f"Error creating: {refusal.message}"
            record_event(self.store, job, "FailedCreate", text, kind="Warning", by=BY)
            self._again_at(time.monotonic() + max(0.2, self._pod_backoff_seconds))
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
