"""What a training does, how long it takes here, and whether it fits, said before it begins."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import FreeMemory
from cloudgan.gan.convolutions import choose_conv_impl
from cloudgan.gan.footprint import ERROR, Footprint, footprint, kept_for_backward
from cloudgan.schema.config import parse_config
from cloudgan.schema.training_config import Precision
from cloudgan.training import forecast as under_test
from cloudgan.training.forecast import (
    ExpectedMemory,
    describe_work,
    expected_memory,
    footprint_on,
    time_notice,
    training_share,
)

MIB, GIB = 1 << 20, 1 << 30
TAKEN = Footprint(
    weights=20 * MIB,
    shower=100 * MIB,
    least=80 * MIB,
    process=GIB,
    replica=80 * MIB,
    finishing=0,
)


def there(gib):
    return FreeMemory(round(gib * GIB), 16 * GIB, "this machine")


def on_a_processor(gib, *, batch=10, replicas=1, processes=1):
    return ExpectedMemory(TAKEN, replicas, processes, batch, there(gib) if gib else None)


def test_the_description_has_the_memory_of_this_batch_and_of_others():
    expected = on_a_processor(8)
    assert expected.check() is None
    line = expected.describe()
    assert "memory: about 2.0 GiB at a batch of 10; " in line
    assert "this machine has 8.0 GiB free of 16.0" in line


def test_too_little_is_refused_with_the_largest_batch_that_fits():
    with pytest.raises(ConfigError) as refused:
        on_a_processor(2, batch=100).check()
    largest = on_a_processor(2).largest_batch()
    assert str(refused.value) == (
        "a batch of 100 per replica takes about 11 GiB of memory at its peak, and this machine has"
        f" 2.0 GiB free of 16.0; the largest batch that fits is {largest}: use --batch={largest} or"
        " less"
    )
    assert on_a_processor(2, batch=largest).check() is None
    assert on_a_processor(2, batch=largest + 1).check() is not None


def test_what_may_fit_is_warned_of_and_begins():
    exactly = on_a_processor(8).peak_bytes / GIB
    assert "may run out of memory" in on_a_processor(exactly).check()
    assert on_a_processor(exactly * (1 + ERROR) + 0.01).check() is None
    with pytest.raises(ConfigError):
        on_a_processor(exactly * (1 - ERROR) - 0.01).check()


def test_replicas_and_processes_share_one_machine():
    one = on_a_processor(8).peak_bytes
    assert on_a_processor(8, replicas=2).peak_bytes > one + TAKEN.of_replica(10)
    enough = one * (1 + ERROR) / GIB + 0.01
    assert on_a_processor(enough).check() is None
    with pytest.raises(ConfigError, match="in each of 2 processes"):
        on_a_processor(enough, processes=2).check()


def test_where_not_even_one_shower_fits_no_batch_is_advised():
    with pytest.raises(ConfigError, match="a batch of 1 does not fit"):
        on_a_processor(0.5).check()


def test_without_known_free_memory_no_batch_is_refused():
    unknown = on_a_processor(None, batch=10**6)
    assert unknown.check() is None
    assert unknown.largest_batch() is None
    assert unknown.forecast().free_bytes is None


def test_on_a_gpu_only_what_the_backward_pass_needs_at_least_is_refused():
    def gpu(batch):
        return ExpectedMemory(TAKEN, 0, 1, batch, there(8))

    assert gpu(70).check() is None
    assert "it may run out of memory" in gpu(95).check()
    with pytest.raises(ConfigError, match="use --batch="):
        gpu(110).check()


def config(preset="mini", data=None, **training):
    document = {"model": {"preset": preset}, "training": training, "data": data or {}}
    return parse_config(document, "test")


@pytest.mark.parametrize("precision", get_args(Precision))
@pytest.mark.parametrize("device", ["CPU", "GPU"])
def test_every_precision_that_can_be_asked_has_a_size(precision, device):
    found = footprint_on(config(precision=precision), device)
    halved = precision == "bfloat16" or (precision == "mixed" and device == "GPU")
    numbers = sum(kept_for_backward(config().model, "phases").values())
    assert found.least == numbers * (2 if halved else 8 if precision == "float64" else 4)


def test_each_replica_has_its_share_of_the_global_batch(monkeypatch):
    monkeypatch.setattr(under_test, "nvidia_gpus", lambda: ())
    found = expected_memory(config(global_batch_size=24, replicas=2), workers=3, processes=1)
    assert (found.batch, found.replicas) == (4, 2)


def test_with_gpus_each_has_one_replica_and_the_smallest_counts(monkeypatch):
    from cloudgan.core.hardware import Accelerator

    gpus = tuple(Accelerator(name="V100", count=1, memory_gib=gib) for gib in (32.0, 16.0))
    monkeypatch.setattr(under_test, "nvidia_gpus", lambda: gpus)
    monkeypatch.setattr(under_test, "visible_gpus", lambda: ["0", "1"])
    found = expected_memory(config(global_batch_size=24), workers=1, processes=1)
    assert (found.batch, found.available.all_bytes) == (12, 16 * GIB)
    assert found.peak_bytes == footprint_on(config(), "GPU").of_replica(12)


def test_the_form_that_is_expected_is_the_one_that_is_chosen():
    ways = itertools.product(
        ("auto", "published", "phases", "fast"),
        ("float32", "bfloat16"),
        ("paper", "smoke"),
        ("CPU", "V100"),
    )
    for conv_impl, precision, preset, device in ways:
        one = config(preset, conv_impl=conv_impl, precision=precision)
        chosen = choose_conv_impl(one, device)
        wanted = footprint(one.model, conv_impl=chosen, precision=precision)
        assert footprint_on(one, device) == wanted, (conv_impl, precision, preset, device)


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"epochs": 20}, "mini, 20 epochs of 540 showers"),
        ({"epochs": 1}, "mini, 1 epoch of 540 showers"),
        ({"max_steps": 2000}, "mini, at most 2,000 steps on 540 showers"),
        ({"max_steps": 9, "max_seconds": 180.0}, "mini, at most 9 steps or 3 min on 540 showers"),
    ],
)
def test_the_work_is_epochs_and_showers_or_the_limits(training, said):
    assert describe_work(config("mini", **training), 540) == said


@pytest.mark.parametrize(
    ("data", "showers", "share"),
    [
        ({}, 600, 540),
        ({}, 609, 549),
        ({"fold": 0}, 609, 548),
        ({"held_out_fraction": 0.34}, 600, 400),
    ],
)
def test_held_out_showers_are_not_counted(data, showers, share):
    assert training_share(config("mini", data), showers) == share


@pytest.mark.parametrize(
    ("preset", "seconds", "device", "said"),
    [
        ("mini", 96.4, "CPU", ["about 96 s on this machine"]),
        ("mini", 131, "CPU", ["about 2.2 min on this machine"]),
        ("mini", 8000, "CPU", ["about 2.2 h on this machine"]),
        ("paper", 3000, "CPU", ["about 50 min on this machine"]),
        ("paper", 36000, "CPU", ["about 10 h on this machine", "--preset=mini takes about 15 min"]),
        (
            "paper",
            36000,
            "GPU",
            ["about 10 h on this machine", "--preset=mini is smaller: 17x17x25, for laptops"],
        ),
    ],
)
def test_a_long_training_names_the_smaller_preset(preset, seconds, device, said):
    assert time_notice(config(preset), seconds, device) == said
    assert max(map(len, said)) <= 80
