"""`cloudgan search`: refusals before any process starts."""

import json

import pytest

from cloudgan.api.search import _check_reaches_validation
from cloudgan.core.errors import ConfigError
from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.schema.config import RunConfig
from cloudgan.schema.search import Dimension, SearchConfig, TrialRun
from cloudgan.simulation.gflash import simulate

pytest.importorskip("optuna")

from searches import write_search, write_time


@pytest.fixture
def space(user_folder):
    path = user_folder / "space.yaml"
    path.write_text("model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n")
    return path


@pytest.mark.parametrize(
    ("space_text", "said"),
    [
        ("model.learnin_rate: {low: 1.0, high: 2.0}", "Did you mean 'model.learning_rate'"),
        ("model.learning_rate: {low: 2.0, high: 1.0}", "exchange them"),
        ("model.learning_rate: {low: 0, high: 1, log: true}", "log needs a low above 0"),
        ("model.learning_rate: {low: 1.0}", "give low and high, or choices"),
        ("model.learning_rate: {choices: [1, 2], low: 0.0}", "choices, or low and high"),
        ("model.learning_rate: {choices: [1, 1]}", "a choice is repeated"),
        ("model.learning_rate: {low: 0.5, high: 4, integer: true}", "without fraction"),
        ("model.learning_rate: {low: 0.5, high: 4, steps: 3}", "Extra inputs"),
        ("model.dropout: {low: 0.1, high: 1.5}", "model.dropout = 1.5"),
        ("model.generator_width: {low: 0.01, high: 2.0}", "generator_width = 0.01"),
        ("model.generator_depth: {low: 1, high: 20}", "generator_depth = 20"),
        ("model.generator_depth: {low: 1.0, high: 3.0, integer: false}", "= 1.764"),
        ("model.generater_width: {low: 1.0, high: 2.0}", "Did you mean 'model.generator_width'"),
        ("[1, 2]", "space.yaml"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(space, refused, space_text, said):
    space.write_text(space_text)
    assert said in refused("search", space, "--preset=smoke", "--data=x.h5")


def test_the_trials_of_a_search_are_shown_and_other_settings_refused(space, cloudgan_here):
    folder, *_ = write_search(space.parent / "found", 0.4, 0.2, "no memory", trials=3)
    said = cloudgan_here("search", folder.path, "--show", "--json").json()
    assert said["best"] == 1
    assert [trial["state"] for trial in said["trials"]] == ["complete", "complete", "failed"]
    assert said["trials"][2]["reason"] == "no memory"
    table = cloudgan_here("search", folder.path, "--show").stdout
    assert "learning rate" in table
    assert "0001" in table
    done = cloudgan_here("search", folder.path, "--sampler=tpe", "--preset=mini", exits=2)
    assert "model.preset, sampler cannot be given" in done.stderr


def test_a_search_with_trials_left_names_how_many_and_the_command_that_continues_it(
    space, cloudgan_here
):
    folder, study, _ = write_search(space.parent / "found", 0.4, 0.2, trials=4)
    study.ask()  # began, and its search was stopped
    said = cloudgan_here("search", folder.path, "--show").stdout
    assert "3 of 4 trials (2 complete, 1 unfinished); best: trial 1" in said
    assert ["cloudgan", "search", str(folder.path)] in [
        row.split()[:3] for row in said.splitlines()
    ]
    assert "continues it" in said
    assert "--trials=" not in said


def test_a_whole_grid_names_no_command_that_would_ask_more(space, cloudgan_here):
    width = {"model.generator_width": {"choices": [0.5, 1.0, 2.0]}}
    found = [
        cloudgan_here("search", folder.path, "--show").stdout
        for folder, *_ in (
            write_search(space.parent / "whole", 0.4, 0.2, 0.3, space=width, sampler="grid"),
            write_search(space.parent / "random", 0.4, 0.2, trials=2, sampler="random"),
        )
    ]
    assert ["--trials=" in said for said in found] == [False, True]
    assert "--trials=27" in found[1].split()


def test_fewer_trials_than_a_search_has_begun_are_refused(space, cloudgan_here):
    folder, *_ = write_search(space.parent / "found", 0.4, 0.2, "no memory", trials=3)
    before = folder.config_file.read_bytes()
    done = cloudgan_here("search", folder.path, "--trials=2", exits=2)
    assert "--trials=2: " in done.stderr
    assert "has begun 3; give --trials=3 or more" in done.stderr
    assert folder.config_file.read_bytes() == before


def test_a_search_of_many_trials_fits_a_screen_with_the_best_marked(space, monkeypatch, capsys):
    from cloudgan.api.search import read_search
    from cloudgan.cli import emit

    write_search(
        space.parent / "found", *(0.1 + abs(number - 20) for number in range(25)), trials=25
    )
    found = read_search("found")
    monkeypatch.setattr(emit, "width_of", lambda _: 80)
    emit.emit(found, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "✓ found: 25 trials (25 complete); best: trial 20, metric 0.1"
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[3].split()[:3] == ["20", "✓", "best"]
    assert "the best 12 of 25; -v shows all" in "\n".join(lines)
    assert "cloudgan train --config=found/trials/0020/run.yaml" in "\n".join(lines)


@pytest.fixture
def cut(space):
    """A search of two finished trials, whose journal ends with half a line."""
    folder, study, config = write_search(space.parent / "cut", 0.4, 0.2, trials=3)
    asked = study.ask().params
    folder.journal_file.write_bytes(folder.journal_file.read_bytes()[:-40])
    return folder, config, asked


@pytest.mark.parametrize("command", ["search cut --show", "cost cut"])
def test_what_reads_a_search_leaves_its_journal_as_it_is(cut, cloudgan_here, command):
    folder = cut[0]
    before = {path: path.read_bytes() for path in folder.path.rglob("*")}
    cloudgan_here(*command.split())
    assert {path: path.read_bytes() for path in folder.path.rglob("*")} == before
    folder.journal_file.unlink()
    cloudgan_here(*command.split())
    assert not folder.journal_file.exists()


def test_half_a_last_line_of_the_journal_is_cut_off_and_its_trial_asked_again(cut, cloudgan_here):
    from cloudgan.search.study import open_study

    folder, config, asked = cut
    study = open_study(folder, config)
    assert [trial.values for trial in study.trials()] == [[0.4], [0.2], None]
    assert study.claim_run("again", lambda *_: True, lambda _: 0).trial == 2
    assert study.trials()[2].params == asked
    study.complete(2, [0.1])
    said = cloudgan_here("search", "cut", "--show", "--json").json()
    assert [trial["value"] for trial in said["trials"]] == [0.4, 0.2, 0.1]
    lines = folder.journal_file.read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)
    open_study(folder, config)
    assert folder.journal_file.read_bytes().splitlines() == lines, "a study is created once"


def test_the_lock_of_a_killed_write_to_the_journal_blocks_for_seconds_only(cut):
    from cloudgan.search.study import open_study

    folder, config, _ = cut
    study = open_study(folder, config)
    lock = folder.journal_lock
    lock.symlink_to(folder.journal_file.name)
    study.complete(2, [0.1])
    assert study.trials()[2].values == [0.1]
    assert not lock.is_symlink()


def test_a_search_with_too_few_showers_to_validate_names_only_what_helps(space, cloudgan_here):
    write_hdf5(space.parent / "x.h5", simulate(600, seed=1, cells=(9, 9)))
    done = cloudgan_here("search", space, "--data=x.h5", "--preset=smoke", exits=2)
    assert "a search needs at least 200 held-out showers, and 60 of 600 are held out: give" in (
        done.stderr
    )
    assert done.stderr.endswith("give --held-out=0.34 or more, or at least 2000 showers\n")
    assert not (space.parent / "runs").exists()


@pytest.mark.parametrize(("fold", "needed"), [(None, 2), (0, 1), (9, 2)])
def test_the_first_validation_of_a_trial_is_after_the_showers_of_its_own_fold(fold, needed):
    """Fold 0 of 2,001 showers trains on 1,800 of them, one less than the last fold and the usual split."""
    base = RunConfig.model_validate(
        {
            "data": {"fold": fold},
            "training": {
                "max_steps": 1,
                "global_batch_size": 1800,
                "replicas": 1,
                "validate_every": 1,
            },
        }
    )
    space = {"model.learning_rate": Dimension(low=1e-5, high=1e-1, log=True)}
    search = SearchConfig(base=base, space=space)
    if needed == 1:
        _check_reaches_validation(search, 2001)
        return
    with pytest.raises(ConfigError, match=f"give --max-steps={needed} or more"):
        _check_reaches_validation(search, 2001)


def test_trials_that_end_before_their_first_validation_are_refused(space, cloudgan_here):
    write_hdf5(space.parent / "x.h5", simulate(2000, seed=1, cells=(9, 9)))
    flags = ("--data=x.h5", "--preset=smoke", "--batch=32")
    done = cloudgan_here("search", space, *flags, "--max-steps=56", exits=2)
    assert "--max-steps=56 ends every trial before its first validation" in done.stderr
    assert "give --max-steps=57 or more" in done.stderr, "1,800 of 2,000 showers are trained on"
    assert not (space.parent / "runs").exists()


def test_the_front_of_two_objectives_is_in_the_table_the_json_and_the_page(space, cloudgan_here):
    asked = {"sampler": "nsgaii", "second": "usd", "usd_per_hour": 2.0, "trials": 4}
    results = ((0.4, 1.0), (0.2, 3.0), (0.3, 2.5), (0.3, 4.0))
    folder, *_ = write_search(space.parent / "found", *results, **asked)
    said = cloudgan_here("search", folder.path, "--show", "--json").json()
    assert (said["best"], said["second"], said["front"]) == (1, "usd", [0, 2, 1])
    assert [trial["second"] for trial in said["trials"]] == [1.0, 3.0, 2.5, 4.0]
    report = space.parent / "report.html"
    shown = cloudgan_here("search", folder.path, "--show", f"--report={report}").stdout
    assert "no other trial is better in metric and in usd" in " ".join(shown.split())
    page = report.read_text()
    assert page.index("Pareto front") < page.index("Trials by number")
    assert "price of the trial (USD)" in page
    assert "other trials" in page


def test_the_page_marks_the_best_trial_and_draws_history_importance_and_coordinates(
    space, cloudgan_here
):
    import optuna

    values = [abs(number - 6) + 0.5 for number in range(9)]
    folder, study, _ = write_search(space.parent / "rates", *values, trials=9)
    (name,) = optuna.get_all_study_names(study._storage)
    shown = optuna.load_study(study_name=name, storage=study._storage)
    assert (name, shown.metric_names) == ("rates", ["metric"])
    report = space.parent / "report.html"
    said = cloudgan_here("search", folder.path, "--show", f"--report={report}")
    page = report.read_text()
    assert "<title>Search rates</title>" in page
    assert "✓ best" in said.stdout
    for title in ("History", "Importance of the keys", "Parallel coordinates"):
        assert f"<h2>{title}</h2>" in page
    # The history and the coordinates, each drawn for wide and for narrow screens, and the data of one.
    assert page.count("best: trial 6") == 5
    assert "PED-ANOVA" in page
    assert "Warning" not in said.stderr


@pytest.mark.parametrize("command", ["search space.yaml", "crossvalidate"])
def test_folds_with_too_few_showers_to_validate_are_refused(space, cloudgan_here, command):
    write_hdf5(space.parent / "x.h5", simulate(900, seed=1, cells=(9, 9)))
    flags = ("--data=x.h5", "--preset=smoke", "--folds=5")
    done = cloudgan_here(*command.split(), *flags, exits=2)
    assert "--folds=5 holds out 180 of 900 showers" in done.stderr
    assert "give at most --folds=4, or at least 1000 showers" in done.stderr
    assert not (space.parent / "runs").exists()


def test_the_folds_of_a_trial_are_shown_with_mean_and_spread(space, cloudgan_here):
    folder, study, config = write_search(space.parent / "found", trials=4, folds=2)
    runs = config.runs_of(study.ask().number)
    for run, value in zip(runs, (0.4, 0.6), strict=True):
        study.note_objectives(run, [value])
        write_time(folder.run(run), 100.0)
    study.complete(0, [0.5])
    study.note_objectives(config.runs_of(study.ask().number)[1], [0.2])
    first, second = cloudgan_here("search", folder.path, "--show", "--json").json()["trials"]
    assert (first["value"], first["seconds"]) == (0.5, 200.0)
    assert first["deviation"] == pytest.approx(0.2 / 2**0.5)
    assert [fold["value"] for fold in first["folds"]] == [0.4, 0.6]
    assert first["folds"][1]["run"].endswith("found/trials/0000/folds/1")
    assert [fold["value"] for fold in second["folds"]] == [None, 0.2]
    assert second["deviation"] is None, "a fold without a number is not left out"
    shown = " ".join(cloudgan_here("search", folder.path, "--show").stdout.split())
    assert "the mean over the folds" in shown
    said = cloudgan_here("search", folder.path, "--describe", "--json").json()
    assert said["hours"] == pytest.approx([600 / 3600] * 2), "three trials of two folds of 100 s"


def test_a_new_search_is_forecast_from_a_run_with_the_price_of_the_machine(space, cloudgan_here):
    write_time(space.parent / "one", 360.0)
    price = "--price-as=gcp/g2-standard-4/us-central1/spot"
    flags = ("--data=x.h5", "--trials=25", "--like=one", "--describe")
    said = cloudgan_here("search", space, *flags, price, "--json").json()
    assert (said["trials"], said["finished"], said["hours"]) == (25, 0, [2.5, 2.5])
    assert said["usd"] == pytest.approx([2.5 * said["usd_per_hour"]] * 2)
    shown = cloudgan_here("search", space, *flags, "--sampler=grid").stdout
    assert "--price-as=OFFER gives the price" in " ".join(shown.split())
    assert "unknown" in shown
    assert sorted(path.name for path in space.parent.iterdir()) == ["one", "space.yaml"]


def test_what_is_left_of_a_search_is_forecast_from_its_own_trials(space, cloudgan_here):
    folder, study, _ = write_search(space.parent / "found", trials=8)
    done = cloudgan_here("search", folder.path, "--describe", exits=2)
    assert "give --like=RUN" in done.stderr
    for number, seconds in enumerate((100.0, 140.0)):
        study.complete(study.ask().number, [0.3])
        write_time(folder.run(TrialRun(number)), seconds)
    said = cloudgan_here("search", folder.path, "--describe", "--json").json()
    assert (said["finished"], said["trial_seconds"]) == (2, 120.0)
    assert said["hours"] == pytest.approx([0.2, 0.2])
    assert said["usd"] is None


def test_more_blocks_than_were_measured_widen_a_forecast(space, cloudgan_here, monkeypatch):
    from cloudgan.search import forecast

    monkeypatch.setattr(forecast, "blocks_of_machine", lambda count: [])
    write_time(space.parent / "one", 360.0)
    flags = ("--data=x.h5", "--trials=25", "--blocks=4", "--like=one", "--describe", "--json")
    said = cloudgan_here("search", space, *flags).json()
    assert said["hours"] == pytest.approx([0.7, 2.8])  # seven rounds of four trials
