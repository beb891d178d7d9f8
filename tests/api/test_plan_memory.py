"""The memory that a plan expects."""

import pytest

from cloudgan.launch.plan.launch_job import memory_warnings
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Workers


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
    return memory_warnings(parse_config(asked, "test"), workers)


def test_a_batch_that_exceeds_the_accelerator_memory_gives_a_warning():
    assert notes(64, accelerator="V100", count=8) == ()
    (warning,) = notes(512, accelerator="V100", count=8)
    assert warning.startswith("a batch of 512 per replica needs about ")
    assert "and one V100 has 16 GiB" in warning
    assert notes(512, accelerator="H200", count=8) == ()


def test_cpu_workers_are_compared_with_their_memory_request():
    assert notes(16, memory_gib=8.0) == ()
    (warning,) = notes(16, memory_gib=1.0)
    assert "and a worker has 1 GiB" in warning


@pytest.mark.parametrize("accelerator", ["TPU-v3", "Unheard-of"])
def test_unmeasured_accelerators_give_no_warning(accelerator):
    assert notes(100_000, accelerator=accelerator, count=4) == ()


def test_an_indivisible_global_batch_gives_no_memory_warning():
    asked = {"batch_per_replica": None, "global_batch_size": 7}
    assert notes(None, accelerator="T4", count=2, **asked) == ()
