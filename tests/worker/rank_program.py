"""Stub for `cloudgan train` as an MPI rank: python rank_program.py ORDERS.json --run=FOLDER.

Orders: steps, group (a folder that all share), store (the run's folder in it), exit (a code by rank),
deaf (does not stop when asked), slow_end (seconds before it stops), validation (seconds of rank 0 after
its last step).
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from cloudgan.core import settings
from cloudgan.ranks import mpi
from cloudgan.schema.heartbeat import LivenessFile

orders = json.loads(Path(sys.argv[1]).read_text())
group, store = Path(orders["group"]), Path(orders["store"])
world = mpi.world()
mpi.end_with_parent(75)
asked = threading.Event()


def lifeline():
    sys.stdin.read()
    asked.set()


threading.Thread(target=lifeline, daemon=True).start()
saved = sorted((store / "checkpoints").glob("step-*.npz"))
step = int(saved[-1].stem[5:]) if saved else 0
liveness = LivenessFile(settings.liveness_file())
seen = {
    "ranks": world.size,
    "run": sys.argv[2],
    "begins": step,
    "agent": settings.has_agent(),
    "host": settings.agent_host(),
    "variable": settings.variable("LAB_MODE"),
    "writes_liveness": settings.liveness_file() is not None,
}
(group / f"seen-{world.rank}.part").write_text(json.dumps(seen))  # read while it is written
(group / f"seen-{world.rank}.part").rename(group / f"seen-{world.rank}-{time.time_ns()}.json")
(group / f"pid-{world.rank}").write_text(str(os.getpid()))
print(f"rank {world.rank} begins at {step}", flush=True)
while step < orders["steps"]:
    time.sleep(0.02)
    if any(world.gather(asked.is_set() and not orders.get("deaf"))):
        time.sleep(orders.get("slow_end", 0.0))
        (group / f"stopped-{world.rank}").write_text(str(step))
        mpi.finalize()
        os._exit(75)
    step += 1
    code = orders.get("exit", {}).get(str(world.rank))
    if code is not None:
        print("cloudgan: this is why", flush=True)
        mpi.leave(code)
    if world.rank == 0 and step % 10 == 0:
        (store / "checkpoints").mkdir(parents=True, exist_ok=True)
        (store / "checkpoints" / f"step-{step:09d}.npz").write_text("")
    liveness.update(step, 0)
began = time.monotonic()
while world.rank == 0 and time.monotonic() - began < orders.get("validation", 0):
    time.sleep(0.1)
    liveness.goes_on()
world.gather(None)
mpi.finalize()
