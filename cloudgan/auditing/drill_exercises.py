"""The ten exercises of a drill, each with what it proves and what it expects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloudgan.auditing.drill import NODES, DrillError, Exercise
from cloudgan.auditing.drill_runs import (
    ALONE,
    BACK_MINUTES,
    GONE_MINUTES,
    SPOT,
    TRAIN,
    TRAIN_MINUTES,
    UP_MINUTES,
    deploy_words,
    most_minutes,
    running,
    start,
    training,
    went_on,
)
from cloudgan.core import record

if TYPE_CHECKING:
    from cloudgan.auditing.drill import Ground, Setting

_SHOWERS: Final = 128


def exercises(setting: Setting) -> tuple[Exercise, ...]:
    """Returns all ten in their order."""
    return (*_oftraining(), *_of_accidents(), *_of_ends(setting))


def _oftraining() -> tuple[Exercise, ...]:
    return (
        Exercise(
            "login, rights and quota",
            "the rights that deploy/ names are those that this account has, and the quota's name is"
            " the right one",
            "check finds nothing missing",
            0,
            login,
        ),
        Exercise(
            "two nodes come up",
            "capacity, machine image, driver, device plugin, pulling the image, names of pods",
            "both workers run, each on a GPU",
            UP_MINUTES,
            come_up,
        ),
        Exercise(
            "one epoch of the mini network",
            "the driver fits TensorFlow, NCCL finds its peer, the pods may write the bucket",
            "the run finishes, and its record names a GPU and one whole epoch",
            TRAIN_MINUTES,
            train,
        ),
    )


def _of_accidents() -> tuple[Exercise, ...]:
    return (
        Exercise(
            "a peer dies within a step",
            "what NCCL does on a GPU when its peer is gone: it ends, and all begin again together",
            f"within {BACK_MINUTES:g} min both workers train again, in a new generation",
            UP_MINUTES + BACK_MINUTES,
            lose_peer,
        ),
        Exercise(
            "a spot node gives notice",
            "a spot pool comes up, SIGTERM reaches the trainer, a checkpoint is saved in the grace;"
            " not how long the cloud's own notice is, unless one came",
            "the run goes on from a checkpoint, and ends when it is cancelled",
            BACK_MINUTES,
            take_notice,
        ),
    )


def _of_ends(setting: Setting) -> tuple[Exercise, ...]:
    alone = UP_MINUTES + setting.alone_minutes + GONE_MINUTES
    return (
        Exercise(
            "the laptop is gone",
            "the dead-man switch on the server's side: the Job's deadline, then the pool's",
            f"the nodes go by themselves within {GONE_MINUTES:g} min after the deadline",
            alone,
            leave_alone,
        ),
        Exercise(
            "the pool stays empty",
            "no autoscaler and no managed group refills the pool after the nodes' longest time",
            f"no node is there for {setting.watch_minutes:g} min",
            setting.watch_minutes,
            stay_away,
        ),
        Exercise(
            "doctor finds what is left",
            "the labels are on the real things, and the lists of the real API show them",
            "doctor ends with 4 and names the run or its cluster",
            0,
            find_left,
        ),
        Exercise(
            "down leaves nothing",
            "the order of deletions, and that each really ends",
            "no list of the cloud has anything of the drill's runs",
            0,
            remove_all,
        ),
        Exercise(
            "billed against predicted",
            "times of nodes by the cluster's clock, and what they cost by the price list",
            "no run cost more than its exercises may; the cloud's own bill comes a day later",
            0,
            compare_bill,
        ),
    )


def login(ground: Ground) -> str:
    """Asks what `check` asks, for both markets."""
    setting = ground.setting
    wanted = (*setting.where, f"--accelerator={setting.accelerator}", f"--nodes={NODES}")
    found: dict[str, str] = {}
    for market in ("never", "always"):
        answer = ground.hands.type("check", *wanted, f"--spot={market}")
        findings = [
            one for cloud in answer.said.get("clouds", {}).values() for one in cloud["findings"]
        ]
        missing = [f"{e['subject']}: {e['says']}" for e in findings if e["verdict"] == "missing"]
        if answer.code or missing:
            raise DrillError("; ".join(missing) or answer.why())
        found |= {one["subject"]: one["verdict"] for one in findings}
    unknown = [subject for subject, verdict in found.items() if verdict == "unknown"]
    return f"{len(found)} looked at" + (f"; unknown: {', '.join(unknown)}" if unknown else "")


def come_up(ground: Ground) -> str:
    """Starts the first run and waits until both workers are up."""
    data = ground.setting.folder / "showers.h5"
    if not data.exists():
        ground.must("simulate", str(data), f"--events={_SHOWERS}", "--seed=1")
    start(ground, TRAIN)
    state = ground.wait("a run of two workers", UP_MINUTES, running(ground, TRAIN))
    nodes = {worker["node"] for worker in state["workers"]}
    if len(nodes) < NODES:
        raise DrillError(
            f"both workers are on {', '.join(sorted(nodes))}: one node was expected each"
        )
    return f"both workers run, on {', '.join(sorted(nodes))}"


def train(ground: Ground) -> str:
    """Follows the first run to its end."""
    done = ground.must(*deploy_words(ground, TRAIN))
    found = record.read(Path(done["record"]))
    whole = [epoch for epoch in found.epochs() if epoch.complete]
    started = found.started()
    machine = started.hardware.describe() if started else "an unknown machine"
    if not whole:
        raise DrillError("the record has no whole epoch")
    if started is None or not started.hardware.accelerators:
        raise DrillError(f"it trained on {machine}, without an accelerator")
    return f"{len(whole)} epoch on {machine}, {whole[-1].samples_per_second:.3g} showers/s"


def lose_peer(ground: Ground) -> str:
    """Starts a long run on spot nodes and kills a worker in the middle of its steps."""
    start(ground, SPOT)
    before = ground.wait("a step of two workers", UP_MINUTES, training(ground, SPOT, 0))
    ground.hands.evict(ground.run(SPOT), 1, grace_seconds=0)
    after = ground.wait(
        "another generation of both workers",
        BACK_MINUTES,
        training(ground, SPOT, before["heartbeat"]["generation"] + 1),
    )
    return went_on(before, after)


def take_notice(ground: Ground) -> str:
    """Evicts a worker with its grace, then ends the run."""
    before = ground.must("status", ground.run(SPOT))
    ground.hands.evict(ground.run(SPOT), 1, grace_seconds=None)
    wanted = before["heartbeat"]["generation"] + 1
    after = ground.wait(
        "another generation of both workers", BACK_MINUTES, training(ground, SPOT, wanted)
    )
    ground.must("cancel", ground.run(SPOT))
    lines = record.read(ground.setting.folder.parent / ground.run(SPOT) / "record.jsonl").lines
    if not any(line.kind == "resumed" for line in lines):
        raise DrillError("the record has no line that says that it went on from a checkpoint")
    notices = [line for line in lines if line.kind == "noticed"]
    own = (
        f"{len(notices)} notices of the cloud itself came" if notices else "no notice of the cloud"
    )
    return f"{went_on(before, after)}; {own}"


def leave_alone(ground: Ground) -> str:
    """Starts a run with a short limit and does nothing until its nodes are gone."""
    run = ground.run(ALONE)
    start(ground, ALONE)
    ground.wait("a run of two workers", UP_MINUTES, running(ground, ALONE))
    ground.hands.pause(60 * ground.setting.alone_minutes)
    ground.wait(
        "the end of the nodes without anybody's doing",
        GONE_MINUTES,
        lambda: ground.hands.machines(run) == 0,
    )
    return "the nodes are gone, and nobody told them to go"


def stay_away(ground: Ground) -> str:
    """Looks whether nodes come back."""
    setting, run = ground.setting, ground.run(ALONE)
    looks = max(1, round(60 * setting.watch_minutes / max(setting.poll_seconds, 1e-3)))
    for _ in range(looks):
        back = ground.hands.machines(run)
        if back:
            raise DrillError(f"{back} nodes came back after their longest time was over")
        ground.hands.pause(setting.poll_seconds)
    return f"no node for {setting.watch_minutes:g} min"


def find_left(ground: Ground) -> str:
    """Asks the doctor."""
    answer = ground.hands.type("doctor", *ground.setting.where)
    left = [one for one in answer.said.get("things", ()) if one["is_finding"]]
    ours = [one for one in left if one["run"] in ground.runs or one["shared"] == "cluster"]
    if not ours:
        raise DrillError(f"doctor ended with {answer.code} and names nothing of the drill")
    return "; ".join(f"{one['kind']} {one['name']}: {one['why']}" for one in ours)


def remove_all(ground: Ground) -> str:
    """Removes every run of the drill and looks what is there."""
    for run in ground.runs:
        said = ground.must("down", run, "--purge", "--yes")
        if "usd" in said:
            ground.usd[run] = said["usd"]
    left = [thing for run in ground.runs for thing in ground.hands.things(run)]
    if left:
        raise DrillError(f"still there: {', '.join(left)}")
    return f"nothing is left of {len(ground.runs)} runs"


def compare_bill(ground: Ground) -> str:
    """Compares what the runs cost by their times with what they may cost."""
    missing = sorted(set(ground.runs) - set(ground.usd))
    if missing:
        raise DrillError(f"nobody knows what these cost: {', '.join(missing)}")
    for which, minutes in most_minutes(ground.setting).items():
        run, limit = ground.run(which), minutes / 60 * ground.setting.usd_per_hour
        if ground.usd[run] > limit:
            raise DrillError(f"{run} cost {ground.usd[run]:.2f} USD, more than {limit:.2f}")
    told = ", ".join(f"{run} {usd:.2f}" for run, usd in sorted(ground.usd.items()))
    return (
        f"{sum(ground.usd.values()):.2f} USD by times and list prices ({told}); with the cloud's"
        " export of a day later: cloudgan cost runs/RUN --billed=FILE"
    )
