"""Stub of a training container in a live test: it counts steps and trains nothing.

It implements what a launcher and a live test see of `cloudgan worker`: a heartbeat and a record in the store, 75
on SIGTERM, another generation when a peer came back. No server listens on its control port: probes
begin after 30 s only.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

from cloudgan.core.hardware import Accelerator, this_machine

sys.path.insert(0, str(Path(__file__).parents[1]))  # the stub is started by its path

import records

STEPS = 5


def lines_of(generation):
    """The record of a run that started, finished an epoch, and resumed after each lost peer."""
    machine = this_machine((Accelerator(name="T4", count=1, memory_gib=16.0),))
    return (
        records.started(hardware=machine),
        records.epoch(0, steps=STEPS),
        *(records.resumed(STEPS) for _ in range(1, generation)),
    )


def main():
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    name = os.environ["CLOUDGAN_RUN"]
    run = Path(os.environ["CLOUDGAN_STORE"]) / "runs" / name
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    with (run / f"starts-{index}").open("a") as file:
        file.write("x")
    for step in range(1, 100_000):
        time.sleep(0.02)
        peer_started = (run / "starts-1").exists()
        if index == 0 and peer_started:
            beat(run, step)
        # The chief ends after its record is written, which needs its peer: a busy machine starts it late.
        over = peer_started and step > STEPS if index == 0 else (run / "over").exists()
        if "-train" in name and over:
            break
    (run / "over").touch()


def beat(run, step):
    """Writes the chief's heartbeat: a generation for each start of its peer."""
    generation = len((run / "starts-1").read_text())
    config = Path(os.environ.get("CLOUDGAN_CONFIG", "run.yaml"))
    digits = hashlib.sha256(config.read_bytes() if config.exists() else b"").hexdigest()[:16]
    found = records.heartbeat(
        config_hash=digits,
        world=2,
        generation=generation,
        step=step,
        epoch=0,
        epochs=1,
        exit_code=0 if step > STEPS and "-train" in run.name else None,
    )
    whole(run / "heartbeat.json", found.model_dump_json())
    lines = [line.model_dump_json() + "\n" for line in lines_of(generation)]
    whole(run / "record.jsonl", "".join(lines))


def whole(path, text):
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    new.rename(path)


if __name__ == "__main__":
    main()
