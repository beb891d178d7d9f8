"""Parents and seconds in the records of cells, and the page of a grid, from a run of a game in NumPy."""

from __future__ import annotations

import re

import pytest

from cloudgan.cli.table_text import PIPE_WIDTH, table_lines
from cloudgan.coevolution import evolve as evolve_module
from cloudgan.coevolution.ensemble import compare
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid
from cloudgan.coevolution.page import evolution_page
from cloudgan.coevolution.record import ancestry, routine_times
from cloudgan.coevolution.run_result import comparison_table, read_evolution
from cloudgan.coevolution.samples import read_result
from cloudgan.core.documents import write_json
from cloudgan.core.errors import ConfigError
from cloudgan.reports.page import page_markdown, render
from cloudgan.schema.coevolution import CoevolutionConfig
from coevolution import quadratic_game
from coevolution.quadratic_game import QuadraticGame, QuadraticPair, cells_in


def line(iteration, parents, **changes):
    return quadratic_game.line(iteration, selected=parents, **changes)


def test_the_parents_are_followed_from_cell_to_cell_to_the_initial_weights():
    records = {
        "0-0": [line(1, ("0-1/0/g0", "0-0/0/d0")), line(2, ("0-1/1/g0", "0-0/1/d0"))],
        "0-1": [line(1, ("0-0/0/g0", "0-1/0/d0"), losses=("heuristic",), rates=(0.5, 0.1))],
    }
    found = ancestry("0-0/2/g0", records)
    assert [one.name for one in found] == ["0-0/2/g0", "0-1/1/g0"]
    assert found[1] == ("0-1/1/g0", "0-1", 1, "heuristic", 0.5, "0-0/0/g0")


def test_each_of_several_generators_has_its_own_parent_loss_and_rate():
    parents = ("0-0/0/g0", "0-0/0/g1", "0-0/0/d0", "0-0/0/d1")
    rates = (0.1, 0.2, 0.3, 0.4)
    record = [line(1, parents, losses=("bce", "least_squares"), rates=rates)]
    (found,) = ancestry("0-0/1/g1", {"0-0": record})
    assert (found.parent, found.loss, found.rate) == ("0-0/0/g1", "least_squares", 0.2)


def test_a_name_of_another_record_ends_the_ancestry():
    for name in ("", "0-0/0/g0", "9-9/1/g0", "0-0/1/g7", "0-0/x/g0"):
        assert ancestry(name, {"0-0": [line(1, ("0-0/0/g0", "0-0/0/d0"))]}) == ()


def test_seconds_are_summed_by_cell_and_routine_and_idle_cells_are_named():
    parents = ("0-0/0/g0", "0-0/0/d0")
    busy = {"gather": 0.1, "train": 3.0, "update_genomes": 0.8, "mutate": 0.1}
    first = busy | {"train": 9.0}
    idle = {"gather": 0.1, "train": 3.0, "update_genomes": 0.7, "mutate": 0.2, "wait": 4.0}
    times = routine_times(
        {
            "0-0": [line(1, parents, seconds=first), line(2, parents, seconds=busy)],
            "0-1": [line(1, parents, seconds=idle), line(2, parents, seconds=idle)],
            "1-0": [],
        }
    )
    assert times["cells"]["0-0"]["train"] == 12.0
    assert times["mean"]["train"] == 9.0
    assert times["mean"]["overall"] == pytest.approx((0.2 + 12 + 1.6 + 0.2 + 8 + 8) / 2)
    assert times["per_iteration"]["train"] == 3.0
    assert times["waiting"] == {"0-1": 0.5}


class Pictured(QuadraticGame):
    def pictures(self, samples):
        return samples[:36].reshape(1, 6, 6)


def run_grid(path, **values):
    asked = {"task": "ring", "iterations": 6, "batches": 4, "score_samples": 40}
    config = CoevolutionConfig.model_validate(asked | values)
    folder, task = GridFolder(path, check_grid(config)), Pictured()
    folder.write_config(config)
    engine = cells_in(path, config, task=task)
    engine.run()
    states = [cell.state for cell in engine.cells]
    quality = compare(config, states, task=task, pair=QuadraticPair(), ensemble="greedy")
    write_json(folder.quality_file, quality)
    return read_evolution(path)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run_grid(tmp_path_factory.mktemp("grid"), rows=2, columns=2)


@pytest.fixture(scope="module")
def html(found):
    return render(evolution_page(found))


def figure(html, title):
    """The drawing of a figure for wide screens."""
    found = re.findall(rf'<svg [^>]*aria-label="{title}">.*?</svg>', html, re.DOTALL)
    assert len(found) == 2
    return found[0]


def test_the_samples_of_each_cell_are_shown_over_the_iterations(html):
    drawn = figure(html, "Samples of each cell's mixture")
    assert len(re.findall(r'<image [^>]*href="data:image/png;base64,', drawn)) == 4 * 4
    said = re.findall(r"<text[^>]*>([^<]+)</text>", drawn)
    assert said == [*"1256", "iteration", "cell 0-0", "cell 0-1", "cell 1-0", "cell 1-1"]
    assert not re.search(r'(src|href)="(?!data:|#)', html), "the page loads nothing"


def test_the_mixture_is_compared_with_the_best_single_generator_uniform_weights_and_the_ensemble(
    found,
):
    table = comparison_table(found)
    names = [row[0] for row in table.rows]
    assert names[0] == "mixture, evolved weights"
    assert names[1].startswith("best single generator (cell ")
    assert names[2] == "uniform mixture"
    assert names[3].startswith("greedy ensemble (")
    assert table.columns == ("samples of", "score", "mean")
    assert table.rows[0][1] == found.quality.mixture.score


def test_the_cells_fit_a_screen_and_the_parts_of_their_score_are_its_basis(found):
    """Those of showers: named as of `Shower.score`, which has five."""
    parts = dict.fromkeys(("response", "profile_z", "hits", "angle", "separation"), 0.001234)
    line = found.lines[0][-1].model_copy(update={"details": parts})
    view = found.model_copy(update={"lines": ((line,),) * 4}).view()
    assert max(row.cell_len for row in table_lines(view.table, PIPE_WIDTH)) <= 80
    assert {"profile z", "hits"} <= {*view.basis[0].columns} - {*view.table.columns}
    assert view.notes[1].startswith("-v shows the parts of a score: response, profile z")


def test_score_and_details_have_a_chart_with_a_line_per_cell(html):
    for name in ("score of the mixture", "mean"):
        drawn = figure(html, f"{name} of each cell")
        assert all(f"cell {cell}" in drawn for cell in ("0-0", "0-1", "1-0", "1-1"))


def test_the_page_has_cells_ancestry_and_seconds_by_routine(found):
    text = page_markdown(evolution_page(found))
    winner = found.grid.name(found.best_cell)
    assert f"the best generator of cell {winner}" in text
    assert re.search(r"It descends from \d-\d/0/g0\.", text)
    for routine in ("gather", "train", "update genomes", "mutate", "all"):
        assert f"| {routine} " in text
    assert "No cell waits: all cells share one process" in text


def test_the_grid_is_drawn_with_the_best_mixture_and_its_neighbours(found, html):
    drawn = figure(html, "Cells of the grid, coloured by the score of their mixture")
    said = re.findall(r"<text[^>]*>([^<]+)</text>", drawn)
    names = [f"{row}-{column}" for row in (0, 1) for column in (0, 1)]
    best = found.grid.name(found.best_cell)
    assert [name for name in said if name in {*names, f"★ {best}"}] == [
        f"★ {name}" if name == best else name for name in names
    ]
    assert drawn.count("stroke-dasharray: ") == len(
        found.grid.neighbours(found.best_cell, found.config.neighbourhood)
    )


def test_the_share_of_a_routine_and_that_of_all_but_training_are_of_one_basis(found):
    page = evolution_page(found)
    (seconds,) = [one for one in page.sections if one.title == "Seconds by routine"]
    shares = {row[0]: float(row[-1].rstrip("%")) for row in seconds.blocks[0].rows}
    said = re.search(r"(\d+)% of an iteration is not training", render(page))
    assert 100 - shares["train"] == pytest.approx(float(said[1]), abs=0.6)
    assert shares.pop("all") == pytest.approx(sum(shares.values()), abs=0.3)


def test_ranks_that_wait_for_others_are_named(found):
    waits = found.lines[1][0].model_copy(update={"seconds": {"wait": 9.0, "train": 1.0}})
    works = found.lines[0][0].model_copy(update={"seconds": {"gather": 0.1, "train": 9.9}})
    lines = tuple((waits if number == 1 else works,) for number in range(4))
    ranks = found.model_copy(
        update={
            "config": found.config.model_copy(update={"engine": "ranks"}),
            "lines": lines,
        }
    )
    text = page_markdown(evolution_page(ranks))
    named = (
        "Idle ranks, by the share of their time in which they wait for the others: cell 0-1 90%."
    )
    assert named in text


def test_an_asynchronous_grid_shows_the_age_of_what_its_cells_used(found):
    aged = [line.model_copy(update={"ages": {1: 3, 2: 0}}) for line in found.lines[0]]
    config = found.config.model_copy(update={"engine": "ranks", "asynchronous": True})
    late = found.model_copy(update={"config": config, "lines": (tuple(aged), *found.lines[1:])})
    (cells,) = [one for one in evolution_page(late).sections if one.title == "Cells"]
    table = cells.blocks[0]
    column = table.columns.index("age")
    assert [row[column] for row in table.rows] == [1.5, None, None, None]


def test_a_grid_of_many_cells_is_summed_up(tmp_path):
    found = run_grid(tmp_path, rows=5, columns=4, iterations=2)
    html = render(evolution_page(found))
    assert "highest cell" in html
    assert "the 16 cells with the best score" in html
    assert html.count("<image ") == 2 * 16 * 2, "each figure is drawn for two widths"


def test_the_page_of_a_long_run_is_bounded(found):
    record = [
        line.model_copy(update={"iteration": number + 1, "score": float(number % 7)})
        for number, line in enumerate(found.lines[0][:1] * 3000)
    ]
    config = found.config.model_copy(update={"iterations": 3000})
    long = found.model_copy(update={"config": config, "lines": (tuple(record),) * 4})
    assert len(render(evolution_page(long))) < 2.5 * len(render(evolution_page(found)))


@pytest.fixture
def game(monkeypatch):
    """`evolve` with a game in NumPy in place of its tasks, which need TensorFlow."""
    monkeypatch.setattr(evolve_module, "require_tensorflow", lambda: None)
    monkeypatch.setattr(evolve_module, "make_task", lambda *_args, **_more: Pictured())


def evolve_again(path, **options):
    asked = {"task": "ring", "iterations": 3, "batches": 4, "score_samples": 40}
    return evolve_module.evolve(run=path, **asked, **options)


def test_a_finished_run_chooses_an_ensemble_and_trains_nothing(tmp_path, game):
    path = tmp_path / "grid"
    first = evolve_again(path)
    assert (path / "evolution.html").exists()
    assert first.quality.ensemble is None
    second = evolve_again(path, ensemble="genetic", size=2)
    assert second.lines == first.lines
    assert len(second.quality.ensemble.cells) == 2
    assert second.quality.mixture == first.quality.mixture
    result = read_result(path / "mixture.npz")
    assert result.choose("ensemble").members == second.quality.ensemble.cells
    assert "genetic ensemble" in (path / "evolution.html").read_text()
    assert evolve_again(path).quality == second.quality, "the ensemble is kept"


def test_a_size_without_an_ensemble_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="--size is an option of --ensemble"):
        evolve_again(tmp_path / "grid", size=3)
