"""The first lines of a training: what it does, and how long it takes here."""

from __future__ import annotations

import pytest

from cloudgan.schema.config import parse_config
from cloudgan.training.forecast import describe_work, time_notice, training_share


def config(preset, data=None, **training):
    return parse_config(
        {"model": {"preset": preset}, "training": training, "data": data or {}}, "test"
    )


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
def test_the_time_is_said_once_and_a_long_training_names_the_smaller_preset(
    preset, seconds, device, said
):
    lines = []
    notice = time_notice(config(preset), lines.append, device=device)
    notice(seconds)
    notice(seconds / 2)
    assert lines == said
    assert max(map(len, lines)) <= 80
