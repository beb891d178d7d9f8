"""Stub of `cloudgan train --run=FOLDER` in tests of searches: no TensorFlow, real records.

It validates ten times; the metric is a function of the learning rate in run.yaml, and grows by one with
each fold. It saves its epoch, in the folder of checkpoint.url where there is one, so that a second process
continues. The environment variable BEHAVIOUR makes it fail, die once, wait, stay until it is stopped, or save
slowly then. A second signal ends it at once, as `StopFlag` does: it saves nothing.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from pathlib import Path

from cloudgan.core.errors import ConfigError
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder, checkpoint_name, checkpoint_steps
from cloudgan.storage.store import open_store

EPOCHS = 10


def saved(step):
    return record.Checkpointed(
        time="2026-11-22T00:00:00Z", step=step, path="", seconds=0.1, bytes=1
    )


def main(run):
    folder = RunFolder(run)
    config = folder.read_config()
    rate = config.model.learning_rate
    behaviour = os.environ.get("BEHAVIOUR", "")
    fold = config.data.fold or 0
    if behaviour in {"fails", f"fold {fold} fails"}:
        print("cloudgan: the showers are damaged", flush=True)
        sys.exit(1)
    state = folder.path / "epoch"
    copies = open_store(config.checkpoint.url) if config.checkpoint.url else None
    first = int(state.read_text()) if state.exists() else 0
    if copies:
        steps = checkpoint_steps(copies.list())
        first = steps[-1] // 10 if steps else 0
    stopped = []

    def stop(*_):
        if stopped:
            os._exit(130)
        stopped.append(1)

    signal.signal(signal.SIGINT, stop)
    for epoch in range(first, EPOCHS):
        if behaviour == "dies once" and epoch == 5 and first == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "waits" or behaviour.startswith("fold"):
            time.sleep(0.1)
        (folder.path / "trains").touch()
        while behaviour in {"stays", "saves slowly"} and not stopped:
            time.sleep(0.02)
        if behaviour == "saves slowly":
            time.sleep(0.5 + int(folder.path.name))  # the later trial more so
        value = math.log10(rate / 1e-3) ** 2 + 1 / (epoch + 1) + fold
        line = record.Validated(
            time="2026-11-22T00:00:00Z", step=10 * (epoch + 1), epoch=epoch, showers=200,
            metrics={"metric": value}, seconds=0.1, ranked_by="metric", best=True, program_seconds=1.0,
        )  # fmt: skip
        record.append(folder.record_file, line)
        record.append(folder.record_file, saved(line.step))
        state.write_text(str(epoch + 1))
        if copies:
            copies.put(checkpoint_name(10 * (epoch + 1)), b"")
        if stopped:
            sys.exit(130)
    print(f"process {os.getpid()} began at epoch {first}")


if __name__ == "__main__":
    run = Path(sys.argv[-1].removeprefix("--run="))
    try:
        with RunFolder(
            run
        ).locked():  # as `train` does, which refuses a run that another process trains
            main(run)
    except ConfigError as error:
        print(f"cloudgan: {error}", flush=True)
        sys.exit(2)
