"""Pods of a Job: creation, meaning of failures, completed indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emulators.kubernetes.selection import at
from emulators.kubernetes.store import copied, suffix

Object = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"
TRACKING = "batch.kubernetes.io/job-tracking"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


@dataclass
class Verdict:
    """The effect on a job of the pods that ended since the last reconciliation."""

    fails: str = ""
    """Why the job fails at once."""


def new_pod(job: Object, index: int | None) -> Object:
    """Returns a pod of a job as the real controller makes it."""
    own, template = job["metadata"], copied(job["spec"]["template"])
    meta = template.setdefault("metadata", {})
    meta["namespace"] = own["namespace"]
    meta["finalizers"] = [TRACKING]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": own["name"], "uid": own["uid"]}
    meta["ownerReferences"] = [owner | {"controller": True, "blockOwnerDeletion": True}]
    if index is None:
        meta["generateName"] = f"{own['name']}-"
    else:
        meta["generateName"] = f"{own['name']}-{index}-"
        meta.setdefault("annotations", {})[INDEX] = str(index)
        meta.setdefault("labels", {})[INDEX] = str(index)
        template["spec"].setdefault("hostname", f"{own['name']}-{index}")
        reference = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
        for field in ("initContainers", "containers"):
            for container in template["spec"].get(field) or []:
                environment = container.setdefault("env", [])
                if all(one["name"] != "JOB_COMPLETION_INDEX" for one in environment):
                    environment.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": reference})
    meta["name"] = meta["generateName"] + suffix()
    return {"apiVersion": "v1", "kind": "Pod", **template}


def index_of(pod: Object) -> int | None:
    """Returns the completion index of a pod."""
    outcome = at(pod, "metadata", "annotations", INDEX)
    return int(outcome) if outcome is not None else None


def judge(job: Object, pod: Object) -> tuple[str, str]:
    """Returns the action of the failure policy for a failed pod, and its message."""
    for number, rule in enumerate(at(job, "spec", "podFailurePolicy", "rules", default=[])):
        if codes := rule.get("onExitCodes"):
            why = _exit_code(codes, pod)
        else:
            why = _pod_condition(rule.get("onPodConditions") or [], pod)
        if why:
            return rule["action"], f"{why} matching {rule['action']} rule at index {number}"
    return "Count", ""


def _exit_code(codes: Object, pod: Object) -> str:
    status, own = pod["status"], pod["metadata"]
    outcome = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    for one in outcome:
        code = at(one, "state", "terminated", "exitCode", default=0)
        if not code or codes.get("containerName") not in {None, one["name"]}:
            continue
        if (code in codes["values"]) == (codes["operator"] == "In"):
            named = f"{own['namespace']}/{own['name']}"
            return f"Container {one['name']} for pod {named} failed with exit code {code}"
    return ""


def _pod_condition(patterns: list[Object], pod: Object) -> str:
    for pattern in patterns:
        for one in pod["status"].get("conditions", []):
            if (one["type"], one["status"]) == (pattern["type"], pattern["status"]):
                own = pod["metadata"]
                named = f"{own['namespace']}/{own['name']}"
                return f"Pod {named} has condition {one['type']}"
    return ""


def success_rule(job: Object) -> str:
    """Returns the message of the success policy's rule that is met, if one is."""
    done = numbers(job["status"].get("completedIndexes", ""))
    for number, rule in enumerate(at(job, "spec", "successPolicy", "rules", default=[])):
        wanted = numbers(rule["succeededIndexes"]) if "succeededIndexes" in rule else None
        there = done if wanted is None else done & wanted
        count = rule.get("succeededCount", len(wanted) if wanted else 0)
        if there and len(there) >= count:
            return f"Matched rules at index {number}"
    return ""


def numbers(text: str) -> set[int]:
    """Reads indexes as a status lists them: `0-2,5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def listed(indexes: set[int]) -> str:
    """Writes indexes as the real controller does: two in a row stay two, three become a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}{',' if len(run) == 2 else '-'}{run[-1]}"
        for run in runs
    )
