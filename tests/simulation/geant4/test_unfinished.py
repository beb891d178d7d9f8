"""Finished showers of an interrupted simulation; runs without Geant4."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pytest

from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.simulation.geant4.events import Event, EventCells, PrimaryRequest, primary
from cloudgan.simulation.geant4.unfinished import BLOCK, PartialOutput

REQUEST = PrimaryRequest(1, (10.0, 20.0), (60.0, 120.0))
IDENTITY = {"engine": "geant4", "seed": 1, "cut_mm": 0.7}
SHAPE = (5, 5, 3)


def event(number):
    place = np.array([number % 75, 75 - 1 - number % 7], np.int64)
    return Event(
        number,
        EventCells(np.unique(place), np.full(len(np.unique(place)), 1.0 + number, np.float32)),
    )


def keep(output, numbers, events=10, **options):
    with PartialOutput(output) as unfinished:
        unfinished.begin(IDENTITY, events, **{"discard_other": False} | options)
        for number in numbers:
            unfinished.keep(event(number))
        return list(unfinished.missing())


@pytest.fixture
def output(tmp_path):
    return tmp_path / "a.h5"


def test_finished_showers_are_resumed_and_the_rest_is_missing(output):
    assert keep(output, [3, 0, 7]) == [1, 2, 4, 5, 6, 8, 9]
    assert keep(output, [1]) == [2, 4, 5, 6, 8, 9]


def test_more_showers_continue_the_sequence(output):
    keep(output, range(10))
    assert keep(output, [], events=12) == [10, 11]
    assert keep(output, [], events=4) == []


def test_showers_come_in_the_order_of_their_numbers_with_their_primaries(output):
    count = BLOCK + 3
    with PartialOutput(output) as unfinished:
        unfinished.begin(IDENTITY, count, discard_other=False)
        for number in reversed(range(count)):
            unfinished.keep(event(number))
        blocks = list(unfinished.showers(REQUEST, SHAPE))
    assert [len(block) for block in blocks] == [BLOCK, 3]
    ecal = np.concatenate([block.ecal_gev for block in blocks])
    for number in (0, 1, count - 1):
        expected = np.zeros(75, np.float32)
        expected[event(number).cells.flat_index] = event(number).cells.energy_gev
        np.testing.assert_array_equal(ecal[number].ravel(), expected)
    energies = np.concatenate([block.energy_gev for block in blocks])
    assert energies.tolist() == [primary(REQUEST, n).energy_gev for n in range(count)]
    assert blocks[1].theta_rad[0] == np.float32(primary(REQUEST, BLOCK).theta_rad)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_partial_line_of_a_killed_process_is_truncated(output, cut):
    keep(output, [0, 1, 2])
    lines = output.with_name("a.h5.unfinished") / "showers.jsonl"
    lines.write_bytes(lines.read_bytes()[:-cut])
    assert keep(output, [5]) == [2, 3, 4, 6, 7, 8, 9]
    assert keep(output, []) == [2, 3, 4, 6, 7, 8, 9]


def test_an_incomplete_first_line_starts_a_new_simulation(output):
    keep(output, [0])
    lines = output.with_name("a.h5.unfinished") / "showers.jsonl"
    lines.write_bytes(lines.read_bytes()[:10])
    assert keep(output, [4]) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_another_simulation_is_named_and_kept(output):
    keep(output, [0, 1])
    with PartialOutput(output) as unfinished, pytest.raises(ConfigError) as caught:
        unfinished.begin(IDENTITY | {"seed": 2}, 10, discard_other=False)
    assert "differ: seed (2, 1)" in str(caught.value)
    assert "--overwrite" in str(caught.value)
    assert keep(output, []) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_another_simulation_is_discarded_on_request(output):
    keep(output, [0, 1])
    with PartialOutput(output) as unfinished:
        unfinished.begin(IDENTITY | {"seed": 2}, 3, discard_other=True)
        assert list(unfinished.missing()) == [0, 1, 2]


def test_discard_keeps_showers_of_the_same_simulation(output):
    keep(output, [0, 1])
    assert keep(output, [], events=3, discard_other=True) == [2]


def test_a_folder_without_showers_is_removed(output):
    keep(output, [])
    with pytest.raises(CloudganError), PartialOutput(output):
        raise CloudganError("before it began")
    assert list(output.parent.iterdir()) == []


def test_an_error_before_the_start_keeps_existing_showers(output):
    keep(output, [0])
    with pytest.raises(CloudganError), PartialOutput(output):
        raise CloudganError("such as a missing library")
    assert keep(output, [], events=2) == [1]


def test_remove_deletes_the_folder(output):
    keep(output, [0])
    with PartialOutput(output) as unfinished:
        unfinished.begin(IDENTITY, 1, discard_other=False)
        unfinished.remove()
    assert list(output.parent.iterdir()) == []


def test_two_processes_do_not_simulate_into_the_same_file(output):
    program = (
        "import sys; from pathlib import Path;"
        " from cloudgan.simulation.geant4.unfinished import PartialOutput;"
        " PartialOutput(Path(sys.argv[1])).__enter__()"
    )
    with PartialOutput(output):
        done = subprocess.run(
            [sys.executable, "-c", program, str(output)], capture_output=True, text=True
        )
    assert "another process simulates into" in done.stderr


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "a.h5.unfinished").touch()
    with pytest.raises(ConfigError, match="cannot be written"), PartialOutput(tmp_path / "a.h5"):
        pass


def test_a_full_disk_keeps_finished_showers(output):
    """A file size limit simulates a full disk; -B: Python would cut the modules that it compiles."""

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
        [sys.executable, "-B", "-c", program], preexec_fn=limited, capture_output=True, text=True
    )
    assert "showers are kept there. Free disk space and rerun the command" in done.stderr
    missing = keep(output, [])
    assert 0 < len(missing) < 10
    assert missing == list(range(10 - len(missing), 10))
