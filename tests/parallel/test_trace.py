"""The trace of all ranks: its bound, its clock, and the rules of the Trace Event Format."""

import json

import pytest

from cloudgan.core.clock import utc_moment
from cloudgan.parallel.trace import Profile, trace_events
from cloudgan.ranks.layout import Layout, Role, make_layout
from cloudgan.schema.parallel import ParallelConfig


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """All ranks have one clock, which stands."""
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    now = utc_moment()
    monkeypatch.setattr("cloudgan.parallel.trace.utc_moment", lambda: now)


def spans_of(*rows, most=100):
    profile = Profile(most)
    for routine, began, ended in rows:
        profile.spent(routine, began, ended, is_beside=routine == "validate")
    return profile.as_json()


@pytest.fixture
def found():
    layout = make_layout(4, ParallelConfig(mode="easgd", group=3))
    rows = [("train", 1.0, 1.5), ("gather", 1.5, 1.6), ("wait", 1.6, 1.75), ("save", 1.75, 1.8)]
    master = spans_of(("wait", 0.5, 1.6), ("update", 1.6, 1.7), ("validate", 1.65, 2.0))
    return trace_events(layout, [master, spans_of(*rows), spans_of(*rows[:2]), spans_of()])


def test_each_rank_is_a_process_with_complete_events_in_microseconds_since_the_first(found):
    spans = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert [(event["pid"], event["name"], event["ts"], event["dur"]) for event in spans[:5]] == [
        *((1, "wait", 0, 1_100_000), (1, "update", 1_100_000, 100_000)),
        *((1, "validate", 1_150_000, 350_000), (2, "train", 500_000, 500_000)),
        (2, "gather", 1_000_000, 100_000),
    ]
    names = {
        event["pid"]: event["args"]["name"]
        for event in found["traceEvents"]
        if event["name"] == "process_name"
    }
    assert names == {
        1: "rank 0: master",
        2: "rank 1: worker 0",
        3: "rank 2: worker 0, member 1",
        4: "rank 3: worker 0, member 2",
    }


def test_a_trace_has_what_the_format_demands(found):
    """https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""
    assert found["displayTimeUnit"] in {"ms", "ns"}
    json.dumps(found)
    for event in found["traceEvents"]:
        assert {"name", "ph", "pid", "tid"} <= set(event)
        assert event["pid"] > 0  # 0 is the idle process of Perfetto
        assert event["tid"] > 0
        if event["ph"] == "X":
            assert event["ts"] >= 0
            assert event["dur"] >= 0
        else:
            assert event["ph"] == "M"
            assert event["name"] in {"process_name", "process_sort_index", "thread_name"}
    # Spans of one thread follow each other or are one in the other.
    threads = {event["tid"] for event in found["traceEvents"]}
    for thread in threads:
        ends = []
        for event in found["traceEvents"]:
            if event["tid"] != thread or event["ph"] == "M":
                continue
            ends = [end for end in ends if end > event["ts"]]
            assert all(event["ts"] + event["dur"] <= end for end in ends)
            ends.append(event["ts"] + event["dur"])


def test_of_more_spans_than_are_kept_the_middle_is_left_out_and_counted():
    rows = [("update", float(n), n + 0.5) for n in range(1000)]
    found = spans_of(*rows, most=10)
    assert (len(found["spans"]), found["left_out"]) == (10, 990)
    began = [span[1] - found["spans"][0][1] for span in found["spans"]]
    assert [second // 10**6 for second in began] == [0, 1, 2, 3, 4, 995, 996, 997, 998, 999]
    world = Layout((Role(0, "master"),), 1)
    assert trace_events(world, [found])["otherData"]["spans_left_out_by_rank"] == {"0": 990}
