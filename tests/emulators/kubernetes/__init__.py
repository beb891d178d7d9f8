"""Kubernetes emulator for launch tests without Docker and without root.

One process holds an API server (HTTPS on loopback, one certificate authority per cluster), the
controllers (Jobs, garbage, quota, lost nodes), a scheduler and a kubelet per node, which starts the
containers of pods as local processes. The official client and kubectl talk to it:

    with local_cluster(nodes=2, gpus=0, images={"busybox:1": Image()}, root=tmp_path) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        cluster.evict("default", "gan-0-x7k2p")

What is faithful: requests, answers, Status bodies, watches, patches, server-side apply, strict
schemas, roles, quota, an Indexed Job's life with its policies, what a pod's status says while its
process starts, runs, gets SIGTERM, is killed.

What it does NOT prove:

- scheduling rules beyond capacity, selectors, taints and anti-affinity by node; no preemption, no
  autoscaler: a GPU is a number;
- DaemonSets: they make no pods. One with the image of NVIDIA's device plugin shows the `hidden_gpus`
  of the nodes to which its pods could go;
- gangs: the field of `gang=True` is kept, pods are placed one by one all the same;
- admission: no webhooks, no CEL, no pod security levels, no limit ranges, no priorities; a CRD's
  schema is checked, its rules are not;
- names and networks: all pods share the loopback of this machine. There is no DNS. `CLOUDGAN_PEERS` and
  probed ports are replaced by free local ones. A peer in CLOUDGAN_PEERS that the NetworkPolicy objects
  keep from a pod when it starts is a port on which nothing listens; nothing else is kept from anything;
- file systems: mount paths are replaced in env values, command and args by folders of this machine.
  A path that is written in a program or in a mounted file is not. Nothing is read-only, no user is
  changed, no limit of memory, CPU or disk is enforced (`cluster.oom`, `cluster.evict_under_pressure`);
- images: an image is a mapping from program names to local programs. Nothing is pulled
  (`cluster.registry(is_away=True)` plays a registry that does not answer). No image
  registers a GPU; in one made by `with_gpus` a worker expects none, whatever its manifest says;
- exact texts: the messages that programs read are copied from the real ones, others only resemble;
- unknown fields are refused unless a request asks for `fieldValidation=Ignore` or `Warn`; the real
  default only warns. `exec` probes, hooks, ephemeral containers and port-forward requests do not
  exist; exec requests are served over WebSocket only, with commands of this machine;
- speed: the Job controller's back-off is shortened by `backoff_scale`, its rule is the real one; other
  back-offs and the delays of node loss are fractions of a second, by parameter.
"""

from __future__ import annotations

from emulators.kubernetes.images import Image, python_image, with_gpus
from emulators.kubernetes.local import Cluster, local_cluster

__all__ = ["Cluster", "Image", "local_cluster", "python_image", "with_gpus"]
