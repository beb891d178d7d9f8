"""What the supervisor needs of a Job's manifest, with this machine's folders in place of the pods'."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloudgan.kubernetes.job_body import CONFIG, WORK, JobBody
from cloudgan.kubernetes.manifests import CLAIM_FOLDER

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class JobFile(JobBody):
    """A Job whose workers are processes of this machine.

    Attributes:
        folder: Of the run.
    """

    folder: Path

    def command_here(self) -> list[str]:
        """What a worker runs; `python` is this very Python."""
        return self.command(sys.executable)

    def environment_of(self, index: int, peers: str) -> dict[str, str]:
        """Variables of worker `index`, which must find the others at `peers`."""
        places = {
            CONFIG: str(self.folder / "pods" / "config"),
            WORK: str(self.work(index)),
            CLAIM_FOLDER: str(self.folder / "store"),
        }
        own = {"JOB_COMPLETION_INDEX": str(index), "CLOUDGAN_PEERS": peers}
        return self.environment(places) | own

    def work(self, index: int) -> Path:
        """The folder of worker `index`."""
        return self.folder / "pods" / f"worker-{index}"
