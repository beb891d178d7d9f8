"""Cells as real MPI ranks that play a game in NumPy, beside the same cells in one process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid
from cloudgan.core.documents import read_json
from cloudgan.core.settings import child_environment
from cloudgan.ranks.process import Failure, failure_file, processes_file
from cloudgan.schema.coevolution import CoevolutionConfig, GridStatus
from coevolution.quadratic_game import LAYOUTS, bits, cells_in
from ranks.mpiexec import mpiexec
from waiting import until

pytest.importorskip("mpi4py")
HERE = Path(__file__).parent


def grid_folder(path, **options):
    found = {"task": "ring", "engine": "ranks", "batches": 2, "score_samples": 20, "save_every": 2}
    config = CoevolutionConfig.model_validate(found | options)
    folder = GridFolder(path, check_grid(config))
    folder.write_config(config)
    return folder, config


@contextmanager
def started(folder, seconds=(0.0,) * 4, ranks=5):
    failure_file(folder.run).unlink(missing_ok=True)
    with subprocess.Popen(
        mpiexec(ranks, HERE / "rank_program.py", folder.path, ",".join(map(str, seconds))),
        env=child_environment(
            CLOUDGAN_SUPERVISED="1", PYTHONPATH=f"{HERE.parents[1]}:{HERE.parent}"
        ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process):
    code = process.wait(60)
    return code, process.stdout.read()


def wait_for(condition, process):
    def reached():
        assert process.poll() is None, process.communicate()
        return condition()

    until(reached, seconds=60)


def status(folder):
    return read_json(folder.status_file, GridStatus) if folder.status_file.exists() else None


def failure(folder):
    return read_json(failure_file(folder.run), Failure)


def undisturbed(path, config):
    lines = []
    engine = cells_in(path, config, show=lambda found: lines.append(list(found)))
    engine.run()
    return [bits(cell.state) for cell in engine.cells], lines


def saved(folder, config):
    cells = range(config.cells)
    return [bits(folder.cell(n).read(config.iterations, LAYOUTS)) for n in cells]


def without_seconds(line):
    return line.model_copy(update={"seconds": {}})


def test_cells_that_are_stopped_by_ctrl_c_and_continued_have_the_bits_of_one_process(tmp_path):
    folder, config = grid_folder(
        tmp_path / "run",
        iterations=40,
        population=2,
        replacements=2,
        schedule=[(5, "all"), (20, "ring")],
        losses=("bce", "heuristic"),
        learning_rate=0.005,
        rate_sigma=0.6,  # rates above 1 make a cell NaN, which then takes a neighbour's networks
        rate_probability=0.3,
    )
    with started(folder, (0.02, 0.0, 0.0, 0.0)) as process:
        wait_for(lambda: folder.newest_common() >= 4, process)
        one = json.loads(processes_file(folder.run).read_text())[3]
        os.kill(one, signal.SIGINT)  # all stop after the same iteration
        code, said = ended(process)
    assert code == 130, said
    stopped = folder.newest_common()
    assert [len(folder.cell(n).lines()) for n in range(4)] == [stopped] * 4
    assert 4 <= stopped < 40
    assert status(folder).state == "interrupted"
    later = replace(folder.cell(0).read(stopped, LAYOUTS), iteration=stopped + 1)
    folder.cell(0).save(later)  # as if the others had been killed before they saved
    with started(folder) as process:
        code, said = ended(process)
    assert code == 0, said
    expected, lines = undisturbed(tmp_path / "one", config)
    assert any(cell.taken_from is not None for line in lines for cell in line)
    assert saved(folder, config) == expected
    for number in range(4):
        own = [without_seconds(line) for line in folder.cell(number).lines()]
        assert own == [without_seconds(line[number]) for line in lines]
    found = status(folder)
    scores = [cell.score for cell in found.cells]
    assert found.best == found.cells[int(np.argmin(scores))].name
    assert {cell.state for cell in found.cells} == {"finished"}
    assert all(cell.iteration == 40 and cell.memory_bytes > 1e7 for cell in found.cells)
    assert found.nodes[0].cells == ("0-0", "0-1", "1-0", "1-1")
    assert f"evolving 40 {{'done': {stopped}}}" in said
    assert not re.search(rf"^iteration +{stopped}\b", said, re.MULTILINE)
    with started(folder) as process:  # with nothing left to do
        code, said = ended(process)
    assert (code, re.findall("^iteration .*", said, re.MULTILINE)) == (0, [])
    damaged = folder.cell(2).path / "state-000000040.npz"
    damaged.write_bytes(damaged.read_bytes()[:100])
    with started(folder) as process:  # all cells repeat its last iterations
        code, said = ended(process)
    assert (code, "evolving 40 {'done': 38}" in said) == (0, True), said
    assert saved(folder, config) == expected
    again = [(cell.fitness, cell.score) for cell in status(folder).cells]
    assert again == [(cell.fitness, cell.score) for cell in found.cells]


@pytest.mark.slow
def test_asynchronous_cells_use_the_newest_that_arrived_and_record_its_age(tmp_path):
    folder, config = grid_folder(tmp_path / "run", iterations=20, asynchronous=True, save_every=50)
    with started(folder, (0.1, 0.005, 0.005, 0.005), ranks=6) as process:  # one rank has no cell
        code, said = ended(process)
    assert code == 0, said
    records = [folder.cell(number).lines() for number in range(4)]
    assert [len(lines) for lines in records] == [config.iterations] * 4
    ages = [[line.ages for line in lines] for lines in records]
    assert set(ages[0][0]) == {1, 2}
    assert max(age[0] for age in ages[1]) > 5  # the slow cell is behind when the fast one ends
    assert min(age[1] for age in ages[0]) < -5  # and sees the fast one far ahead
    found = status(folder)
    assert found.nodes[0].ranks == 6
    assert [cell.rank for cell in found.cells] == [1, 2, 3, 4]


@pytest.mark.slow
def test_asynchronous_cells_killed_after_one_has_done_its_last_iteration_end_when_started_again(
    tmp_path,
):
    folder, config = grid_folder(tmp_path / "run", iterations=8, asynchronous=True)
    with started(folder, (0.0, 0.5, 0.5, 0.5)) as process:
        wait_for(lambda: folder.cell(0).points()[-1:] == [8], process)
        os.kill(json.loads(processes_file(folder.run).read_text())[2], signal.SIGKILL)
        ended(process)
    assert max(folder.cell(1).points(), default=0) < 8
    damaged = folder.cell(0).path / "state-000000008.npz"
    damaged.write_bytes(damaged.read_bytes()[:100])  # it alone goes on from its iteration 6
    with started(folder) as process:
        code, said = ended(process)
    assert code == 0, said
    for number in range(4):
        assert [line.iteration for line in folder.cell(number).lines()] == list(range(1, 9))
        assert folder.cell(number).points()[-1] == config.iterations


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 2])
def test_a_frozen_rank_counts_as_lost_and_the_world_ends_to_be_started_again(tmp_path, victim):
    folder, _ = grid_folder(tmp_path / "run", iterations=10_000, silence_seconds=3)
    with started(folder, (0.05,) * 4) as process:
        wait_for(
            lambda: (
                (found := status(folder))
                and all(cell.state == "processing" and cell.iteration for cell in found.cells)
            ),
            process,
        )
        os.kill(json.loads(processes_file(folder.run).read_text())[victim], signal.SIGSTOP)
        code, said = ended(process)
    assert code != 0, said
    found = failure(folder)
    assert found.exit_code == 75
    lost = "the master has sent nothing" if victim == 0 else "rank 2, cell 0-1, on "
    assert found.message.startswith(lost)
    if victim:
        assert status(folder).state == "failed"
        assert max(status(folder).cells, key=lambda cell: cell.silent_seconds).rank == victim


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_run_fails_when_all_cells_become_nan(tmp_path, asynchronous):
    folder, _ = grid_folder(
        tmp_path / "run",
        iterations=10_000,
        learning_rate=2.0,
        asynchronous=asynchronous,
        silence_seconds=4,  # also the interval of the signs by which the master sees it
    )
    with started(folder) as process:
        code, said = ended(process)
    assert code != 0, said
    assert failure(folder).exit_code == 1
    assert "the losses of all cells became NaN" in failure(folder).message
