"""A run is followed to its end, and stopped when it could only wait."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import (
    BudgetError,
    CapacityError,
    CloudganError,
    LaunchError,
    StockOutError,
)
from cloudgan.launch.lifecycle import run_monitor as following
from cloudgan.launch.lifecycle.run_monitor import (
    MIN_LOSSES,
    PreemptionTracker,
    RunMonitor,
    raise_for_outcome,
)
from cloudgan.schema.heartbeat import Heartbeat
from cloudgan.schema.run_state import RunState, WorkerState
from launch.lifecycle.place_double import PlaceDouble

ENDED = "2026-11-21T12:30:00Z"
FINISHED = RunState("finished", ended_at=ENDED)


def running(*replaced, why=""):
    workers = [WorkerState(n, "running", "node", r, why) for n, r in enumerate(replaced)]
    return RunState("running", tuple(workers))


@pytest.fixture
def clock(monkeypatch):
    """A clock that only waiting moves."""
    now = [1000.0]
    monkeypatch.setattr(following, "monotonic_seconds", lambda: now[0])
    return now


@pytest.fixture
def follow(clock, plan_of):
    """Follows a run through states; returns the last one; keeps the messages and the place."""

    def run(*states, plan=None, **options):
        place, said, seen = PlaceDouble(states), [], []

        def wait(seconds):
            assert seconds > 0, "a busy loop"
            clock[0] += seconds

        place.passes = wait
        run.place, run.said, run.seen = place, said, seen
        plan = plan or plan_of(workers={"nodes": 2})
        return RunMonitor(place, plan, said.append, seen.append, **options).follow()

    return run


def test_a_run_is_followed_to_its_end_and_each_change_is_printed_once(follow):
    one_up = RunState("starting", (WorkerState(0, "running"), WorkerState(1, "starting")))
    states = [RunState("waiting"), RunState("waiting"), one_up, running(0, 0), running(0, 0)]
    assert follow(*states, FINISHED) == FINISHED
    assert follow.said == [
        "waiting: 0 of 2 workers running",
        "starting: 1 of 2 workers running",
        "running: 2 of 2 workers running",
        "finished: 0 of 2 workers running",
    ]
    assert follow.seen == [*states, FINISHED], "the observer gets each state"
    assert follow.place.calls == [], "nothing was ended"


def test_each_replacement_is_printed_once_even_if_its_reason_changes(follow):
    follow(
        running(0, 0),
        running(0, 1, why="taken away"),
        running(0, 1, why=""),
        running(0, 1, why="taken away"),
        running(0, 2, why="taken away"),
        FINISHED,
    )
    replaced = [line for line in follow.said if "replaced" in line]
    assert replaced == ["worker 1 was replaced (taken away)"] * 2


NO_STORE = "exit code 75: the store failed for 600 s: gs://b: the pods may not read it"


@pytest.mark.parametrize(
    ("whys", "pause", "ends"),
    [
        ([NO_STORE] * 3, 600, True),
        ([NO_STORE, "", NO_STORE, NO_STORE], 600, True),
        ([NO_STORE, NO_STORE, "preempted", NO_STORE], 600, False),
        ([NO_STORE] * 4, 7200, False),
    ],
    ids=["no role", "one unseen", "a loss between", "outages of a long run"],
)
def test_a_worker_that_never_reaches_its_store_ends_the_run_before_its_deadline(
    clock, plan_of, whys, pause, ends
):
    states = [running(0, count, why=why) for count, why in enumerate(whys, start=1)]
    place = PlaceDouble([*states, FINISHED])

    def passes(_):
        clock[0] += pause

    monitor = RunMonitor(place, plan_of(workers={"nodes": 2}), lambda _: None, passes)
    if ends:
        with pytest.raises(LaunchError, match=r"worker 1: .*may not read it, 3 times in a row"):
            monitor.follow()
        assert place.calls == [("stop", "gan")]
    else:
        assert monitor.follow() == FINISHED


def test_a_reason_is_printed_when_it_changes(follow):
    why = "worker 0: 0/2 nodes are available"
    pending = RunState("waiting", (WorkerState(0, "waiting", reason=why),), why, "placement")
    follow(pending, pending, FINISHED)
    assert follow.said.count(why) == 1


@pytest.mark.parametrize(
    ("cause", "hint", "seconds"),
    [
        ("image", "correct --image", 0),
        ("eviction", "use nodes with more of it", 0),
        ("configuration", "check that the secrets given by --kubernetes-secrets", 30),
    ],
)
def test_what_cannot_start_is_ended(follow, clock, cause, hint, seconds):
    stuck = RunState("waiting", reason="worker 0: it cannot be", cause=cause)
    with pytest.raises(LaunchError, match=rf"^worker 0: it cannot be; {hint}.*cloudgan down gan"):
        follow(stuck)
    assert clock[0] == 1000 + seconds
    assert follow.place.calls == [("stop", "gan")]


@pytest.mark.parametrize(
    ("cause", "hint"),
    [("registry", "check that the nodes can reach the registry"), ("runtime", "see `kubectl desc")],
)
def test_a_failure_that_may_pass_ends_a_run_at_the_gang_timeout(
    follow, clock, plan_of, cause, hint
):
    stuck = RunState("waiting", reason="worker 0: it cannot be", cause=cause)
    plan = plan_of(workers={"nodes": 2}, gang_timeout_seconds=601)
    with pytest.raises(LaunchError, match=rf"within 601 s \(worker 0: it cannot be\); {hint}"):
        follow(stuck, plan=plan)
    assert (clock[0], follow.place.calls) == (1601, [("stop", "gan")])


@pytest.mark.parametrize("cause", ["image", "registry", "runtime"])
def test_a_run_that_was_whole_once_waits_for_the_image_of_a_replacement(follow, clock, cause):
    stuck = RunState("starting", reason="worker 0: it cannot be", cause=cause)
    assert follow(running(0, 0), *[stuck] * 500, running(0, 1), FINISHED) == FINISHED
    assert clock[0] > 3000
    assert follow.place.calls == []


def test_too_little_memory_is_ended_at_once_with_what_to_type(follow, clock):
    state = RunState(
        "starting", reason="worker 1: it needed more memory (OOMKilled)", cause="memory"
    )
    with pytest.raises(LaunchError, match=r"limit is 8 GiB\. Give --memory-gib=16 or a smaller"):
        follow(state)
    assert (clock[0], follow.place.calls) == (1000, [("stop", "gan")])


def test_workers_that_do_not_all_come_up_are_all_ended(follow, clock, plan_of):
    half = RunState("starting", (WorkerState(0, "running"),), "worker 1: no node", "placement")
    plan = plan_of(workers={"nodes": 2}, gang_timeout_seconds=601)
    with pytest.raises(CapacityError, match=r"only 1 of 2 workers started within 601 s \(worker 1"):
        follow(half, plan=plan)
    assert clock[0] == 1601, "no pause exceeds the time limit"
    assert follow.place.calls == [("stop", "gan")]


def test_a_run_that_was_whole_once_is_not_ended_when_a_worker_is_replaced(follow, plan_of):
    half = RunState("starting", (WorkerState(0, "running"),))
    plan = plan_of(workers={"nodes": 2}, gang_timeout_seconds=60)
    assert follow(running(0, 0), *[half] * 100, FINISHED, plan=plan) == FINISHED


def test_flex_start_nodes_may_come_after_hours_and_the_gang_timeout_begins_with_the_first(
    follow, clock, plan_of
):
    limits = {"gang_timeout_seconds": 60, "capacity_wait_seconds": 7200}
    plan = plan_of(workers={"nodes": 2})
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update=limits)})
    pending = WorkerState(0, "waiting", cause="placement"), WorkerState(1, "waiting")
    queued = RunState("waiting", pending)
    one = RunState("starting", (WorkerState(0, "starting", "node"), pending[1]))
    assert follow(*[queued] * 1000, one, running(0, 0), FINISHED, plan=plan) == FINISHED
    with pytest.raises(CapacityError, match="only 0 of 2 workers started within 60 s"):
        follow(*[queued] * 1000, *[one] * 100, plan=plan)
    with pytest.raises(CapacityError, match="no flex-start node became available within 2 h"):
        follow(*[queued] * 1500, plan=plan)
    assert follow.place.calls == [("stop", "gan")]


def test_nodes_that_cannot_come_are_a_stock_out(follow):
    lost = RunState("waiting", (), "the request for nodes has the condition Failed", "capacity")
    with pytest.raises(StockOutError, match="has the condition Failed; the job was stopped"):
        follow(lost)
    assert follow.place.calls == [("stop", "gan")]


def test_time_in_a_queue_does_not_count_towards_the_gang_timeout(follow, clock, plan_of):
    plan = plan_of(workers={"nodes": 2}, gang_timeout_seconds=60, target={"queue": "physics"})
    queued, admitted = RunState("waiting"), RunState("starting", (WorkerState(0, "starting"),))
    assert follow(*[queued] * 100, admitted, running(0, 0), FINISHED, plan=plan) == FINISHED
    with pytest.raises(CapacityError):
        follow(*[queued] * 100, admitted, plan=plan)
    with pytest.raises(CapacityError):
        follow(queued, plan=plan_of(gang_timeout_seconds=60))


def test_a_failed_run_is_followed_until_it_has_ended(follow):
    settling = RunState("failed", reason="worker 1: exit code 1", cause="program")
    done = RunState("failed", reason="worker 1: exit code 1", cause="program", ended_at=ENDED)
    assert follow(running(0, 0), settling, settling, done) == done
    assert follow.seen[-1] == done


def test_a_failed_run_that_never_says_when_it_ended_is_not_waited_for_for_ever(follow, clock):
    settling = RunState("failed", reason="worker 1: exit code 1", cause="program")
    assert follow(settling) == settling
    assert 1000 + 60 < clock[0] < 1000 + 120
    assert follow.place.calls == []


AGAIN = "`cloudgan deploy --name=gan` with the same flags"
BEAT = Heartbeat(
    time="2026-11-21T12:00:00Z",
    config_hash="0" * 16,
    phase="ended",
    world=1,
    missing_workers=(),
    generation=1,
    restarts=0,
    epochs=2,
    message="the loss is no number",
)


def ends(state, plan, beat=None):
    with pytest.raises(CloudganError) as ended:
        raise_for_outcome(state, plan, beat)
    return ended.value


def test_a_finished_run_is_no_error(plan_of):
    raise_for_outcome(RunState("finished"), plan_of(), BEAT)


def test_a_budget_that_is_used_up_has_an_exit_code_of_its_own(plan_of):
    limits = plan_of().limits.model_copy(
        update={"budget_usd": 5.0, "deadline_seconds": 880, "deadline_reason": "x"}
    )
    plan = plan_of().model_copy(update={"limits": limits})
    why = "its deadline of 880 s is over"
    error = ends(RunState("failed", reason=why, cause="deadline"), plan)
    assert isinstance(error, BudgetError)
    assert error.exit_code == 6
    assert str(error).startswith(f"the budget of 5.00 USD is spent: {why}; its checkpoints are")
    assert str(error).endswith(f"Increase --budget-usd and run {AGAIN} to resume")


@pytest.mark.parametrize("budget_usd", [None, 1e6])
def test_hours_that_are_over_are_no_matter_of_money(plan_of, budget_usd):
    plan = plan_of()
    limits = plan.limits.model_copy(update={"budget_usd": budget_usd})
    plan = plan.model_copy(update={"limits": limits})
    error = ends(RunState("failed", reason="it is over", cause="deadline"), plan)
    assert error.exit_code == 1
    assert "it is over (--max-hours=24)" in str(error)
    assert "Increase --max-hours" in str(error)


@pytest.mark.parametrize(
    ("why", "expected"), [("", "stopped; "), ("by you", r"stopped \(by you\); ")]
)
def test_a_run_that_was_stopped_can_go_on(plan_of, why, expected):
    error = ends(RunState("stopped", reason=why), plan_of())
    assert error.exit_code == 1
    assert str(error) == (
        f"run gan was {expected.replace(chr(92), '')}run {AGAIN} to resume from the last checkpoint"
    )


def test_the_error_of_a_deleted_run_says_so(plan_of):
    error = ends(RunState("absent"), plan_of())
    assert "run gan was deleted while it ran" in str(error)
    assert AGAIN in str(error)


def test_a_run_that_failed_says_why_and_what_its_worker_said(plan_of):
    error = ends(
        RunState("failed", reason="worker 0: exit code 1", cause="program"), plan_of(), BEAT
    )
    assert error.exit_code == 1
    assert str(error).startswith(
        "run gan failed: worker 0: exit code 1; last message: the loss is no number."
        " See `cloudgan logs gan`"
    )
    assert AGAIN in str(error)


def test_a_failure_without_a_reason_says_so(plan_of):
    assert "failed: no reason reported. See" in str(ends(RunState("failed"), plan_of()))
    silent = BEAT.model_copy(update={"message": ""})
    assert "last message" not in str(ends(RunState("failed"), plan_of(), silent))


HOUR = 3600.0


def state(*replaced, phase="running"):
    workers = (WorkerState(i, "running", preemptions=count) for i, count in enumerate(replaced))
    return RunState(phase, tuple(workers))


def see(losses, *seen):
    for replaced, hours in seen:
        losses.observe(state(*replaced), 1e9 + hours * HOUR)


def test_losses_above_the_break_even_end_it_with_both_figures():
    with pytest.raises(
        CapacityError,
        match=r"preempted 4 times in 2 h: on demand .* one preemption per node in 4 h",
    ):
        see(PreemptionTracker(0.25, 2), ((0, 0), 0), ((1, 3), 2))


def test_losses_below_it_do_not():
    see(PreemptionTracker(0.25, 2), ((0, 0), 0), ((1, 3), 10))


def test_a_worker_that_is_replaced_for_another_reason_is_no_preemption():
    """Such as one that leaves with 75 while the store fails."""
    losses = PreemptionTracker(1e-6, 1)
    for count in range(9):
        losses.observe(running(count), 1e9 + count)


def test_preempted_pods_that_the_cluster_forgets_still_count():
    counts = [(0,), (1,), (0,), (1,), (0,), (1,)]
    with pytest.raises(CapacityError, match="preempted 3 times"):
        see(PreemptionTracker(1e-6, 1), *((count, 0.1 * n) for n, count in enumerate(counts)))


def test_preemptions_before_a_launcher_follows_have_no_rate():
    see(PreemptionTracker(1e-6, 1), ((9,), 0), ((9,), 1), ((9 + MIN_LOSSES - 1,), 2))


def test_few_losses_are_bad_luck():
    see(PreemptionTracker(1e-6, 1), ((0,), 0), ((MIN_LOSSES - 1,), 0.01))


def test_a_run_that_is_over_or_has_no_workers_yet_loses_none():
    losses = PreemptionTracker(1e-6, 1)
    losses.observe(RunState("waiting"), 0.0)
    losses.observe(state(9, phase="failed"), HOUR)
