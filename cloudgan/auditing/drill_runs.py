"""The three runs of a drill: how each is started, how long it may take, and how it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cloudgan.auditing.drill import NODES, DrillError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.auditing.drill import Ground, Setting

TRAIN, SPOT, ALONE = "train", "spot", "alone"
UP_MINUTES: Final = 25.0
"""For cluster, nodes, driver, image and wheels."""
TRAIN_MINUTES, BACK_MINUTES, GONE_MINUTES = 10.0, 10.0, 20.0
_HELD_MINUTES: Final = 60.0
"""The run that is disturbed would train on for so long."""


def most_minutes(setting: Setting) -> dict[str, float]:
    """Returns for how long each run may have its nodes."""
    return {
        TRAIN: UP_MINUTES + TRAIN_MINUTES,
        SPOT: UP_MINUTES + 2 * BACK_MINUTES,
        ALONE: UP_MINUTES + setting.alone_minutes + GONE_MINUTES + setting.watch_minutes,
    }


def deploy_words(ground: Ground, which: str) -> tuple[str, ...]:
    """Returns what is typed to start one of the drill's runs."""
    setting = ground.setting
    minutes = most_minutes(setting)[which]
    own = {
        TRAIN: ("--epochs=1", "--spot=never", f"--max_hours={TRAIN_MINUTES / 60:.4f}"),
        SPOT: (
            "--epochs=100000",
            f"--max_seconds={60 * _HELD_MINUTES:.0f}",
            "--checkpoint_every_steps=5",
            "--spot=always",
            f"--max_hours={_HELD_MINUTES / 60:.4f}",
        ),
        ALONE: (
            "--epochs=100000",
            f"--max_seconds={60 * _HELD_MINUTES:.0f}",
            "--spot=never",
            f"--max_hours={setting.alone_minutes / 60:.4f}",
        ),
    }[which]
    return (
        "deploy",
        *setting.where,
        f"--accelerator={setting.accelerator}",
        f"--nodes={NODES}",
        f"--name={ground.run(which)}",
        f"--data={setting.folder / 'showers.h5'}",
        "--preset=mini",
        "--batch=8",
        "--seed=1",
        f"--gang_timeout={UP_MINUTES:g}m",
        f"--budget_usd={minutes / 60 * setting.usd_per_hour:.2f}",
        *own,
        "--yes",
        "--stale_ok",
    )


def start(ground: Ground, which: str) -> None:
    """Starts a run and waits for nothing."""
    ground.runs.append(ground.run(which))  # before: whatever it makes is removed
    ground.must(*deploy_words(ground, which), "--detach")


def running(ground: Ground, which: str) -> Callable[[], dict[str, Any] | None]:
    """Returns what tells the state of a run once both workers are up, and None before."""

    def look() -> dict[str, Any] | None:
        state = ground.must("status", ground.run(which))
        if state["phase"] in ("failed", "absent", "stopped"):
            raise DrillError(f"run {ground.run(which)} is {state['phase']}: {state['why']}")
        up = [one for one in state["workers"] if one["phase"] in ("running", "done")]
        return state if len(up) == NODES else None

    return look


def training(ground: Ground, which: str, generation: int) -> Callable[[], dict[str, Any] | None]:
    """Whether both workers made a step, in this generation or a later one."""
    up = running(ground, which)

    def look() -> dict[str, Any] | None:
        state = up()
        beat = state["heartbeat"] if state else None
        if not beat or beat["phase"] != "training" or beat["generation"] < generation:
            return None
        return state if beat["step"] and not beat["missing"] else None

    return look


def went_on(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Returns what changed between two states, in words."""
    old, new = before["heartbeat"], after["heartbeat"]
    replaced = sum(one["replaced"] for one in after["workers"])
    return (
        f"generation {old['generation']} at step {old['step']}, then {new['generation']} at step"
        f" {new['step']}; {replaced} pods replaced"
    )
