"""Times a validation by the chief alone and shared by two processes of one thread, in turns.

    python benchmarks/studies/shared_validation.py PRESET [ROUNDS]

Both processes join a MultiWorkerMirroredStrategy on loopback, as `train --workers=2` does, and validate one
generator: recalibration of the average, 500 showers, their observables and the metrics. A row has the
seconds of the chief and the CPU seconds of each process, then the median ratio of pairs of one round.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace

from cloudgan.core.settings import child_environment


def start(preset: str, rounds: str = "5") -> None:
    """Starts both processes and waits for them."""
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    peers = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    started = []
    for index in range(2):
        task = {"cluster": {"worker": peers}, "task": {"type": "worker", "index": index}}
        environment = child_environment(TF_CONFIG=json.dumps(task), TF_CPP_MIN_LOG_LEVEL="2")
        command = [sys.executable, __file__, preset, rounds, str(index)]
        out = subprocess.PIPE if index else None
        started.append(subprocess.Popen(command, env=environment, stdout=out))  # noqa: S603
    codes = [process.wait() for process in started]
    sys.exit(max(map(abs, codes)))


def measure(preset_name: str, rounds: int, index: int) -> None:
    """Validates in turns as process `index`; the first one prints."""
    import numpy as np
    import tensorflow as tf

    from cloudgan.core.progress import Silent
    from cloudgan.data.showers import join_showers
    from cloudgan.gan.networks import build_generator
    from cloudgan.schema.presets import find_preset
    from cloudgan.simulation.gflash import simulate
    from cloudgan.training.calibration import SHOWERS, BatchNormRecalibrator
    from cloudgan.training.quality import HeldOutMetrics
    from cloudgan.training.rng import Rng
    from cloudgan.training.shared_work import ALONE, SharedWork
    from cloudgan.training.tensorflow_backend import word_adder
    from cloudgan.validation.assess import quick_metrics

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    work = SharedWork(2, index, word_adder(strategy, 2))
    preset = find_preset(preset_name)
    showers = join_showers(simulate(500, seed=3, cells=preset.image_shape[:2], block=50))
    held_back = SimpleNamespace(held_out_count=len(showers), held_out=lambda rows: showers[rows])
    column = np.random.default_rng(0).uniform(0.5, 1.5, (SHOWERS, 1)).astype(np.float32)
    conditions = SimpleNamespace(energy=column, angle=column, ecal=column)
    averaged = preset.calibrated_output or preset.ema_decay
    recalibrator = BatchNormRecalibrator(preset, Rng(1), conditions) if averaged else None
    weights = build_generator(preset).get_weights()
    metrics = {
        how: HeldOutMetrics(preset, held_back, seed=1, measure=quick_metrics, work=how)
        for how in (ALONE, work)
    }

    def validate(how: object) -> object:
        found = recalibrator.recalibrate(weights, how) if recalibrator else weights
        return metrics[how].compute(found, Silent(), cancelled=lambda: False)

    results = [validate(ALONE), validate(work)]  # traces, and reads the reference
    if not index and results[0] != results[1]:
        raise SystemExit(f"other numbers when shared: {results}")
    rows, ratios = [], []
    for _ in range(rounds):
        seconds = []
        for how in (ALONE, work):
            work.joined([np.zeros(1, np.int32)])
            began, cpu = time.perf_counter(), time.process_time()
            if how is work or not index:
                validate(how)
            seconds.append(time.perf_counter() - began)
            used = np.zeros(2)
            used[index] = time.process_time() - cpu
            rows.append((how is work, seconds[-1], *work.joined([used])[0]))
        ratios.append(seconds[1] / seconds[0])
    if index:
        return
    for shared in (False, True):
        some = [row[1:] for row in rows if row[0] == shared]
        wall, first, second = (statistics.median(column) for column in zip(*some, strict=True))
        name = "shared" if shared else "chief alone"
        print(f"{preset_name}, {name}: {wall:.2f} s, CPU {first:.2f} s and {second:.2f} s")
    cpu = [
        max(after[2:]) / sum(before[2:])
        for before, after in zip(rows[::2], rows[1::2], strict=True)
    ]
    for name, values in (("seconds", ratios), ("CPU seconds of the slower process", cpu)):
        print(
            f"ratio of {name}: {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
        )


_, asked, *more = sys.argv
if more[1:]:
    measure(asked, *map(int, more))
else:
    start(asked, *more)
