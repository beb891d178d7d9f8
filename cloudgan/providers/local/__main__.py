"""The supervisor as a program: `python -m cloudgan.providers.local FOLDER`, in the background."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cloudgan.providers.local.job_file import JobFile
from cloudgan.providers.local.requests import JOB_FILE
from cloudgan.providers.local.state_file import StateFile
from cloudgan.providers.local.supervisor import Supervisor


def main(folder: Path) -> None:
    """Keeps the workers of the run in `folder` until they are done."""
    state = StateFile(folder)
    with state.held():
        body = json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))
        Supervisor(JobFile(body, folder), state).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
