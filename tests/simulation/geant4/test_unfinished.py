"""What is kept of a simulation that was stopped; no Geant4 is needed for that."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pytest

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.simulation.geant4.events import Event
from cloudgan.simulation.geant4.primaries import Asked, primary
from cloudgan.simulation.geant4.unfinished import BLOCK, Unfinished
from cloudgan.simulation.geant4.window import Cells

ASKED = Asked(1, (10.0, 20.0), (60.0, 120.0))
IDENTITY = {"engine": "geant4", "seed": 1, "cut_mm": 0.7}
SHAPE = (5, 5, 3)


def event(number):
    place = np.array([number % 75, 75 - 1 - number % 7], np.int64)
    return Event(
        number, Cells(np.unique(place), np.full(len(np.unique(place)), 1.0 + number, np.float32))
    )


def keep(output, numbers, events=10, **options):
    with Unfinished(output) as unfinished:
        unfinished.begin(IDENTITY, events, **{"forget": False} | options)
        for number in numbers:
            unfinished.keep(event(number))
        return list(unfinished.missing())


@pytest.fixture
def output(tmp_path):
    return tmp_path / "a.h5"


def test_what_was_kept_is_there_again_and_the_rest_is_missing(output):
    assert keep(output, [3, 0, 7]) == [1, 2, 4, 5, 6, 8, 9]
    assert keep(output, [1]) == [2, 4, 5, 6, 8, 9]


def test_more_showers_go_on_with_those_of_fewer(output):
    keep(output, range(10))
    assert keep(output, [], events=12) == [10, 11]
    assert keep(output, [], events=4) == []


def test_showers_come_in_the_order_of_their_numbers_with_their_primaries(output):
    count = BLOCK + 3
    with Unfinished(output) as unfinished:
        unfinished.begin(IDENTITY, count, forget=False)
        for number in reversed(range(count)):
            unfinished.keep(event(number))
        blocks = list(unfinished.showers(ASKED, SHAPE))
    assert [len(block) for block in blocks] == [BLOCK, 3]
    ecal = np.concatenate([block.ecal_gev for block in blocks])
    for number in (0, 1, count - 1):
        expected = np.zeros(75, np.float32)
        expected[event(number).cells.place] = event(number).cells.energy_gev
        np.testing.assert_array_equal(ecal[number].ravel(), expected)
    energies = np.concatenate([block.energy_gev for block in blocks])
    assert energies.tolist() == [primary(ASKED, n).energy_gev for n in range(count)]
    assert blocks[1].theta_rad[0] == np.float32(primary(ASKED, BLOCK).theta_rad)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_half_a_line_of_one_who_was_killed_is_cut_off(output, cut):
    keep(output, [0, 1, 2])
    lines = output.with_name("a.h5.unfinished") / "showers.jsonl"
    lines.write_bytes(lines.read_bytes()[:-cut])
    assert keep(output, [5]) == [2, 3, 4, 6, 7, 8, 9]
    assert keep(output, []) == [2, 3, 4, 6, 7, 8, 9]


def test_one_killed_before_its_first_line_was_whole_begins_anew(output):
    keep(output, [0])
    lines = output.with_name("a.h5.unfinished") / "showers.jsonl"
    lines.write_bytes(lines.read_bytes()[:10])
    assert keep(output, [4]) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_another_simulation_is_named_and_left_alone(output):
    keep(output, [0, 1])
    with Unfinished(output) as unfinished, pytest.raises(ConfigError) as told:
        unfinished.begin(IDENTITY | {"seed": 2}, 10, forget=False)
    assert "differ in seed (2, 1)" in str(told.value)
    assert "--overwrite" in str(told.value)
    assert keep(output, []) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_another_simulation_goes_where_it_may(output):
    keep(output, [0, 1])
    with Unfinished(output) as unfinished:
        unfinished.begin(IDENTITY | {"seed": 2}, 3, forget=True)
        assert list(unfinished.missing()) == [0, 1, 2]


def test_what_may_go_stays_where_it_is_the_same(output):
    keep(output, [0, 1])
    assert keep(output, [], events=3, forget=True) == [2]


def test_a_folder_in_which_nothing_was_kept_goes(output):
    keep(output, [])
    with pytest.raises(CloudganError), Unfinished(output):
        raise CloudganError("before it began")
    assert list(output.parent.iterdir()) == []


def test_an_error_before_it_began_leaves_what_was_there(output):
    keep(output, [0])
    with pytest.raises(CloudganError), Unfinished(output):
        raise CloudganError("such as a missing library")
    assert keep(output, [], events=2) == [1]


def test_removing_leaves_nothing(output):
    keep(output, [0])
    with Unfinished(output) as unfinished:
        unfinished.begin(IDENTITY, 1, forget=False)
        unfinished.remove()
    assert list(output.parent.iterdir()) == []


def test_two_processes_do_not_simulate_into_the_same_file(output):
    program = (
        "import sys; from pathlib import Path;"
        " from cloudgan.simulation.geant4.unfinished import Unfinished;"
        " Unfinished(Path(sys.argv[1])).__enter__()"
    )
    with Unfinished(output):
        done = subprocess.run(
            [sys.executable, "-c", program, str(output)], capture_output=True, text=True
        )
    assert "another process simulates into" in done.stderr


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "a.h5.unfinished").touch()
    with pytest.raises(ConfigError, match="cannot be written"), Unfinished(tmp_path / "a.h5"):
        pass


def test_a_full_disk_keeps_what_was_finished(output):
    """A limit on the size of files stands for the disk."""

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

    program = f"""
import signal, sys
sys.path[:0] = {sys.path!r}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from pathlib import Path
from simulation.geant4.test_unfinished import keep
keep(Path({str(output)!r}), range(10))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=limited, capture_output=True, text=True
    )
    assert "showers are kept there. Make room and run the same command again" in done.stderr
    missing = keep(output, [])
    assert 0 < len(missing) < 10
    assert missing == list(range(10 - len(missing), 10))
