"""One cluster: starts and stops all parts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import yaml

from emulators.kubernetes.admission import Admission
from emulators.kubernetes.api import Api, Options
from emulators.kubernetes.certificates import authority, server_context
from emulators.kubernetes.container import Starter
from emulators.kubernetes.controls import Controls
from emulators.kubernetes.device_plugins import DevicePlugins
from emulators.kubernetes.faults import Faults, Request
from emulators.kubernetes.garbage import GarbageCollector, QueueController, QuotaController
from emulators.kubernetes.images import Image, python_image
from emulators.kubernetes.job_controller import JobController
from emulators.kubernetes.kubelet import Kubelets, Settings
from emulators.kubernetes.logs import Logs
from emulators.kubernetes.nodes import NodeLifecycle
from emulators.kubernetes.ports import PeerPorts
from emulators.kubernetes.processes import ProcessReaper
from emulators.kubernetes.queued_provisioning import REQUEST, SCHEMA, QueuedProvisioning
from emulators.kubernetes.reading import Reading
from emulators.kubernetes.resources import BUILT_IN, GANG, KUEUE
from emulators.kubernetes.rights import Rights
from emulators.kubernetes.routes import Routes
from emulators.kubernetes.scheduler import Scheduler
from emulators.kubernetes.schemas import Schemas
from emulators.kubernetes.server import ApiServer
from emulators.kubernetes.store import KINDS, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from emulators.kubernetes.controller import Controller

Object = dict[str, Any]
MOST_SECONDS = 20.0


class Cluster(Controls):
    """A running cluster."""

    def __init__(
        self,
        root: Path,
        images: Mapping[str, Image] | None,
        version: str,
        *,
        gang: bool,
        kueue: bool,
        probe_scale: float,
        backoff_scale: float,
        enforces_policies: bool,
    ) -> None:
        self.root = root
        self.images = dict(
            {"busybox:1": Image(), "python:3": python_image()} if images is None else images
        )
        """Add to it, and pods that wait for an image start."""
        kinds = (*(GANG if gang else ()), *(KUEUE if kueue else ()), REQUEST)
        self._store = Store([*BUILT_IN, *kinds])
        store = self._store
        self._schemas = Schemas(version)
        self._schemas.learn(REQUEST, SCHEMA)
        self.queued_provisioning = QueuedProvisioning(store)
        self._api = Api(store, self._schemas, Admission(store, gang=gang, kueue=kueue))
        self._rights, self._faults, self._reading = Rights(store), Faults(), Reading(store)
        self._reaper = ProcessReaper()
        settings = Settings(self.images, probe_scale)
        starter = Starter(
            store, PeerPorts(store, enforces_policies=enforces_policies), self._reaper
        )
        self._kubelets = Kubelets(store, root, settings, starter)
        self._settings = settings
        self._nodes = NodeLifecycle(store, self._api)
        self._device_plugins = DevicePlugins(store)
        logs = Logs(store, root, settings.lost_nodes)
        routes = Routes(
            store, self._api, self._rights, reading=self._reading, logs=logs, version=version
        )
        self._server = ApiServer(routes, self._faults, server_context(root))
        self._controllers: list[Controller] = [
            JobController(store, self._api, backoff_scale),
            GarbageCollector(store, self._api),
            QuotaController(store),
            Scheduler(store, self._api),
            self._nodes,
            self._device_plugins,
            self._kubelets,
            *([QueueController(store)] if kueue else []),
            self.queued_provisioning,
        ]
        (root / "ca.crt").write_bytes(authority().certificate)

    def start(self) -> None:
        for name in ("default", "kube-system"):
            body = {"metadata": {"name": name}}
            self._api.create(KINDS["namespaces"], None, body, Options({}))
        for controller in self._controllers:
            controller.start()

    def close(self) -> None:
        """Ends all parts; raises their errors."""
        self._store.close()
        self._kubelets.close()
        self._server.stop()
        for controller in self._controllers:
            controller.join(MOST_SECONDS)
        self._reaper.close()
        if self._store.troubles:
            raise self._store.troubles[0]

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def ca(self) -> Path:
        """The file of the authority that clients must trust."""
        return self.root / "ca.crt"

    @property
    def requests(self) -> list[Request]:
        """The requests so far, in the order of the answers."""
        return list(self._faults.requests)

    def token(
        self,
        rules: Sequence[Object] | None = None,
        seconds: float | None = None,
        user: str | None = None,
    ) -> str:
        """Makes a token.

        Without arguments it may do everything. `rules` are Role or ClusterRole objects or bare
        rules: what they don't allow is forbidden. With a `user` alone, the role bindings in the
        cluster count. It expires after `seconds`.
        """
        return self._rights.token(rules, seconds, user)

    def trust(
        self,
        authenticator: Callable[[str], str | None],
        rules: Sequence[Object] | None = None,
    ) -> None:
        """Lets a cloud authenticate its tokens; its users have the permissions of `rules`, or all."""
        self._rights.authenticator = authenticator
        self._rights.cloud_rules = None if rules is None else tuple(rules)

    def kubeconfig(self, path: Path, token: str | None = None, namespace: str = "default") -> Path:
        """Writes a kubeconfig with one context, `test`."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        context = {"cluster": "test", "user": "test", "namespace": namespace}
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "contexts": [{"name": "test", "context": context}],
            "users": [{"name": "test", "user": {"token": token or self.token()}}],
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(written), encoding="utf-8")
        return path


@contextlib.contextmanager
def local_cluster(
    nodes: int = 1,
    gpus: int = 0,
    images: Mapping[str, Image] | None = None,
    *,
    root: Path,
    version: str = "1.32",
    gang: bool = False,
    kueue: bool = False,
    probe_scale: float = 1.0,
    backoff_scale: float = 0.01,
    enforces_policies: bool = True,
) -> Iterator[Cluster]:
    """Runs a cluster with nodes `node-0`, `node-1`, ... of `gpus` each; `root` holds its files.

    Without `images` there are `busybox:1` (programs of this machine) and `python:3`. `gang` serves
    scheduling.k8s.io/v1beta1, `kueue` kueue.x-k8s.io/v1beta1. A probe's second lasts `probe_scale`
    seconds, and one of the Job controller's back-off `backoff_scale` seconds. Without `enforces_policies`
    the cluster has no policy engine: NetworkPolicy objects are stored and have no effect.
    """
    root = root / "cluster"
    root.mkdir(parents=True)
    cluster = Cluster(
        root,
        images,
        version,
        gang=gang,
        kueue=kueue,
        probe_scale=probe_scale,
        backoff_scale=backoff_scale,
        enforces_policies=enforces_policies,
    )
    try:
        cluster.start()
        for index in range(nodes):
            cluster.add_node(f"node-{index}", gpus=gpus)
        yield cluster
    finally:
        cluster.close()
