"""The line of the record that a process begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core import settings
from cloudgan.core.clock import utc_now
from cloudgan.core.hardware import this_machine
from cloudgan.core.installed_wheels import installed_wheels
from cloudgan.core.provenance import git_commit, versions
from cloudgan.core.record import Started
from cloudgan.training.expected_memory import expected_peak_bytes
from cloudgan.training.rates import scaled_rate
from cloudgan.training.strategy import accelerators

if TYPE_CHECKING:
    from cloudgan.training.setting import Setting


def start_line(setting: Setting, step: int, startup_seconds: float) -> Started:
    """Says what trains, on what and with what, from `step` on."""
    config = setting.config
    return Started(
        time=utc_now(),
        step=step,
        config_hash=config.config_hash(),
        training_showers=setting.training_set.count,
        held_back_showers=setting.training_set.held_back_count,
        hardware=this_machine(accelerators()),
        numerics=setting.numerics,
        versions=versions(),
        git_commit=git_commit(),
        strategy=setting.strategy_name,
        loop=config.training.loop,
        learning_rate=scaled_rate(config, setting.numerics.global_batch_size),
        told=setting.training_set.describe(),
        tuned=setting.tuned,
        startup_seconds=startup_seconds,
        expected_memory_bytes=expected_peak_bytes(config, setting.numerics),
        image=settings.image(),
        wheels=installed_wheels(),
    )
