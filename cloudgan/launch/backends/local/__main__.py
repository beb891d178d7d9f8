"""Entry point of the supervisor: `python -m cloudgan.launch.backends.local FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from cloudgan.core.documents import parse_json, read_bytes
from cloudgan.launch.backends.local.backend import JOB_FILE, PLAN_FILE
from cloudgan.launch.backends.local.supervisor import LocalJob, StateFile, Supervisor
from cloudgan.launch.kubernetes.manifests import must_guard_ports
from cloudgan.schema import plan as plans


def main(folder: Path) -> None:
    """Supervises the workers of the run in `folder` until they end."""
    state = StateFile(folder)
    body = parse_json(read_bytes(folder / JOB_FILE), JOB_FILE)
    plan = plans.read(folder / PLAN_FILE)
    supervisor = Supervisor(LocalJob(body, folder, must_guard_ports(plan)), state)
    with state.lock():  # its holder is the sign that the supervisor runs
        supervisor.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
