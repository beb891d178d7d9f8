"""What TensorFlow says when another machine is gone, in our words."""

from __future__ import annotations

import pytest
import tensorflow as tf

from cloudgan.core.config import TrainingConfig, parse_config
from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.training.cluster import Cluster
from cloudgan.training.strategy import choose, lost_worker, lost_workers_told, make_strategy

pytestmark = pytest.mark.tf
CONFIG = parse_config({"name": "gan"}, "a test")
CLUSTER = Cluster(("a:1", "b:1"), index=0, ordinary=2)


def error(kind, text):
    return kind(None, None, text)


@pytest.mark.parametrize(
    ("found", "who"),
    [
        (error(tf.errors.UnavailableError, "failed to connect"), "another worker"),
        (error(tf.errors.AbortedError, "restarted"), "another worker"),
        (
            error(
                tf.errors.InternalError,
                "Collective ops is aborted by: ... /job:worker/replica:0/task:1 ...",
            ),
            r"worker 1 \(b:1\)",
        ),
        (
            error(
                tf.errors.InternalError,
                "/job:worker/replica:0/task:0: Failed to send RPC to coordination service",
            ),
            "another worker",
        ),
    ],
)
def test_a_lost_worker_is_no_mistake_of_the_user(found, who):
    told = lost_worker(found, CLUSTER)
    assert told.exit_code == 75
    with pytest.raises(TryAgain, match=f"{who} stopped answering"), lost_workers_told(CLUSTER):
        raise found


def test_other_errors_and_those_of_a_process_alone_stay_what_they_are():
    wrong = error(tf.errors.InvalidArgumentError, "shapes differ")
    assert lost_worker(wrong, CLUSTER) is None
    with pytest.raises(tf.errors.InvalidArgumentError), lost_workers_told(CLUSTER):
        raise wrong
    gone = error(tf.errors.UnavailableError, "failed to connect")
    assert lost_worker(gone, None) is None
    assert lost_worker(gone, Cluster(("a:1",), 0, 1)) is None


@pytest.mark.parametrize(
    ("variable", "value"), [("CLOUDGAN_TPU", "local"), ("TPU_WORKER_HOSTNAMES", "localhost")]
)
def test_a_machine_that_says_it_has_a_tpu_trains_on_it(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    assert choose(TrainingConfig(), None) == "tpu"
    assert choose(TrainingConfig(strategy="one"), None) == "one"
    monkeypatch.delenv(variable)
    assert choose(TrainingConfig(), None) == "one"


def test_a_tpu_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setenv("CLOUDGAN_TPU", "local")
    with pytest.raises(ConfigError, match="no TPU answers on this machine"):
        make_strategy(CONFIG, "tpu")
