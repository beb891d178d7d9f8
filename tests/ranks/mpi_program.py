"""One rank of the tests of communication: prints what it finds as JSON; `fail`, `sleep` end it early."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from cloudgan.core.errors import CloudganError
from cloudgan.ranks import mpi

task, folder = sys.argv[1], Path(sys.argv[2])
ranks = mpi.world()
mpi.end_with_parent(1)
(folder / f"pid-{ranks.rank}").write_text(str(os.getpid()))
found = {"gathered": ranks.gather([ranks.rank, "x" * ranks.rank])}
if task == "fail" and ranks.rank == 1:
    mpi.leave(76)
if task != "talk":
    time.sleep(60)
others = [other for other in range(ranks.size) if other != ranks.rank]
own = np.full(1_000_000, float(ranks.rank), np.float32)  # too large to be sent before it is awaited
arrived = {other: np.empty_like(own) for other in others}
looks = []
if ranks.rank == 2:
    time.sleep(0.2)  # all others wait for it
ranks.gather(None, meanwhile=lambda: looks.append(1))
ranks.exchange(dict.fromkeys(others, own), arrived, 7)
found["exchanged"] = {other: float(array.sum()) for other, array in arrived.items()}
found["looked"] = len(looks) > 0
values = np.full(100_000, float(ranks.rank), np.float32)
if ranks.rank:
    ranks.send(values, 0, 5)
    ranks.send_json({"from": ranks.rank}, 0, 6)
else:
    began, cpu = time.perf_counter(), time.process_time()
    sums = {}
    for _ in range(1, ranks.size):
        source = ranks.wait(tag=5).source
        ranks.receive(values, source, 5)
        sums[source] = float(values.sum())
    found["sums"] = [sums[source] for source in sorted(sums)]
    found["json"] = [ranks.receive_json(ranks.wait(source, 6)) for source in sorted(sums)]
    assert ranks.poll() is None
    began, cpu = time.perf_counter(), time.process_time()
    try:
        ranks.wait(seconds=1.0)
    except CloudganError as error:
        found["waited"] = str(error)
    found["share"] = (time.process_time() - cpu) / (time.perf_counter() - began)
half = ranks.split(ranks.rank % 2)
shared = np.full(3, float(ranks.rank))
half.broadcast(shared)
found |= {"half": [half.rank, half.size, shared[0]]}
try:
    ranks.send(shared, ranks.size, 1)
except RuntimeError as error:
    found["lost"] = [mpi.is_lost_message(e) for e in (error, ValueError())]
(folder / f"found-{ranks.rank}.json").write_text(json.dumps(found))
mpi.finalize()
