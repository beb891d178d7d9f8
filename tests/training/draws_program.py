"""Prints, row by row, what replicas draw, a line for each number of them; see `test_draws.py`."""

from __future__ import annotations

import hashlib
import json
import sys

from cloudgan.core import settings

settings.quiet_tensorflow()

import tensorflow as tf

from cloudgan.training.cluster import read_cluster
from cloudgan.training.rng import Call, Rng

ROWS = 8
replica_counts = [int(count) for count in sys.argv[1:]]
cluster = read_cluster(settings.tf_config())
if max(replica_counts) > 1:
    (cpu,) = tf.config.list_physical_devices("CPU")
    device = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [device] * max(replica_counts))
rng = Rng(11)


def drawn(strategy):
    size = ROWS // strategy.num_replicas_in_sync

    @tf.function
    def draw(first_row):
        def replica(row):
            with rng.at(tf.constant(5, tf.int64), row, Call.GENERATOR):
                return (
                    rng.normal(size, 62),
                    rng.dropout_mask((size, 3, 5, 2), 0.2, 0),
                    rng.bernoulli(0.5, size),
                )

        return strategy.run(replica, args=(first_row,))

    first_rows = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(context.replica_id_in_sync_group * size, tf.int64)
    )
    return [strategy.experimental_local_results(value) for value in draw(first_rows)]


for replicas in replica_counts:
    values = drawn(
        tf.distribute.MultiWorkerMirroredStrategy()
        if cluster
        else tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])
    )
    hashes = {
        name: [
            hashlib.sha256(row.numpy().tobytes()).hexdigest()[:16] for part in parts for row in part
        ]
        for name, parts in zip(("normals", "keep", "flips"), values, strict=True)
    }
    print(json.dumps(hashes), flush=True)
