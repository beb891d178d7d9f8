"""The lines of all workers in one stream, without gaps and without repetition."""

import itertools
import threading

import pytest

from cloudgan.core.children import tail_lines
from cloudgan.core.clock import parse_time
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.launch.lifecycle import log_merging
from cloudgan.schema.run_state import LogLine, RunState
from launch.lifecycle.place_double import PlaceDouble

OVER = RunState("finished")


def line(index, second, text):
    return LogLine(index, f"2026-11-21T12:00:{second:02d}Z" if second is not None else "", text)


def merge_logs(double, run, **how):
    return log_merging.merge_logs(
        lambda: double.log_sources(run), lambda: double.state(run).is_over, **how
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(log_merging, "_LOOK_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(log_merging, "_QUIET_SECONDS", 0.3)


def place(**sources):
    double = PlaceDouble([OVER])
    double.sources = sources
    return double


@pytest.mark.parametrize(
    ("first", "second", "texts"),
    [
        ([(1, "one"), (4, "four")], [(2, "two"), (3, "three")], ["one", "two", "three", "four"]),
        ([(None, "a"), (None, "b")], [(1, "c")], ["a", "b", "c"]),
        ([], [], []),
    ],
    ids=["by their times", "without times worker by worker", "nothing printed"],
)
def test_lines_that_are_there_come_in_order(first, second, texts):
    double = place(
        a=lambda follow: iter([line(0, *one) for one in first]),
        b=lambda follow: iter([line(1, *one) for one in second]),
    )
    assert [each.text for each in merge_logs(double, "gan", follow=False)] == texts


@pytest.mark.parametrize("how", ["ends", "raises"])
def test_a_stream_that_is_cut_is_taken_up_without_repeated_lines(how):
    """Each request of a pod's log returns it from its start."""
    texts = [f"step {n}" for n in range(6)]
    reads = []
    double = place()
    double.states = [RunState("running")]

    def source(follow):
        cut = (2, 1, 4, 6)[min(len(reads), 3)]  # the second time it is cut before anything new
        reads.append(cut)
        for number, text in enumerate(texts[:cut]):
            yield line(0, number, text)
        if cut == len(texts):
            double.states = [OVER]
        elif how == "raises":
            raise CloudganError("the stream was cut")

    double.sources = {"gan-0-abcde": source}
    assert [each.text for each in merge_logs(double, "gan", follow=True)] == texts
    assert reads[:4] == [2, 1, 4, 6]


def test_a_worker_that_takes_anothers_place_is_followed_too():
    double = place(first=lambda follow: iter([line(0, 1, "of the first")]))
    double.states = [RunState("running")]
    found = []
    for each in merge_logs(double, "gan", follow=True):
        found.append(each.text)
        if len(found) == 1:
            second = lambda follow: iter([line(0, 2, "of the second")])
            double.sources = {**double.sources, "second": second}
        else:
            double.states = [OVER]
    assert found == ["of the first", "of the second"]


def test_lines_that_come_late_are_waited_for_when_the_run_is_over():
    more = threading.Event()

    def slow(follow):
        yield line(0, 1, "first")
        more.wait(5)
        yield line(0, 2, "last")

    found = []
    for each in merge_logs(place(a=slow), "gan", follow=True):
        found.append(each.text)
        more.set()
    assert found == ["first", "last"]


def test_a_log_that_has_ended_is_read_less_and_less_often(monkeypatch):
    """A finished worker's whole log would else be fetched every second while others run."""
    seconds, looks, reads = itertools.count(1), [], []
    monkeypatch.setattr(log_merging, "monotonic_seconds", lambda: next(seconds))
    monkeypatch.setattr(log_merging, "_LOOK_EVERY_SECONDS", 1)
    monkeypatch.setattr(log_merging, "_QUIET_SECONDS", 3)

    def ended(follow):
        reads.append(follow)
        yield line(0, 1, "done")

    def sources():
        looks.append(1)
        return {"gan-0-abcde": ended}

    found = log_merging.merge_logs(sources, lambda: len(looks) > 12, follow=True)
    assert [each.text for each in found] == ["done"]
    assert len(reads) <= 8, "at each look it would be 15"


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("asked", "texts"),
    [
        ({"last": 2}, ["three", "four"]),
        ({"last": 0}, []),
        ({"last": 9}, ["one", "two", "its second row", "three", "four"]),
        ({"since": "2026-11-21T12:00:02Z"}, ["two", "its second row", "three", "four"]),
        ({"since": "2026-11-21T12:00:03Z", "last": 1}, ["four"]),
        ({"since": "2026-11-21T13:00:00Z"}, []),
    ],
)
def test_only_the_last_lines_or_those_since_a_moment_are_given_and_all_that_follow(
    follow, asked, texts
):
    if "since" in asked:
        asked = asked | {"since": parse_time(asked["since"])}
    untimed = LogLine(0, "", "its second row")
    first = [line(0, 1, "one"), line(0, 2, "two"), untimed, line(0, 3, "three")]
    stored, new = [*first, line(0, 4, "four")], [line(0, 5, "five")]
    double = place(a=lambda live: iter(stored + new * live))
    found = [each.text for each in merge_logs(double, "gan", follow=follow, **asked)]
    assert found == texts + ["five"] * follow


def test_lines_without_times_cannot_be_selected_by_time():
    double = place(a=lambda follow: iter([line(0, None, "a")]))
    with pytest.raises(ConfigError, match="--lines=N"):
        list(merge_logs(double, "gan", follow=False, since=parse_time("2026-11-21T12:00:00Z")))


def test_a_log_file_that_is_deleted_while_it_is_followed_ends_as_an_interrupted_one(tmp_path):
    log = tmp_path / "worker-0.log"
    log.write_text("up\n")

    def deleted_later(follow):
        for text in tail_lines(log):
            yield line(0, None, text)
        log.unlink(missing_ok=True)
        yield from (line(0, None, text) for text in tail_lines(log))

    double = place(a=deleted_later)
    assert [each.text for each in merge_logs(double, "gan", follow=True)] == ["up"]
