"""What the supervisor needs of a Job's manifest: command, environment, rules, limits."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.kubernetes.manifests import CLAIM_FOLDER, trainer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PYTHON = ("python", "python3")
_CONFIG, _WORK = "/cloudgan/config", "/cloudgan/work"


@dataclass(frozen=True)
class JobFile:
    """A Job, with this machine's folders in place of the pods'.

    Attributes:
        body: The manifest.
        folder: Of the run.
    """

    body: Mapping[str, Any]
    folder: Path

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

    def command(self) -> list[str]:
        """What a worker runs; `python` is this very Python."""
        first, *rest = trainer(dict(self.body))["command"]
        return [sys.executable if first in _PYTHON else first, *rest]

    def environment(self, index: int, peers: str) -> dict[str, str]:
        """Variables of worker `index`, which must find the others at `peers`."""
        work = self.work(index)
        places = {
            _CONFIG: str(self.folder / "pods" / "config"),
            _WORK: str(work),
            CLAIM_FOLDER: str(self.folder / "store"),
        }
        found = {"JOB_COMPLETION_INDEX": str(index)}
        for variable in trainer(dict(self.body))["env"]:
            value = variable["value"]
            for mounted, here in places.items():
                if value == mounted or value.startswith(f"{mounted}/"):
                    value = here + value[len(mounted) :]
            found[variable["name"]] = value
        del found["HOME"]  # the user's own: only a container needs another
        return found | {"CLOUDGAN_PEERS": peers}

    def work(self, index: int) -> Path:
        """The folder of worker `index`."""
        return self.folder / "pods" / f"worker-{index}"

    def is_tried_again(self, exit_code: int) -> bool:
        """Whether the Job's podFailurePolicy replaces a worker that ended with this code."""
        for rule in self.body["spec"]["podFailurePolicy"]["rules"]:
            codes = rule.get("onExitCodes")
            if codes is None:
                continue
            listed = exit_code in codes["values"]
            if listed == (codes["operator"] == "In"):
                return bool(rule["action"] == "Ignore")
        return True
