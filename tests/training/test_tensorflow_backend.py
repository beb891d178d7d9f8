"""Devices, strategies, and lost workers."""

from __future__ import annotations

import pytest
import tensorflow as tf

from cloudgan.core.errors import ConfigError, TryAgain
from cloudgan.schema.config import parse_config
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.cluster import Cluster
from cloudgan.training.tensorflow_backend import (
    choose_strategy,
    lost_worker,
    make_strategy,
    translated_errors,
)

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
    translated = lost_worker(found, CLUSTER)
    assert translated.exit_code == 75
    with pytest.raises(TryAgain, match=f"{who} stopped answering"), translated_errors(CLUSTER):
        raise found


def test_other_errors_and_those_of_a_process_alone_stay_what_they_are():
    wrong = error(tf.errors.InvalidArgumentError, "shapes differ")
    assert lost_worker(wrong, CLUSTER) is None
    with pytest.raises(tf.errors.InvalidArgumentError), translated_errors(CLUSTER):
        raise wrong
    gone = error(tf.errors.UnavailableError, "failed to connect")
    assert lost_worker(gone, None) is None
    assert lost_worker(gone, Cluster(("a:1",), 0, 1)) is None


@pytest.mark.parametrize(
    ("variable", "value"), [("CLOUDGAN_TPU", "local"), ("TPU_WORKER_HOSTNAMES", "localhost")]
)
def test_a_machine_that_says_it_has_a_tpu_trains_on_it(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    assert choose_strategy(TrainingConfig(), None) == "tpu"
    assert choose_strategy(TrainingConfig(strategy="one"), None) == "one"
    monkeypatch.delenv(variable)
    assert choose_strategy(TrainingConfig(), None) == "one"


def test_a_tpu_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setenv("CLOUDGAN_TPU", "local")
    with pytest.raises(ConfigError, match="no TPU found on this machine"):
        make_strategy(CONFIG, "tpu")


@pytest.mark.parametrize("name", ["one", "mirrored", "multiworker"])
def test_fewer_accelerators_than_planned_end_the_process_before_it_trains_on_the_cpu(
    monkeypatch, name
):
    monkeypatch.setenv("CLOUDGAN_ACCELERATORS", "8")
    with pytest.raises(ConfigError) as refused:
        make_strategy(CONFIG, name)
    assert refused.value.exit_code == 2
    said = str(refused.value)
    assert "\n" not in said, "the worker reports one line"
    assert "the plan has 8 accelerators" in said
    assert "TensorFlow finds 0; nothing was trained" in said
    assert "libcuda.so.1) is missing" in said
    assert "/usr/local/nvidia/lib64" in said
    assert "site-packages/nvidia/*/lib" in said
    assert "cloudgan check" in said
