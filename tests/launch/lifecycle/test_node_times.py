"""Start and end of machines between observations; the spent amount never decreases."""

from __future__ import annotations

import datetime as dt

from hypothesis import given, settings
from hypothesis import strategies as st

from cloudgan.launch.lifecycle.nodes import has_running_nodes, observe_nodes, terminate_nodes
from cloudgan.money.billing import launch_ledger
from cloudgan.money.catalog import load_catalog
from cloudgan.schema.launch import Attempt, Launch, Node

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
ROW = load_catalog().row("gcp/n1-standard-8+1xV100/us-central1/spot")


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


def provisioned(**more):
    known = {
        "provider": ROW.provider,
        "region": ROW.region,
        "node_type": ROW.node_type,
        "market": ROW.market,
        "node_count": 2,
        "price_rows": (ROW,),
    }
    return Attempt(**(known | more))


def node(name, up):
    return Node(name=name, started_at=after(up))


def times(attempt):
    return {
        one.name: (
            (one.started_at - NOON).total_seconds(),
            (one.terminated_at - NOON).total_seconds() if one.terminated_at else None,
        )
        for one in attempt.nodes
    }


def test_a_machine_that_came_and_went_between_is_kept():
    attempts = observe_nodes((provisioned(),), [node("a", 0), node("b", 10)], after(20))
    attempts = observe_nodes(attempts, [node("a", 0), node("c", 300)], after(310))
    (attempt,) = terminate_nodes(attempts, after(600))
    assert times(attempt) == {"a": (0, 600), "b": (10, 310), "c": (300, 600)}
    assert attempt.node_seconds() == 600 + 300 + 300


def test_a_name_that_is_given_again_is_another_machine():
    attempts = observe_nodes((provisioned(),), [node("a", 0)], after(20))
    attempts = observe_nodes(attempts, [node("a", 200)], after(210))
    attempts = observe_nodes(attempts, [node("a", 400)], after(410))
    (attempt,) = terminate_nodes(attempts, after(500))
    assert times(attempt) == {"a": (0, 210), "a #2": (200, 410), "a #3": (400, 500)}
    assert Attempt.model_validate(attempt.model_dump()) == attempt


def test_a_machine_belongs_to_the_attempt_in_which_it_came_up():
    first = observe_nodes((provisioned(),), [node("a", 0)], after(20))
    both = (*first, provisioned())
    both = observe_nodes(both, [node("a", 0), node("b", 100)], after(110))
    assert [times(attempt) for attempt in both] == [{"a": (0, None)}, {"b": (100, None)}]
    assert has_running_nodes(both)
    assert not has_running_nodes(terminate_nodes(both, after(200)))
    assert times(terminate_nodes(both, after(200))[0]) == {"a": (0, 200)}


def test_observations_are_noted_about_once_a_minute_and_the_unobserved_time_is_known():
    there = [node("a", 0)]
    first = observe_nodes((provisioned(),), there, after(10))
    assert observe_nodes(first, there, after(30)) == first, "nothing to write"
    later = observe_nodes(first, there, after(80))
    assert later[0].nodes[0].last_seen_at == after(80)
    (attempt,) = terminate_nodes(later, after(3680))
    assert attempt.nodes[0].unseen_seconds() == 3600


def test_a_clock_that_is_behind_makes_no_machine_go_before_it_came():
    attempts = observe_nodes((provisioned(),), [node("a", 100)], after(50))
    (attempt,) = terminate_nodes(attempts, after(60))
    assert times(attempt) == {"a": (100, 100)}


EVENTS = st.lists(
    st.tuples(
        st.integers(1, 900), st.sampled_from(["come", "go", "begin", "end", "again", "look"])
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(events=EVENTS, behind=st.integers(-120, 120))
def test_what_is_known_to_be_spent_never_goes_down_while_a_run_goes_on(events, behind):
    """For any starts and ends of machines, and any offset of the launcher's clock."""
    clock, there, number, spent = 1000, {}, 0, 0.0
    attempts = (provisioned(),)
    for seconds, event in events:
        clock += seconds
        last, now = attempts[-1], after(clock + behind)
        if event == "come" and len(there) < 2:
            number += 1
            there[f"n{number % 3}"] = node(f"n{number % 3}", clock)
        elif event == "go" and there:
            there.pop(next(iter(there)))
        elif event == "begin" and len(there) == 2 and not last.program_started_at:
            attempts = (
                *attempts[:-1],
                last.model_copy(update={"program_started_at": after(clock)}),
            )
        elif event == "end" and last.program_started_at and not last.program_ended_at:
            attempts = (*attempts[:-1], last.model_copy(update={"program_ended_at": after(clock)}))
        elif event == "again" and last.program_ended_at:
            attempts = (*attempts, provisioned())
        attempts = observe_nodes(attempts, there.values(), now)
        launch = Launch(run="r", config_hash="h", attempts=attempts)
        known = launch_ledger(launch).until(now).known_usd
        assert known >= spent - 1e-12
        spent = known
