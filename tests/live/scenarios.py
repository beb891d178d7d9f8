"""The ten scenarios of a live test and its three runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cloudgan.schema import record
from live.harness import NODES, LiveTest, LiveTestError, Scenario

TRAIN, SPOT, ALONE = "train", "spot", "alone"
UP_MINUTES: Final = 25.0
"""For cluster, nodes, driver, image and wheels."""
TRAIN_MINUTES, BACK_MINUTES, GONE_MINUTES = 10.0, 10.0, 20.0
_HELD_MINUTES: Final = 60.0
"""Deadline of the run with injected failures."""


def most_minutes(test: LiveTest) -> dict[str, float]:
    """Returns the time limit of each run's nodes in minutes."""
    return {
        TRAIN: UP_MINUTES + TRAIN_MINUTES,
        SPOT: UP_MINUTES + 2 * BACK_MINUTES,
        ALONE: UP_MINUTES + test.unattended_minutes + GONE_MINUTES + test.watch_minutes,
    }


def deploy_words(test: LiveTest, which: str) -> tuple[str, ...]:
    """Returns the deploy command of a run."""
    minutes = most_minutes(test)[which]
    own = {
        TRAIN: ("--epochs=1", "--market=on_demand", f"--max-hours={TRAIN_MINUTES / 60:.4f}"),
        SPOT: (
            "--epochs=100000",
            f"--max-seconds={60 * _HELD_MINUTES:.0f}",
            "--checkpoint-every-steps=5",
            "--market=spot",
            f"--max-hours={_HELD_MINUTES / 60:.4f}",
        ),
        ALONE: (
            "--epochs=100000",
            f"--max-seconds={60 * _HELD_MINUTES:.0f}",
            "--market=on_demand",
            f"--max-hours={test.unattended_minutes / 60:.4f}",
        ),
    }[which]
    return (
        "deploy",
        *test.account_flags,
        f"--accelerator={test.accelerator}",
        f"--nodes={NODES}",
        f"--name={test.run_name(which)}",
        f"--data={test.folder / 'showers.h5'}",
        "--preset=mini",
        "--batch=8",
        "--seed=1",
        f"--gang-timeout={UP_MINUTES:g}m",
        f"--budget-usd={minutes / 60 * test.usd_per_hour:.2f}",
        *own,
        "--yes",
        "--allow-stale-price",
    )


def start(test: LiveTest, which: str) -> None:
    """Starts a run without waiting."""
    test.runs.append(test.run_name(which))  # first, so that its resources are deleted
    test.run_checked(*deploy_words(test, which), "--detach")


def running(test: LiveTest, which: str) -> Callable[[], dict[str, Any] | None]:
    """Returns a poll function: the run's state once both workers run, else None."""

    def look() -> dict[str, Any] | None:
        state = test.run_checked("status", test.run_name(which))
        if state["phase"] in ("failed", "absent", "stopped"):
            raise LiveTestError(
                f"run {test.run_name(which)} is {state['phase']}: {state['reason']}"
            )
        up = [one for one in state["job"]["workers"] if one["phase"] in ("running", "done")]
        return state if len(up) == NODES else None

    return look


def training(test: LiveTest, which: str, generation: int) -> Callable[[], dict[str, Any] | None]:
    """Returns a poll function: the run's state once both workers trained a step in `generation` or later."""
    up = running(test, which)

    def look() -> dict[str, Any] | None:
        state = up()
        beat = state["heartbeat"] if state else None
        if not beat or beat["phase"] != "training" or beat["generation"] < generation:
            return None
        return state if beat["step"] and not beat["missing_workers"] else None

    return look


def went_on(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Describes the change between two states."""
    old, new = before["heartbeat"], after["heartbeat"]
    replaced = sum(one["restarts"] for one in after["job"]["workers"])
    return (
        f"generation {old['generation']} at step {old['step']}, then {new['generation']} at step"
        f" {new['step']}; {replaced} pods replaced"
    )


_SHOWERS: Final = 128


def scenarios(test: LiveTest) -> tuple[Scenario, ...]:
    """Returns all ten in their order."""
    alone = UP_MINUTES + test.unattended_minutes + GONE_MINUTES
    return (
        Scenario(
            "login, permissions and quota",
            "the account has the permissions of deploy/, and the quota name is correct",
            "check finds nothing missing",
            0,
            login,
        ),
        Scenario(
            "two nodes start",
            "capacity, machine image, driver, device plugin, image pull, pod host names",
            "both workers run, each on a GPU",
            UP_MINUTES,
            come_up,
        ),
        Scenario(
            "one epoch of mini",
            "the driver supports TensorFlow, NCCL connects, the pods can write the bucket",
            "the run finishes; its record has a GPU and one complete epoch",
            TRAIN_MINUTES,
            train,
        ),
        Scenario(
            "a peer fails within a step",
            "NCCL on a GPU detects the lost worker, and all workers restart together",
            f"both workers train again within {BACK_MINUTES:g} min, in a new generation",
            UP_MINUTES + BACK_MINUTES,
            lose_peer,
        ),
        Scenario(
            "a spot node is preempted",
            "a spot pool starts, SIGTERM reaches the trainer, a checkpoint is saved in the grace"
            " period; the length of the cloud's notice only if one occurs",
            "the run resumes from a checkpoint and ends when cancelled",
            BACK_MINUTES,
            take_notice,
        ),
        Scenario(
            "the laptop is off",
            "server-side limits: the deadline of the Job, then of the node pool",
            f"the nodes are deleted within {GONE_MINUTES:g} min after the deadline",
            alone,
            leave_alone,
        ),
        Scenario(
            "the pool stays empty",
            "no autoscaler or managed group refills the pool after the maximum run duration",
            f"no node exists for {test.watch_minutes:g} min",
            test.watch_minutes,
            stay_away,
        ),
        Scenario(
            "doctor finds orphans",
            "real resources carry the labels, and the cloud's API lists them",
            "doctor exits with 4 and lists the run or its cluster",
            0,
            find_left,
        ),
        Scenario(
            "down deletes everything",
            "the deletion order, and that each deletion completes",
            "the cloud lists no resource of these runs",
            0,
            remove_all,
        ),
        Scenario(
            "invoice against forecast",
            "node times by the cluster's clock, and their cost by the price list",
            "no run exceeds the limit of its scenarios; the cloud's bill is available a day later",
            0,
            compare_bill,
        ),
    )


def login(test: LiveTest) -> str:
    """Runs `check` for both markets."""
    wanted = (*test.account_flags, f"--accelerator={test.accelerator}", f"--nodes={NODES}")
    found: dict[str, str] = {}
    for market in ("on_demand", "spot"):
        answer = test.command_runner.run("check", *wanted, f"--market={market}")
        findings = [
            one for cloud in answer.output.get("clouds", {}).values() for one in cloud["findings"]
        ]
        missing = [f"{e['subject']}: {e['message']}" for e in findings if e["status"] == "missing"]
        if answer.exit_code or missing:
            raise LiveTestError("; ".join(missing) or answer.error())
        found |= {one["subject"]: one["status"] for one in findings}
    unknown = [subject for subject, verdict in found.items() if verdict == "unknown"]
    return f"{len(found)} checks" + (f"; unknown: {', '.join(unknown)}" if unknown else "")


def come_up(test: LiveTest) -> str:
    """Starts the first run and waits until both workers run."""
    data = test.folder / "showers.h5"
    if not data.exists():
        test.run_checked("simulate", str(data), f"--showers={_SHOWERS}", "--seed=1")
    start(test, TRAIN)
    state = test.wait_for("a run of two workers", UP_MINUTES, running(test, TRAIN))
    nodes = {worker["node"] for worker in state["job"]["workers"]}
    if len(nodes) < NODES:
        raise LiveTestError(
            f"both workers are on {', '.join(sorted(nodes))}; expected one node each"
        )
    return f"both workers run, on {', '.join(sorted(nodes))}"


def train(test: LiveTest) -> str:
    """Waits for the end of the first run."""
    done = test.run_checked(*deploy_words(test, TRAIN))
    found = record.read(Path(done["record"]))
    whole = [epoch for epoch in found.epochs() if epoch.complete]
    started = found.started()
    machine = started.hardware.describe() if started else "an unknown machine"
    if not whole:
        raise LiveTestError("the record has no complete epoch")
    if started is None or not started.hardware.accelerators:
        raise LiveTestError(f"it trained on {machine}, without an accelerator")
    return f"{len(whole)} epoch on {machine}, {whole[-1].samples_per_second:.3g} showers/s"


def lose_peer(test: LiveTest) -> str:
    """Starts a long run on spot nodes and kills a worker during a step."""
    start(test, SPOT)
    before = test.wait_for("a step of two workers", UP_MINUTES, training(test, SPOT, 0))
    test.command_runner.evict(test.run_name(SPOT), 1, grace_seconds=0)
    after = test.wait_for(
        "another generation of both workers",
        BACK_MINUTES,
        training(test, SPOT, before["heartbeat"]["generation"] + 1),
    )
    return went_on(before, after)


def take_notice(test: LiveTest) -> str:
    """Evicts a worker with its grace period, then cancels the run."""
    before = test.run_checked("status", test.run_name(SPOT))
    test.command_runner.evict(test.run_name(SPOT), 1, grace_seconds=None)
    wanted = before["heartbeat"]["generation"] + 1
    after = test.wait_for(
        "another generation of both workers", BACK_MINUTES, training(test, SPOT, wanted)
    )
    test.run_checked("cancel", test.run_name(SPOT))
    lines = record.read(test.folder.parent / test.run_name(SPOT) / "record.jsonl").lines
    if not any(line.kind == "resumed" for line in lines):
        raise LiveTestError("the record has no `resumed` line")
    notices = [line for line in lines if line.kind == "noticed"]
    own = f"{len(notices)} preemption notices of the cloud" if notices else "no notice of the cloud"
    return f"{went_on(before, after)}; {own}"


def leave_alone(test: LiveTest) -> str:
    """Starts a run with a short deadline and waits until its nodes are gone."""
    run = test.run_name(ALONE)
    start(test, ALONE)
    test.wait_for("a run of two workers", UP_MINUTES, running(test, ALONE))
    test.command_runner.pause(60 * test.unattended_minutes)
    test.wait_for(
        "the deletion of the nodes by the server",
        GONE_MINUTES,
        lambda: test.command_runner.machines(run) == 0,
    )
    return "the nodes were deleted without a launcher"


def stay_away(test: LiveTest) -> str:
    """Checks that no node returns."""
    run = test.run_name(ALONE)
    looks = max(1, round(60 * test.watch_minutes / max(test.poll_seconds, 1e-3)))
    for _ in range(looks):
        back = test.command_runner.machines(run)
        if back:
            raise LiveTestError(f"{back} nodes returned after their maximum run duration")
        test.command_runner.pause(test.poll_seconds)
    return f"no node for {test.watch_minutes:g} min"


def find_left(test: LiveTest) -> str:
    """Runs doctor."""
    answer = test.command_runner.run("doctor", *test.account_flags)
    left = [one for one in answer.output.get("resources", ()) if one["is_orphaned"]]
    ours = [one for one in left if one["run"] in test.runs or one["shared"] == "cluster"]
    if not ours:
        raise LiveTestError(
            f"doctor exited with {answer.exit_code} and lists no resource of this test"
        )
    return "; ".join(f"{one['kind']} {one['name']}: {one['reason']}" for one in ours)


def remove_all(test: LiveTest) -> str:
    """Deletes every run and checks that no resource remains."""
    for run in test.runs:
        said = test.run_checked("down", run, "--purge", "--yes")
        if "usd" in said:
            test.usd[run] = said["usd"]
    left = [resource for run in test.runs for resource in test.command_runner.list_resources(run)]
    if left:
        raise LiveTestError(f"not deleted: {', '.join(left)}")
    return f"no resource of {len(test.runs)} runs remains"


def compare_bill(test: LiveTest) -> str:
    """Compares the cost of the runs with their limits."""
    missing = sorted(set(test.runs) - set(test.usd))
    if missing:
        raise LiveTestError(f"unknown cost: {', '.join(missing)}")
    for which, minutes in most_minutes(test).items():
        run, limit = test.run_name(which), minutes / 60 * test.usd_per_hour
        if test.usd[run] > limit:
            raise LiveTestError(f"{run} cost {test.usd[run]:.2f} USD, more than {limit:.2f}")
    costs = ", ".join(f"{run} {usd:.2f}" for run, usd in sorted(test.usd.items()))
    return (
        f"{sum(test.usd.values()):.2f} USD by node times and list prices ({costs}); with the cloud's"
        " export of a day later: cloudgan cost runs/RUN --billing-export=FILE"
    )
