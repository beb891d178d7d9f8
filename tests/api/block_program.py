"""A block in a pod: `block_program.py FOLDER PHASE [STORE WORKER]`; in some phases it dies with all its processes."""

import os
import signal
import sys
import time
from pathlib import Path

from cloudgan.api import search_block
from cloudgan.api.search_block import SearchBlock
from cloudgan.schema.config import parse_config
from cloudgan.schema.heartbeat import LivenessFile
from cloudgan.worker.pod_environment import Peers, PodEnvironment

PROGRAM = (sys.executable, str(Path(__file__).parents[1] / "search" / "trainer_program.py"))


def main(folder, phase, store="", worker="0"):
    pod = PodEnvironment(
        peers=Peers(("h0:1", "h1:1", "h2:1"), int(worker)),
        store_url=store or str(folder / "store"),
        run="d",
        config=parse_config({"task": "join", "join": "s"}, "test"),
        config_hash="",
        work=folder / f"killed-{worker}",
    )
    pod.work.mkdir(exist_ok=True)
    search_block._ASK_SECONDS = search_block.Pod.look_seconds = 0.05
    search_block.stage_showers = lambda pod, progress: None
    block = SearchBlock(
        pod,
        LivenessFile(None),
        print,
        program=PROGRAM,
        beat_seconds=0.05,
        lease_seconds=60.0 if store else 600.0,
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
        dies_before(block._place, "limit", lambda: time.monotonic() - began > 0.5)
    elif phase == "staging":
        dies_before(files, "stage")
    elif phase == "training":
        saved = folder / "store/searches/s/trials/0000/checkpoints"
        dies_before(block._place, "watch", lambda _: len(list(saved.glob("*"))) >= 4)
    elif phase == "saving":
        dies_before(files, "upload")
    elif phase == "reporting":
        dies_before(block._beat, "change", lambda **values: "spells" in values)
    block.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
