"""A Job's manifest where no cluster reads it: command, environment, rules and limits of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cloudgan.core.errors import NoProgress
from cloudgan.kubernetes.manifests import TRAINER, trainer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloudgan.core.run_state import Cause

CONFIG: Final = "/cloudgan/config"
WORK: Final = "/cloudgan/scratch"
_PYTHON = ("python", "python3")


@dataclass(frozen=True)
class JobBody:
    """What processes that stand for pods need to know.

    Attributes:
        body: The manifest.
    """

    body: Mapping[str, Any]

    @property
    def world(self) -> int:
        """How many workers."""
        return int(self.body["spec"]["completions"])

    @property
    def deadline_seconds(self) -> float:
        """From the job's start."""
        return float(self.body["spec"]["activeDeadlineSeconds"])

    @property
    def grace_seconds(self) -> float:
        """From SIGTERM to SIGKILL."""
        return float(self.body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"])

    @property
    def probe(self) -> Mapping[str, Any]:
        """Kubernetes' livenessProbe of a worker."""
        found: Mapping[str, Any] = trainer(dict(self.body))["livenessProbe"]
        return found

    def command(self, python: str) -> list[str]:
        """What a worker runs; `python` is the Python that has cloudgan."""
        first, *rest = trainer(dict(self.body))["command"]
        return [python if first in _PYTHON else first, *rest]

    def environment(self, places: Mapping[str, str]) -> dict[str, str]:
        """Variables that all workers share.

        Args:
            places: What stands for the folders that are mounted in a pod.

        Returns:
            All but CLOUDGAN_PEERS, which only a cluster's names could be, and HOME, which is the
            user's own: only a container needs another.
        """
        found = {}
        for variable in trainer(dict(self.body))["env"]:
            value = variable["value"]
            for mounted, here in places.items():
                if value == mounted or value.startswith(f"{mounted}/"):
                    value = here + value[len(mounted) :]
                    break
            found[variable["name"]] = value
        return {k: v for k, v in found.items() if k not in ("CLOUDGAN_PEERS", "HOME")}

    def tried_again(self) -> tuple[int, ...]:
        """Exit codes with which a worker is replaced, as the podFailurePolicy lists them."""
        found = []
        for rule in self.body["spec"]["podFailurePolicy"]["rules"]:
            codes = rule.get("onExitCodes") or {}
            if rule["action"] == "Ignore" and codes.get("operator") == "In":
                found += codes["values"]
        return tuple(sorted(found))

    def is_tried_again(self, exit_code: int) -> bool:
        """Whether the Job's podFailurePolicy replaces a worker that ended with this code."""
        for rule in self.body["spec"]["podFailurePolicy"]["rules"]:
            codes = rule.get("onExitCodes")
            if codes is None or codes["containerName"] != TRAINER:
                continue
            listed = exit_code in codes["values"]
            if listed == (codes["operator"] == "In"):
                return bool(rule["action"] == "Ignore")
        return True


def why_failed(exit_code: int) -> tuple[str, Cause]:
    """Returns what an exit code that ends the whole run means, and its kind."""
    if exit_code == NoProgress.exit_code:
        return f"three restarts brought no newer checkpoint (exit code {exit_code})", "no progress"
    return f"it ended with exit code {exit_code}", "program"
