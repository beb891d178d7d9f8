"""A queue of Kueue in the namespace of the runs: Kueue itself on the real control plane, played on the double.

What is played is what Kueue 0.17 was seen to do here, in its words; the same tests run on both.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter

from emulators.kubernetes import Cluster
from emulators.kubernetes.objects import Resource, condition, parse_quantity, set_condition
from launch.backends.kubernetes.lab import IMAGE, NAMESPACE

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
QUEUES = Resource(GROUP, VERSION, "localqueues", "LocalQueue")
WORKLOADS = Resource(GROUP, VERSION, "workloads", "Workload")
QUEUE, CPUS = "physics", 2
QUEUE_LABEL, PRIORITY_LABEL = f"{GROUP}/queue-name", f"{GROUP}/priority-class"
TIME_LABEL, TIME_IS_OVER = f"{GROUP}/max-exec-time-seconds", "MaximumExecutionTimeExceeded"
LACKING = (
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor nodes, {} more"
    " needed"
)


def other_job(name, *, cpus=1, priority=None, image=IMAGE):
    """A Job of other people in the same queue, which runs until it is deleted."""
    labels = {QUEUE_LABEL: QUEUE} | ({PRIORITY_LABEL: priority} if priority else {})
    asked = {"cpu": str(cpus), "memory": "1Gi"}
    container = {"name": "sleep", "image": image, "command": ["sleep", "600"]}
    container["resources"] = {"requests": asked, "limits": asked}
    pod = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"suspend": True, "completions": 1, "parallelism": 1, "template": {"spec": pod}},
    }


@contextlib.contextmanager
def queue(cluster, **settings):
    """Runs Kueue with one queue of two processors; only the real one reads `settings`."""
    played = isinstance(cluster, Cluster)
    with _played(cluster) if played else _real(cluster, settings):
        local = {
            "metadata": {"name": QUEUE, "namespace": NAMESPACE},
            "spec": {"clusterQueue": "lab"},
        }
        cluster.put(QUEUES, local)
        yield


@contextlib.contextmanager
def _real(cluster, settings):
    from realcluster.with_kueue import kueue

    quotas = [("cpu", str(CPUS)), ("memory", "64Gi")]
    flavor = {"name": "nodes", "resources": [{"name": k, "nominalQuota": v} for k, v in quotas]}
    group = {"coveredResources": ["cpu", "memory"], "flavors": [flavor]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    spec["preemption"] = {"withinClusterQueue": "LowerPriority"}
    with kueue(cluster, **settings):
        for plural, kind, fields in (
            ("clusterqueues", "ClusterQueue", {"spec": spec}),
            ("workloadpriorityclasses", "WorkloadPriorityClass", {"value": 1000}),
        ):
            name = "lab" if plural == "clusterqueues" else "urgent"
            resource = Resource(GROUP, VERSION, plural, kind, namespaced=False)
            cluster.put(resource, {"metadata": {"name": name}} | fields)
        yield


@contextlib.contextmanager
def _played(cluster):
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for one in (QUEUES, WORKLOADS):
        names = {"plural": one.plural, "kind": one.kind}
        schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
        version = {"name": VERSION, "served": True, "storage": True}
        version["schema"] = {"openAPIV3Schema": schema}
        spec = {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]}
        cluster.put(
            "customresourcedefinitions",
            {"metadata": {"name": f"{one.plural}.{GROUP}"}, "spec": spec},
        )
    ended = threading.Event()

    def play():
        spent, before = Counter(), time.monotonic()
        while not ended.wait(0.05):
            with cluster._store.changed:
                admitted = _sync(cluster._store, spent)
            passed, before = time.monotonic() - before, time.monotonic()
            for uid in admitted:
                spent[uid] += passed

    playing = threading.Thread(target=play, daemon=True)
    playing.start()
    yield
    ended.set()
    playing.join()


def _sync(store, spent):
    """Admits Jobs while the quota lasts: urgent ones first, then those that run, then the older.

    Returns the ids of those that are admitted; `spent` is for how many seconds each was.
    """
    jobs = [one for one in store.select("jobs", NAMESPACE) if QUEUE_LABEL in _labels(one)]
    jobs = [one for one in jobs if not (condition(one, "Complete") or condition(one, "Failed"))]
    left, admitted = CPUS, []

    def place(job):
        own = job["metadata"]
        return PRIORITY_LABEL not in _labels(job), job["spec"]["suspend"], own["creationTimestamp"]

    for job in sorted(jobs, key=place):
        own, spec = job["metadata"], job["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        cpus = parse_quantity(container["resources"]["requests"]["cpu"])
        cpus = math.ceil(cpus * spec.get("parallelism", 1))
        name = f"job-{own['name']}"
        workload = store.find(WORKLOADS, NAMESPACE, name) or _workload(store, job, name)
        if spent[own["uid"]] >= float(_labels(job).get(TIME_LABEL, "inf")):
            workload["spec"]["active"] = False
            text = "exceeding the maximum execution time"
            set_condition(workload, "Evicted", "True", f"DeactivatedDueTo{TIME_IS_OVER}", text)
        is_admitted = cpus <= left and workload["spec"]["active"]
        text = "" if is_admitted else LACKING.format(cpus - left)
        for step in ("QuotaReserved", "Admitted"):
            set_condition(workload, step, str(is_admitted), "" if is_admitted else "Pending", text)
        store.replace(WORKLOADS, workload)
        if is_admitted:
            left -= cpus
            admitted.append(own["uid"])
        if spec["suspend"] == is_admitted:
            spec["suspend"] = not is_admitted
            store.replace("jobs", job)
    return admitted


def _workload(store, job, name):
    own = job["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": own["name"], "uid": own["uid"]}
    labels = {f"{GROUP}/job-uid": own["uid"]}
    meta = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
    return store.insert(WORKLOADS, {"metadata": meta, "spec": {"active": True}})


def _labels(found):
    return found["metadata"].get("labels") or {}
