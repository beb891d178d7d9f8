"""The evolution of cells, with a game in NumPy."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloudgan.coevolution.files import GridFolder, keep_pictures, pictured
from cloudgan.coevolution.grid import Grid, check_grid
from cloudgan.coevolution.task import KINDS
from cloudgan.core.errors import CloudganError, ConfigError, DataError, TryAgain
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.storage.folder import FolderStore
from cloudgan.storage.store import StoreCredentialsError, StoreError, open_store
from coevolution.quadratic_game import LAYOUT, LAYOUTS, bits, cells_in


def config(**values):
    given = {"iterations": 6, "batches": 4, "score_samples": 40, "fitness_samples": 20}
    return CoevolutionConfig.model_validate(given | values)


@pytest.fixture(scope="module", autouse=True)
def _scratch(tmp_path_factory):
    tempfile.tempdir, before = str(tmp_path_factory.mktemp("grids")), tempfile.tempdir
    yield
    tempfile.tempdir = before


def grid_of(settings, path=None, show=lambda lines: None):
    return cells_in(path or Path(tempfile.mkdtemp()), settings, show=show)


def evolved(settings, path=None):
    """Runs a grid; returns its cells and all lines."""
    lines = []
    engine = grid_of(settings, path, lambda found: lines.append(tuple(found)))
    engine.run()
    return engine, lines


def all_bits(engine):
    return [bits(cell.state) for cell in engine.cells]


def test_all_cells_begin_with_networks_of_their_own():
    cells = grid_of(config(rows=3, columns=3, population=2, replacements=2)).cells
    states = [state.tobytes() for cell in cells for state in cell.state.population.states()]
    assert len(set(states)) == 9 * 4


def test_a_seed_repeats_a_run_and_another_one_changes_it():
    first, again, other = (all_bits(evolved(config(iterations=2, seed=n))[0]) for n in (1, 1, 2))
    assert first == again != other


def test_the_grid_learns_and_the_elite_never_gets_worse_against_the_target():
    engine, lines = evolved(config(iterations=25))
    scores = [min(line.score for line in each) for each in lines]
    assert scores[-1] < 0.1 < scores[0]
    assert all(cell.state.population.is_finite for cell in engine.cells)


def test_individuals_travel_through_the_grid():
    _, lines = evolved(config(rows=3, columns=3, iterations=4))
    home = {cell: Grid(3, 3).name(cell) for cell in range(9)}
    origins = {
        (cell, parent.partition("/")[0])
        for each in lines
        for cell, line in enumerate(each)
        for parent in line.selected
    }
    assert any(origin != home[cell] for cell, origin in origins)
    grid = Grid(3, 3)
    for cell, origin in origins:
        around = {home[other] for other in grid.neighbours(cell, "von_neumann")}
        assert origin in around | {home[cell]}


def test_without_neighbours_cells_do_not_influence_each_other():
    alone = config(neighbourhood="none", tournament=1)
    wide = config(neighbourhood="none", tournament=1, rows=2, columns=3)
    assert all_bits(evolved(alone)[0])[:2] == all_bits(evolved(wide)[0])[:2]


@pytest.mark.parametrize("population", [1, 2])
def test_a_run_that_was_saved_and_continued_has_the_bits_of_one_that_was_not(tmp_path, population):
    whole = config(
        rows=2,
        columns=3,
        iterations=5,
        schedule=((2, "moore"),),
        population=population,
        losses=("bce", "least_squares", "heuristic"),
    )
    expected, lines = evolved(whole)
    assert any(len(each[0].members) > 4 for each in lines[2:])
    evolved(whole.model_copy(update={"iterations": 3}), tmp_path)
    assert GridFolder(tmp_path, check_grid(whole)).newest_common() == 3
    assert all_bits(evolved(whole, tmp_path)[0]) == all_bits(expected)


def test_a_cell_whose_networks_became_nan_takes_those_of_its_best_neighbour():
    settings = config(iterations=2, mixture_sigma=0.0, rate_probability=0.0)
    engine = grid_of(settings)
    cell = engine.cells[0]
    ill = tuple(replace(one, rate=5.0) for one in cell.state.population.generators)
    cell.state = replace(cell.state, population=replace(cell.state.population, generators=ill))
    gathered = {n: engine.cells[n].state.population for n in cell.neighbours()}
    lines = []
    while not lines or not lines[-1].diverged:  # until the ill generator is selected
        cell.state = replace(cell.state, iteration=cell.state.iteration + 1)
        before = cell.state
        lines.append(cell.iterate(gathered))
        if not lines[-1].diverged:
            cell.state = before
    line = lines[-1]
    assert line.taken_from in cell.neighbours()
    taken = gathered[line.taken_from]
    assert (cell.state.population.generators[0].state == taken.generators[0].state).all()
    assert cell.state.population.is_finite
    assert math.isfinite(line.score)


def test_a_run_fails_if_all_cells_become_nan():
    with pytest.raises(CloudganError, match="smaller --learning-rate") as caught:
        evolved(config(learning_rate=2.0))
    assert caught.value.exit_code == 1


def test_each_batch_updates_the_generators_and_every_kth_the_discriminators():
    for population in (1, 2):
        settings = config(
            population=population, discriminator_every=3, iterations=1, batches=7, rate_sigma=0.0
        )
        engine, _ = evolved(settings)
        counts = {
            kind: {
                float(one.state[3])
                for cell in engine.cells
                for one in cell.state.population.of(kind)
            }
            for kind in KINDS
        }
        assert counts["generator"] <= {0.0, 7.0}
        assert counts["discriminator"] <= {0.0, 3.0}
        assert max(max(found) for found in counts.values()) == 7.0


def test_two_saved_states_are_kept_and_the_newest_common_one_is_found(tmp_path):
    settings = config(iterations=4)
    folder = GridFolder(tmp_path, check_grid(settings))

    def save(lines):
        for cell in engine.cells:
            if cell.number != 3 or cell.state.iteration < 4:
                folder.cell(cell.number).save(cell.state)

    engine = grid_of(settings, show=save)
    engine.run()
    assert folder.cell(0).saved() == [3, 4]
    assert folder.cell(3).saved() == [2, 3]
    assert folder.newest_common() == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"members"', b'"numbers"')),
        lambda path: np.savez(path, weights=np.zeros(3)),
    ],
    ids=["cut off", "no archive", "changed", "other archive"],
)
@pytest.mark.parametrize("place", ["run", "store"])
def test_a_damaged_state_is_set_aside_and_all_cells_continue_from_the_one_before(
    tmp_path, capsys, damage, place
):
    store = open_store(str(tmp_path / "store")) if place == "store" else None
    settings = config(iterations=4, save_every=1)
    cells_in(tmp_path / "run", settings, store=store).run()
    path = tmp_path / place / "cells/0-1/state-000000004.npz"
    damage(path)
    content, more = path.read_bytes(), settings.model_copy(update={"iterations": 6})
    cells = cells_in(tmp_path / "run", more, store=store)
    assert cells.start == 3
    cells.run()
    assert all_bits(cells) == all_bits(evolved(more)[0])
    assert path.with_name(f"{path.name}.damaged").read_bytes() == content
    assert not path.exists()
    said = capsys.readouterr().err
    assert said.startswith(f"{tmp_path}/run/cells/0-1/state-000000004.npz: ")
    assert "it is now state-000000004.npz.damaged, and the cells continue from a state" in said


def test_a_grid_of_which_no_iteration_is_whole_is_refused_and_keeps_its_files(tmp_path):
    settings = config(iterations=4, save_every=1)
    cells_in(tmp_path, settings).run()
    for path in tmp_path.glob("cells/0-0/state-*"):
        path.write_bytes(b"PK")
    for _ in range(2):
        with pytest.raises(DataError, match=r"no iteration is left .* Restore a copy of the file"):
            cells_in(tmp_path, settings)
    counts = Counter(path.name for path in tmp_path.glob("cells/*/state-*"))
    assert counts["state-000000003.npz"] == 4
    assert counts["state-000000004.npz"] == 3


def test_a_state_of_other_networks_is_refused(tmp_path):
    settings = config(iterations=1)
    files = GridFolder(tmp_path, check_grid(settings)).cell(0)
    files.save(evolved(settings)[0].cells[0].state)
    other = replace(LAYOUT, shapes=((5,), ()))
    with pytest.raises(ConfigError, match="4 values, and the networks of this run have 6"):
        files.read(1, dict.fromkeys(KINDS, other))


def test_lines_and_states_after_the_iteration_that_is_continued_are_deleted(tmp_path):
    settings = config(iterations=4)
    files = GridFolder(tmp_path, check_grid(settings)).cell(0)
    _, lines = evolved(settings)
    for each in lines:
        files.append(each[0])
    with files.record_file.open("a") as record:
        record.write('{"iteration": 5, "gener')  # the process died here
    state = evolved(settings)[0].cells[0].state
    for iteration in (3, 4):
        files.save(replace(state, iteration=iteration))
    files.rewind(3)
    assert files.saved() == [3]
    assert files.lines() == tuple(each[0] for each in lines[:3])


def grid_on(disk, store, settings):
    return GridFolder(disk, check_grid(settings), open_store(str(store)))


def test_a_cell_continues_on_another_disk_with_the_bits_and_the_record_of_the_first(tmp_path):
    settings = config(iterations=6)
    first, second = tmp_path / "first", tmp_path / "second"
    files = grid_on(first, tmp_path / "store", settings).cell(1)
    lines, states = [], {}

    def save(found):
        cell = engine.cells[1]
        files.append(found[1])
        lines.append(found[1])
        keep_pictures(files, cell, 6)
        if cell.state.iteration % 2 == 0:
            files.save(cell.state)
            states[cell.state.iteration] = cell.state

    engine = grid_of(settings, show=save)
    engine.run()
    assert files.points() == [4, 6]
    (second / "cells" / "0-1").mkdir(parents=True)
    (second / "cells" / "0-1" / "state-000000002.npz").write_text("of an earlier generation")
    there = grid_on(second, tmp_path / "store", settings).cell(1)
    assert there.points() == [4, 6]
    there.fetch(4)
    there.rewind(4)
    assert there.saved() == [4]
    assert there.lines() == tuple(lines[:4])
    assert pictured(there) == [1, 2, 5, 6]
    state = there.read(4, LAYOUTS)
    assert bits(state) == bits(states[4])
    there.save(state)
    assert there.points() == [4]  # that of iteration 6 was of the lost generation


def test_a_cell_waits_while_the_store_fails_and_its_training_goes_on(tmp_path, monkeypatch, capsys):
    settings = config(iterations=1)
    files = grid_on(tmp_path / "disk", tmp_path / "store", settings).cell(0)
    failures, put = [StoreError("no bucket"), StoreCredentialsError("no login")], FolderStore.put

    def fail(*given, **options):
        if failures:
            raise failures.pop()
        return put(*given, **options)

    monkeypatch.setattr("cloudgan.coevolution.files._PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(FolderStore, "put", fail)
    files.append(evolved(settings)[1][0][0])
    files.save(evolved(settings)[0].cells[0].state)
    assert files.points() == [1]
    assert "no login; retrying" in capsys.readouterr().err


def test_a_store_that_fails_for_long_starts_all_ranks_again(tmp_path, monkeypatch):
    monkeypatch.setattr("cloudgan.coevolution.files._PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("cloudgan.coevolution.files._PAUSE_SECONDS", 0.01)
    settings = config(iterations=1)
    files = grid_on(tmp_path / "disk", tmp_path / "store", settings).cell(0)
    state = evolved(settings)[0].cells[0].state

    def fail(*_, **__):
        raise StoreError("the bucket does not respond")

    monkeypatch.setattr(FolderStore, "put", fail)
    with pytest.raises(TryAgain, match="the bucket does not respond"):
        files.save(state)
    assert files.saved() == [1]
    assert files.points() == []
