"""Prints, row by row, what the replicas of this process draw; a program of `test_draws.py`."""

from __future__ import annotations

import hashlib
import json
import sys

from cloudgan.core import settings

settings.quiet_tensorflow()

import tensorflow as tf

from cloudgan.training.cluster import read_cluster
from cloudgan.training.draws import Call, Draws

ROWS = 8
replicas_here = int(sys.argv[1])
cluster = read_cluster(settings.tf_config())
if replicas_here > 1:
    (cpu,) = tf.config.list_physical_devices("CPU")
    device = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [device] * replicas_here)
strategy = (
    tf.distribute.MultiWorkerMirroredStrategy()
    if cluster
    else tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas_here)])
)
workers, index = (len(cluster.workers), cluster.index) if cluster else (1, 0)
size = ROWS // strategy.num_replicas_in_sync
draws = Draws(11)


@tf.function
def draw(first_row):
    def replica(row):
        with draws.at(tf.constant(5, tf.int64), row, Call.GENERATOR):
            return (
                draws.normals(size, 62),
                draws.keep((size, 3, 5, 2), 0.2, 0),
                draws.happens(0.5, size),
            )

    return strategy.run(replica, args=(first_row,))


first_rows = strategy.experimental_distribute_values_from_function(
    lambda context: tf.constant(context.replica_id_in_sync_group * size, tf.int64)
)
values = [strategy.experimental_local_results(value) for value in draw(first_rows)]
hashes = {
    name: [hashlib.sha256(row.numpy().tobytes()).hexdigest()[:16] for part in parts for row in part]
    for name, parts in zip(("normals", "keep", "flips"), values, strict=True)
}
print(json.dumps(hashes), flush=True)
