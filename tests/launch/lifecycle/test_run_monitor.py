"""A run is followed to its end, and stopped when it could only wait."""

import pytest

from cloudgan.core.errors import (
    BudgetError,
    CapacityError,
    CloudganError,
    LaunchError,
    StockOutError,
)
from cloudgan.launch.lifecycle import run_monitor
from cloudgan.launch.lifecycle.run_monitor import (
    MIN_LOSSES,
    PreemptionTracker,
    RunMonitor,
    raise_for_outcome,
)
from cloudgan.schema.run_state import RunState, WorkerState
from launch.lifecycle.place_double import PlaceDouble
from records import heartbeat

ENDED = "2026-11-21T12:30:00Z"
FINISHED = RunState("finished", ended_at=ENDED)
STOPPED = [("stop", "gan")]


def running(*replaced, why=""):
    workers = [WorkerState(n, "running", "node", r, why) for n, r in enumerate(replaced)]
    return RunState("running", tuple(workers))


def stuck(cause, phase="waiting"):
    return RunState(phase, reason="worker 0: it cannot be", cause=cause)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only waiting moves."""
    now = [1000.0]
    monkeypatch.setattr(run_monitor, "monotonic_seconds", lambda: now[0])
    return now


@pytest.fixture
def follow(clock, plan_of):
    """Follows a run through states; returns the last one; keeps the messages and the place."""

    def run(*states, pause=None, **limits):
        run.place, run.said, run.seen = PlaceDouble(states), [], []

        def wait(seconds):
            assert seconds > 0, "a busy loop"
            clock[0] += pause or seconds

        run.place.passes = wait
        plan = plan_of(workers={"nodes": 2}, target={"queue": limits.pop("queue", None)})
        plan = plan.model_copy(update={"limits": plan.limits.model_copy(update=limits)})
        return RunMonitor(run.place, plan, run.said.append, run.seen.append).follow()

    return run


def test_a_run_is_followed_to_its_end_and_each_change_is_printed_once(follow):
    one_up = RunState("starting", (WorkerState(0, "running"), WorkerState(1, "starting")))
    why = "worker 0: 0/2 nodes are available"
    pending = RunState("waiting", (WorkerState(0, "waiting", reason=why),), why, "placement")
    taken = running(0, 1, why="taken away")
    whole = running(0, 0)
    states = [pending, pending, one_up, whole, taken, running(0, 1), taken]
    states += [running(0, 2, why="taken away"), FINISHED]
    assert follow(*states) == FINISHED
    assert follow.said == [
        "waiting: 0 of 2 workers running",
        why,
        "starting: 1 of 2 workers running",
        "running: 2 of 2 workers running",
        *["worker 1 was replaced (taken away)"] * 2,
        "finished",
    ]
    assert follow.seen == states, "the observer gets each state"
    assert follow.place.calls == [], "nothing was ended"


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
    follow, whys, pause, ends
):
    states = [running(0, count, why=why) for count, why in enumerate(whys, start=1)]
    if not ends:
        assert follow(*states, FINISHED, pause=pause) == FINISHED
        return
    with pytest.raises(LaunchError, match=r"worker 1: .*may not read it, 3 times in a row"):
        follow(*states, FINISHED, pause=pause)
    assert follow.place.calls == STOPPED


HALF = RunState("starting", (WorkerState(0, "running"),), "worker 1: no node", "placement")
LIMIT = 601


@pytest.mark.parametrize(
    ("state", "seconds", "kind", "message"),
    [
        (stuck("image"), 0, LaunchError, r"^worker 0: it cannot be; correct --image"),
        (stuck("eviction"), 0, LaunchError, "it cannot be; use nodes with more of it"),
        (stuck("configuration"), 30, LaunchError, "check that the secrets given by --kubernetes-s"),
        (stuck("memory"), 0, LaunchError, r"limit is 8 GiB\. Give --memory-gib=16 or a smaller"),
        (stuck("capacity"), 0, StockOutError, "it cannot be; the job was stopped"),
        (
            stuck("registry"),
            LIMIT,
            LaunchError,
            r"within 601 s \(worker 0: it cannot be\); check that the nodes can reach the registry",
        ),
        (stuck("runtime"), LIMIT, LaunchError, "see `kubectl desc"),
        (HALF, LIMIT, CapacityError, r"only 1 of 2 workers started within 601 s \(worker 1: no"),
        (RunState("waiting"), LIMIT, CapacityError, r"\(no reason reported\); all were stopped"),
    ],
)
def test_what_cannot_start_is_ended_with_what_to_type(  # noqa: PLR0917
    follow, clock, state, seconds, kind, message
):
    with pytest.raises(kind, match=message) as error:
        follow(state, gang_timeout_seconds=LIMIT)
    assert type(error.value) is kind
    assert "`cloudgan down gan`" in str(error.value)
    assert clock[0] == 1000 + seconds, "no pause exceeds the time limit"
    assert follow.place.calls == STOPPED


@pytest.mark.parametrize(
    "state", [HALF, *(stuck(cause, "starting") for cause in ("image", "registry", "runtime"))]
)
def test_a_run_that_was_whole_once_waits_for_a_replacement(follow, clock, state):
    assert follow(running(0, 0), *[state] * 500, running(0, 1), FINISHED) == FINISHED
    assert clock[0] > 3000
    assert follow.place.calls == []


PENDING = WorkerState(0, "waiting", cause="placement"), WorkerState(1, "waiting")
NO_NODE = RunState("waiting", PENDING)
FIRST_NODE = RunState("starting", (WorkerState(0, "starting", "node"), PENDING[1]))
QUEUED, ADMITTED = RunState("waiting"), RunState("starting", (WorkerState(0, "starting"),))
FLEX = {"gang_timeout_seconds": 60, "capacity_wait_seconds": 7200}
IN_QUEUE = {"gang_timeout_seconds": 60, "queue": "physics"}


@pytest.mark.parametrize(
    ("states", "limits", "message"),
    [
        ([*[NO_NODE] * 1000, FIRST_NODE, running(0, 0), FINISHED], FLEX, None),
        ([*[NO_NODE] * 1000, *[FIRST_NODE] * 100], FLEX, "only 0 of 2 workers started within 60 s"),
        ([NO_NODE] * 1500, FLEX, "no flex-start node became available within 2 h"),
        ([*[QUEUED] * 100, ADMITTED, running(0, 0), FINISHED], IN_QUEUE, None),
        ([*[QUEUED] * 100, ADMITTED], IN_QUEUE, "only 0 of 2 workers started within 60 s"),
        ([QUEUED], {"gang_timeout_seconds": 60}, "only 0 of 2 workers started within 60 s"),
    ],
    ids=["flex-start", "late after it", "no flex-start", "queue", "late after it", "no queue"],
)
def test_time_without_a_billed_node_does_not_count_towards_the_gang_timeout(
    follow, states, limits, message
):
    if message is None:
        assert follow(*states, **limits) == FINISHED
        return
    with pytest.raises(CapacityError, match=message):
        follow(*states, **limits)
    assert follow.place.calls == STOPPED


def test_a_failed_run_is_followed_until_its_end_is_known_but_not_for_ever(follow, clock):
    settling = RunState("failed", reason="worker 1: exit code 1", cause="program")
    done = RunState("failed", reason="worker 1: exit code 1", cause="program", ended_at=ENDED)
    assert follow(running(0, 0), settling, settling, done) == done
    assert follow.seen[-1] == done
    began = clock[0]
    assert follow(settling) == settling
    assert 60 < clock[0] - began < 120
    assert follow.place.calls == []


AGAIN = "run `cloudgan deploy --name=gan` with the same flags"
BEAT = heartbeat(phase="ended", message="the loss is no number")
LATE = RunState("failed", reason="its deadline is over", cause="deadline")
FAILED = RunState("failed", reason="worker 0: exit code 1", cause="program")


@pytest.mark.parametrize(
    ("state", "limits", "beat", "code", "begins", "ends"),
    [
        (
            LATE,
            {"budget_usd": 5.0, "deadline_reason": "x", "deadline_seconds": 880},
            None,
            6,
            "the budget of 5.00 USD is spent: its deadline is over; its checkpoints are in the store",
            f"Increase --budget-usd and {AGAIN} to resume",
        ),
        *(
            (
                LATE,
                {"budget_usd": budget},
                None,
                1,
                "its deadline is over (--max-hours=24)",
                f"Increase --max-hours and {AGAIN} to resume",
            )
            for budget in (None, 1e6)
        ),
        (RunState("stopped"), {}, None, 1, f"run gan was stopped; {AGAIN}", "last checkpoint"),
        (RunState("stopped", reason="by you"), {}, None, 1, "run gan was stopped (by you); ", ""),
        (RunState("absent"), {}, None, 1, f"run gan was deleted while it ran; {AGAIN}", ""),
        (
            FAILED,
            {},
            BEAT,
            1,
            "run gan failed: worker 0: exit code 1; last message: the loss is no number. See `cl",
            f"{AGAIN} to resume from the last checkpoint",
        ),
        (
            RunState("failed"),
            {},
            BEAT.model_copy(update={"message": ""}),
            1,
            "run gan failed: no reason reported. See",
            "",
        ),
    ],
)
def test_what_ended_otherwise_says_why_and_how_to_go_on(  # noqa: PLR0917
    plan_of, state, limits, beat, code, begins, ends
):
    plan = plan_of()
    plan = plan.model_copy(update={"limits": plan.limits.model_copy(update=limits)})
    with pytest.raises(CloudganError) as error:
        raise_for_outcome(state, plan, beat)
    assert (error.value.exit_code, isinstance(error.value, BudgetError)) == (code, code == 6)
    assert str(error.value).startswith(begins)
    assert str(error.value).endswith(ends)


def test_a_finished_run_is_no_error(plan_of):
    raise_for_outcome(RunState("finished"), plan_of(), BEAT)


def taken(*counts, phase="running"):
    workers = (WorkerState(i, "running", preemptions=count) for i, count in enumerate(counts))
    return RunState(phase, tuple(workers))


@pytest.mark.parametrize(
    ("limit", "seen", "message"),
    [
        (
            0.25,
            [(taken(0, 0), 0), (taken(1, 3), 2)],
            r"preempted 4 times in 2 h: on demand .* one preemption per node in 4 h",
        ),
        (0.25, [(taken(0, 0), 0), (taken(1, 3), 10)], None),
        (1e-6, [(running(count), count) for count in range(9)], None),
        (
            1e-6,
            [(taken(count), 0.1 * n) for n, count in enumerate((0, 1, 0, 1, 0, 1))],
            "preempted 3 times",
        ),
        (1e-6, [(taken(9), 0), (taken(9), 1), (taken(9 + MIN_LOSSES - 1), 2)], None),
        (1e-6, [(taken(0), 0), (taken(MIN_LOSSES - 1), 0.01)], None),
        (1e-6, [(RunState("waiting"), 0), (taken(9, phase="failed"), 1)], None),
    ],
    ids=[
        "above the break-even", "below it", "replaced for another reason, such as a store that fails",
        "pods that the cluster forgot still count", "before a launcher followed: no rate", "bad luck",
        "over, or no workers yet",
    ],
)  # fmt: skip
def test_preemptions_end_a_spot_run_when_on_demand_costs_less(limit, seen, message):
    tracker = PreemptionTracker(limit, len(seen[-1][0].workers))

    def see():
        for state, hours in seen:
            tracker.observe(state, 1e9 + hours * 3600)

    if message is None:
        see()
        return
    with pytest.raises(CapacityError, match=message):
        see()
