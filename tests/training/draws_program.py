"""Draws of replicas, row by row; as a program it prints those of one worker of a cluster."""

from __future__ import annotations

import hashlib
import json

from cloudgan.core import settings

settings.quiet_tensorflow()

import tensorflow as tf

from cloudgan.training.cluster import read_cluster
from cloudgan.training.rng import Call, Rng

ROWS = 8


def draws(strategy):
    """Returns the hash of each row that the strategy's replicas in this process draw."""
    rng, size = Rng(11), ROWS // strategy.num_replicas_in_sync

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
    values = [strategy.experimental_local_results(value) for value in draw(first_rows)]
    return {
        name: [
            hashlib.sha256(row.numpy().tobytes()).hexdigest()[:16] for part in parts for row in part
        ]
        for name, parts in zip(("normals", "keep", "flips"), values, strict=True)
    }


if __name__ == "__main__":
    read_cluster(settings.tf_config())
    print(json.dumps(draws(tf.distribute.MultiWorkerMirroredStrategy())), flush=True)
