"""A block in a pod that dies with all its processes in one phase: `block_program.py FOLDER PHASE`."""

import os
import signal
import sys
import time
from pathlib import Path

from cloudgan.api import search_block
from cloudgan.api.search_block import SearchBlock
from cloudgan.schema.config import parse_config
from cloudgan.schema.liveness import LivenessFile
from cloudgan.worker.pod_environment import Peers, PodEnvironment

PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "search" / "trainer_program.py"))


def main(folder, phase):
    pod = PodEnvironment(
        peers=Peers(("h0:1",), 0),
        store_url=str(folder / "store"),
        run="d",
        config=parse_config({"task": "join", "join": "s"}, "test"),
        config_hash="",
        work=folder / "killed",
    )
    pod.work.mkdir()
    search_block._ASK_SECONDS = search_block._LOOK_SECONDS = 0.05
    search_block.stage_showers = lambda pod, progress: None
    block = SearchBlock(
        pod, LivenessFile(None), print, program=PROGRAM, beat_seconds=0.05, lease_seconds=600.0
    )

    def die():
        process = block._block._process
        if process:
            process.kill()
            process.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    def dies_before(owner, name, when=lambda *_: True):
        whole = getattr(owner, name)

        def call(*arguments, **values):
            if when(*arguments, **values):
                die()
            return whole(*arguments, **values)

        setattr(owner, name, call)

    files = search_block._TrialFiles
    if phase == "asking":
        began = time.monotonic()
        dies_before(block, "_ask", lambda: time.monotonic() - began > 0.5)
    elif phase == "staging":
        dies_before(files, "stage")
    elif phase == "training":
        saved = folder / "store/searches/s/trials/0000/checkpoints"
        dies_before(block, "_is_withdrawn", lambda *_: len(list(saved.glob("*"))) >= 4)
    elif phase == "saving":
        dies_before(files, "upload")
    elif phase == "reporting":
        dies_before(block._beat, "change", lambda **values: values.get("code") is not None)
    block.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
