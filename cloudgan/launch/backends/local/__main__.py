"""Entry point of the supervisor: `python -m cloudgan.launch.backends.local FOLDER`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cloudgan.launch.backends.local.backend import JOB_FILE, PLAN_FILE
from cloudgan.launch.backends.local.state_file import StateFile
from cloudgan.launch.backends.local.supervisor import LocalJob, Supervisor
from cloudgan.schema import plan as plans


def main(folder: Path) -> None:
    """Supervises the workers of the run in `folder` until they end."""
    state = StateFile(folder)
    with state.lock():
        body = json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))
        workers = plans.read(folder / PLAN_FILE).workers
        Supervisor(LocalJob(body, folder, workers.allow_open_ports), state).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
