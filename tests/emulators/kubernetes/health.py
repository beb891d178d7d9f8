"""Results of container probes and their effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from emulators.kubernetes.controller import record_event
from emulators.kubernetes.probes import Prober

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulators.kubernetes.container import Container
    from emulators.kubernetes.store import Store

Object = dict[str, Any]


class Probed(NamedTuple):
    """The result of a probe has changed."""

    container: Container
    kind: str
    holds: bool
    trouble: str


class Health:
    """Starts the probes of a pod's containers and handles their results."""

    def __init__(
        self, store: Store, pod: Object, scale: float, report: Callable[[Probed], None]
    ) -> None:
        self._store, self._pod = store, pod
        self._scale, self._report = scale, report

    def watch(self, container: Container) -> None:
        """Probes a container that was started; until it has started up, by that probe alone."""
        container.probers.clear()
        kinds = ["startupProbe"]
        if container.started_up:
            kinds = ["readinessProbe", "livenessProbe"]
        for kind in kinds:
            self._start(container, kind)

    def _start(self, container: Container, kind: str) -> None:
        if kind not in container.spec:
            return

        def report(holds: bool, trouble: str) -> None:
            self._report(Probed(container, kind, holds, trouble))

        prober = Prober(container.spec[kind], container.port, self._scale, report)
        container.probers.append(prober)
        prober.start()

    def judge(self, found: Probed) -> Container | None:
        """Handles a result; returns the container if it must be killed."""
        container, kind = found.container, found.kind
        if not container.is_running:
            return None
        name = kind.removesuffix("Probe")
        if not found.holds:
            outcome = f"{name.capitalize()} probe failed: {found.trouble}"
            record_event(self._store, self._pod, "Unhealthy", outcome, kind="Warning")
        if kind == "readinessProbe":
            container.probed_ready = found.holds
            return None
        if not found.holds:
            outcome = f"Container {container.name} failed {name} probe, will be restarted"
            record_event(self._store, self._pod, "Killing", outcome)
            return container
        if kind == "startupProbe":
            container.started_up = True
            for prober in container.probers:
                prober.stop()
            self.watch(container)
        return None
