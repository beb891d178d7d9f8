"""Reads a Job's manifest for backends without a cluster: command, environment, failure policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cloudgan.core.errors import ConfigError, NoProgress
from cloudgan.launch.kubernetes.manifests import TRAINER, trainer
from cloudgan.schema.run_state import Cause

CONFIG: Final = "/cloudgan/config"
WORK: Final = "/cloudgan/scratch"
KEY_FOLDER: Final = "/cloudgan/secret"
KEY_FILE: Final = "key"
"""File in `KEY_FOLDER` that holds the secret of the run."""
RESTART_CODES: Final = (75, 137, 143)
"""Exit codes after which the podFailurePolicy of k8s/job.yaml restarts a worker."""
_PYTHON = ("python", "python3")


@dataclass(frozen=True)
class JobSpec:
    """The parts of a Job that a worker process without a pod needs."""

    body: Mapping[str, Any]

    @property
    def world(self) -> int:
        """Number of workers."""
        return int(self.body["spec"]["completions"])

    @property
    def deadline_seconds(self) -> float:
        """Limit from the start of the Job."""
        return float(self.body["spec"]["activeDeadlineSeconds"])

    @property
    def grace_seconds(self) -> float:
        """Time from SIGTERM to SIGKILL."""
        return float(self.body["spec"]["template"]["spec"]["terminationGracePeriodSeconds"])

    @property
    def probe(self) -> Mapping[str, Any]:
        """The livenessProbe of a worker."""
        found: Mapping[str, Any] = trainer(dict(self.body))["livenessProbe"]
        return found

    def command(self, python: str) -> list[str]:
        """Returns the command of a worker; `python` is the interpreter that has cloudgan."""
        first, *rest = trainer(dict(self.body))["command"]
        return [python if first in _PYTHON else first, *rest]

    def environment(self, folders: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment variables that all workers share.

        Returns:
            All variables except CLOUDGAN_PEERS, which holds names of a cluster, and HOME.
        """
        found = {}
        for variable in trainer(dict(self.body))["env"]:
            if "value" not in variable:  # in a Secret; the backend has its own way to deliver it
                continue
            value = str(variable["value"]).replace("$$", "$")
            for mount, folder in folders.items():
                if value == mount or value.startswith(f"{mount}/"):
                    value = folder + value[len(mount) :]
                    break
            found[variable["name"]] = value
        return {k: v for k, v in found.items() if k not in ("CLOUDGAN_PEERS", "HOME")}

    def restarts_after(self, exit_code: int) -> bool:
        """Whether the Job's podFailurePolicy replaces a worker that ended with this code."""
        for rule in self.body["spec"]["podFailurePolicy"]["rules"]:
            codes = rule.get("onExitCodes")
            if codes is None or codes["containerName"] != TRAINER:
                continue
            listed = exit_code in codes["values"]
            if listed == (codes["operator"] == "In"):
                return bool(rule["action"] == "Ignore")
        return True


def describe_exit_code(exit_code: int) -> tuple[str, Cause]:
    """Returns a description and the cause for an exit code that ends the run."""
    if exit_code == NoProgress.exit_code:
        return f"no newer checkpoint after three restarts (exit code {exit_code})", "no progress"
    if exit_code == ConfigError.exit_code:
        why = "its devices or its settings do not fit the plan"
        return f"{why} (exit code {exit_code})", "program"
    return f"exited with code {exit_code}", "program"
