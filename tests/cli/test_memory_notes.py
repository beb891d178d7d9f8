"""A plan whose nodes lack memory says so."""

from __future__ import annotations

import pytest

from cloudgan.cli.memory_notes import memory_notes
from cloudgan.core.config import parse_config
from cloudgan.core.plan import Workers


def notes(batch, *, accelerator=None, count=0, memory_gib=64.0, nodes=1, **training):
    asked = {"model": {"preset": "paper"}, "training": {"batch_per_replica": batch} | training}
    workers = Workers(
        nodes=nodes,
        accelerator=accelerator,
        accelerators_per_node=count,
        cpus=8,
        memory_gib=memory_gib,
        image=None,
    )
    return memory_notes(parse_config(asked, "test"), workers)


def test_a_batch_that_an_accelerator_cannot_hold_is_warned_of():
    assert notes(64, accelerator="V100", count=8) == ()
    (told,) = notes(512, accelerator="V100", count=8)
    assert told.startswith("a batch of 512 per replica takes about ")
    assert "and one V100 has 16 GiB" in told
    assert notes(512, accelerator="H200", count=8) == ()


def test_processors_are_compared_with_the_memory_that_a_worker_asks_for():
    assert notes(16, memory_gib=8.0) == ()
    (told,) = notes(16, memory_gib=1.0)
    assert "and a worker has 1 GiB" in told


@pytest.mark.parametrize("accelerator", ["TPU-v3", "Unheard-of"])
def test_what_nobody_measured_or_knows_is_not_guessed(accelerator):
    assert notes(100_000, accelerator=accelerator, count=4) == ()


def test_a_global_batch_that_replicas_do_not_divide_is_told_elsewhere():
    asked = {"batch_per_replica": None, "global_batch_size": 7}
    assert notes(None, accelerator="T4", count=2, **asked) == ()
