"""Following a build, whoever builds."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import LaunchError
from cloudgan.core.image_order import Build, ImageOrder
from cloudgan.core.plan import Place
from cloudgan.launching.image_building import build_image

ORDER = ImageOrder(Place(provider="gcp", account="lab"), "gs://lab", "gpu", "1", "ab" * 32)


class Double:
    """A builder whose build goes as a test says."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def make(self, order):
        yield "registry cloudgan"

    def begin(self, order, archive):
        assert (order, archive) == (ORDER, b"packed")
        return "b-1"

    def look(self, order, build):
        assert build == "b-1"
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


@pytest.fixture
def build():
    def run(*looks, **more):
        run.said, run.shown = [], []
        how = {"poll_seconds": 0.0} | more
        return build_image(
            Double(*looks), ORDER, b"packed", run.said.append, run.shown.append, **how
        )

    return run


def test_each_line_of_the_log_is_shown_once_and_when_it_is_whole(build):
    digest = build(
        Build("running"),
        Build("running", "one\ntw"),
        Build("running", "one\ntwo\n"),
        Build("done", "one\ntwo\nend", digest="sha256:1"),
    )
    assert digest == "sha256:1"
    assert build.shown == ["one", "two", "end"]
    assert build.said == ["made registry cloudgan", "build b-1 began"]


def test_a_failed_build_ends_with_its_last_lines(build):
    log = "".join(f"line {number}\n" for number in range(50))
    with pytest.raises(LaunchError, match=r"FAILURE: step 0") as told:
        build(Build("failed", log, "FAILURE: step 0"))
    assert told.value.exit_code == 1
    lines = str(told.value).splitlines()
    assert (lines[1], lines[-1], len(lines)) == ("  line 30", "  line 49", 21)


def test_a_build_without_log_or_image_says_so(build):
    with pytest.raises(LaunchError, match="TIMEOUT, and left no log"):
        build(Build("failed", why="TIMEOUT"))
    with pytest.raises(LaunchError, match="the registry has no such image"):
        build(Build("done", "well\n"))


def test_a_build_that_never_ends_is_left_alone(build):
    with pytest.raises(LaunchError, match="did not end within"):
        build(Build("running"), patience_seconds=-1.0)
