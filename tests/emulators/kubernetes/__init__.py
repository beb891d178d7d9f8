"""A small double of Kubernetes: what cloudgan and its tests call, by the rules of the real control plane.

One process holds an API server (HTTPS on loopback), the controllers, a scheduler and a kubelet that starts
containers as local processes:

    with local_cluster(nodes=2, images={"busybox:1": Image()}, root=tmp_path) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        cluster.evict("default", "gan-0-x7k2p")

The rules (the Job controller's back-off and conditions, schemas, quota, deletion by owner) are those of
tests/realcluster, on which the same tests run; a difference is a fault of the double. Not here:

- verbs and kinds that cloudgan does not use: updates, other patches than merge, apply, several containers in a
  pod, restarts of a container, DNS, admission by webhook, CEL, pod security levels, limit ranges, priorities,
  deletion of namespaces and of owners without their dependents;
- requests without `fieldValidation=Strict`: unknown fields are refused in all; rules for names and sizes of objects;
- scheduling beyond capacity, selectors, taints and anti-affinity by node; no preemption, no autoscaler;
- DaemonSets make no pods: one with NVIDIA's device plugin shows the `hidden_gpus` of the nodes it fits on;
- networks: all pods share the loopback of this machine. `CLOUDGAN_PEERS` and probed ports are replaced by free
  local ones; a peer that the NetworkPolicy objects keep from a pod is a port on which nothing listens;
- file systems: mount paths are replaced in env values, command and args by folders of this machine. Nothing
  is read-only, no user is changed, no limit is enforced (`cluster.evict_under_pressure`);
- the back-off of image pulls (`ImagePullBackOff`);
- images: a mapping from program names to local programs (`cluster.registry(is_away=True)` plays a registry that
  does not answer);
- `ttlSecondsAfterFinished`: no test lasts that long;
- time: a second of the Job controller's back-off lasts `backoff_scale` seconds, one of a probe `probe_scale`.
"""

from __future__ import annotations

from emulators.kubernetes.cluster import Cluster, local_cluster
from emulators.kubernetes.containers import RCLONE, Image, python_image, rclone_image, with_gpus

__all__ = [
    "RCLONE",
    "Cluster",
    "Image",
    "local_cluster",
    "python_image",
    "rclone_image",
    "with_gpus",
]
