"""Workers that found different checkpoints do not train together."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cloudgan.core.errors import TryAgain
from cloudgan.training.agreement import agree_on_checkpoint
from cloudgan.training.cluster import Cluster

pytestmark = pytest.mark.tf
CLUSTER = Cluster(("a:1", "b:1"), index=0, ordinary=2)


class Strategy:
    """Two workers with two replicas each; the other one says `theirs`."""

    num_replicas_in_sync = 4

    def __init__(self, theirs):
        self.theirs = np.array([0, theirs], np.int32)

    def run(self, function, args):
        return function(*args)

    def reduce(self, operation, value, axis):
        assert operation == tf.distribute.ReduceOp.SUM
        return 2 * (value + self.theirs)


@pytest.mark.parametrize(("step", "theirs"), [(None, 0), (0, 1), (40, 41)])
def test_the_same_checkpoint_or_none_at_all_is_agreed(step, theirs):
    agree_on_checkpoint(Strategy(theirs), CLUSTER, step)


@pytest.mark.parametrize(
    ("step", "theirs", "said"),
    [(40, 31, "worker 0: step 40, worker 1: step 30"), (0, 0, "worker 0: step 0, worker 1: none")],
)
def test_different_ones_end_the_process_to_be_started_again(step, theirs, said):
    with pytest.raises(TryAgain, match=said):
        agree_on_checkpoint(Strategy(theirs), CLUSTER, step)
