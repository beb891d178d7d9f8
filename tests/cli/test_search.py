"""`cloudgan search`: refusals before any process starts."""

from __future__ import annotations

import json

import pytest

from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.simulation.gflash import simulate

pytest.importorskip("optuna")


@pytest.fixture
def space(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "space.yaml"
    path.write_text("model.learning_rate: {low: 1.0e-4, high: 1.0e-2, log: true}\n")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model.learnin_rate: {low: 1.0, high: 2.0}", "Did you mean 'model.learning_rate'"),
        ("model.learning_rate: {low: 2.0, high: 1.0}", "exchange them"),
        ("model.learning_rate: {low: 0, high: 1, log: true}", "log needs a low above 0"),
        ("[1, 2]", "space.yaml"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(space, cloudgan_here, text, said):
    space.write_text(text)
    done = cloudgan_here("search", space, "--preset=smoke", "--data=x.h5", exits=2)
    assert said in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_more_blocks_than_cores_are_refused(space, cloudgan_here):
    done = cloudgan_here("search", space, "--data=x.h5", "--blocks=4096", exits=2)
    assert "this machine has" in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_a_folder_that_holds_no_search_is_refused(space, cloudgan_here):
    done = cloudgan_here("search", space.parent, exits=2)
    assert "without search.json" in done.stderr
    done = cloudgan_here("search", space.parent, "--show", exits=2)
    assert "is not the folder of a run" in done.stderr


def test_the_trials_of_a_search_are_shown_and_other_settings_refused(space, cloudgan_here):
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    config = SearchConfig(base=base, space=read_space(space), sampler="random", trials=3)
    folder = SearchFolder(space.parent / "found")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    for value in (0.4, 0.2):
        study.complete(study.ask().number, [value])
    study.fail(study.ask().number, "no memory")
    said = json.loads(cloudgan_here("search", folder.path, "--show", "--json").stdout)
    assert said["best"] == 1
    assert [trial["state"] for trial in said["trials"]] == ["complete", "complete", "failed"]
    assert said["trials"][2]["reason"] == "no memory"
    table = cloudgan_here("search", folder.path, "--show").stdout
    assert "learning rate" in table
    assert "0001" in table
    done = cloudgan_here("search", folder.path, "--sampler=tpe", "--preset=mini", exits=2)
    assert "model.preset, sampler cannot be given" in done.stderr


def test_a_search_of_many_trials_fits_a_screen_with_the_best_marked(space, monkeypatch, capsys):
    from cloudgan.api.search_result import read_search
    from cloudgan.cli import emit
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    config = SearchConfig(base=base, space=read_space(space), sampler="random", trials=25)
    folder = SearchFolder(space.parent / "found")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    for number in range(25):
        study.complete(study.ask().number, [0.1 + abs(number - 20)])
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
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    config = SearchConfig(base=base, space=read_space(space), sampler="random", trials=3)
    folder = SearchFolder(space.parent / "cut")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    for value in (0.4, 0.2):
        study.complete(study.ask().number, [value])
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
    from cloudgan.search.study import SearchStudy

    folder, config, asked = cut
    study = SearchStudy(folder, config)
    assert [trial.values for trial in study.trials()] == [[0.4], [0.2], None]
    assert study.trials()[2].params == asked
    study.complete(2, [0.1])
    said = json.loads(cloudgan_here("search", "cut", "--show", "--json").stdout)
    assert [trial["value"] for trial in said["trials"]] == [0.4, 0.2, 0.1]
    lines = folder.journal_file.read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)
    SearchStudy(folder, config)
    assert folder.journal_file.read_bytes().splitlines() == lines, "a study is created once"


def test_the_lock_of_a_killed_write_to_the_journal_blocks_for_seconds_only(cut):
    from cloudgan.search.study import SearchStudy

    folder, config, _ = cut
    study = SearchStudy(folder, config)
    lock = folder.journal_lock
    lock.symlink_to(folder.journal_file.name)
    study.complete(2, [0.1])
    assert study.trials()[2].values == [0.1]
    assert not lock.is_symlink()


@pytest.mark.parametrize("command", ["search space.yaml", "crossvalidate"])
def test_an_unknown_objective_is_refused(space, cloudgan_here, command):
    done = cloudgan_here(*command.split(), "--data=x.h5", "--objective=mertic", exits=2)
    assert "none of metric, response" in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_more_folds_than_a_study_can_hold_are_refused(space, cloudgan_here):
    assert "--folds" in cloudgan_here("crossvalidate", "--data=x.h5", "--folds=101", exits=2).stderr
    assert list(space.parent.iterdir()) == [space]


@pytest.mark.parametrize("command", ["search space.yaml", "crossvalidate"])
@pytest.mark.parametrize("data", ["x.h5", "--data=x.h5"])
def test_missing_showers_are_refused_and_leave_no_folder(space, cloudgan_here, command, data):
    done = cloudgan_here(*command.split(), data, exits=2)
    assert "x.h5 does not exist" in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_trials_that_end_before_their_first_validation_are_refused(space, cloudgan_here):
    write_hdf5(space.parent / "x.h5", simulate(2000, seed=1, cells=(9, 9)))
    flags = ("--data=x.h5", "--preset=smoke", "--batch=32")
    done = cloudgan_here("search", space, *flags, "--max-steps=56", exits=2)
    assert "--max-steps=56 ends every trial before its first validation" in done.stderr
    assert "give --max-steps=57 or more" in done.stderr, "1,800 of 2,000 showers are trained on"
    assert not (space.parent / "runs").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--second=usd"], "has one; give --sampler=nsgaii or --sampler=random"),
        (["--second=usd", "--sampler=random"], "needs the price of this machine"),
        (["--second=seconds", "--sampler=random", "--prune=median"], "compares one objective"),
        (["--second=usd", "--sampler=random", "--price-as=gcp/n1"], "unknown offer"),
        (["--price-file=prices.yaml"], "needs --price-as"),
    ],
)
def test_a_second_objective_that_cannot_be_had_is_refused(space, cloudgan_here, flags, said):
    done = cloudgan_here("search", space, "--data=x.h5", *flags, exits=2)
    assert said in done.stderr
    assert list(space.parent.iterdir()) == [space]


def test_the_front_of_two_objectives_is_in_the_table_the_json_and_the_page(space, cloudgan_here):
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    asked = {"sampler": "nsgaii", "second": "usd", "usd_per_hour": 2.0, "trials": 4}
    config = SearchConfig(base=base, space=read_space(space), **asked)
    folder = SearchFolder(space.parent / "found")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    for values in ((0.4, 1.0), (0.2, 3.0), (0.3, 2.5), (0.3, 4.0)):
        study.complete(study.ask().number, values)
    said = json.loads(cloudgan_here("search", folder.path, "--show", "--json").stdout)
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

    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    config = SearchConfig(base=base, space=read_space(space), sampler="random", trials=9)
    folder = SearchFolder(space.parent / "rates")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    for number in range(9):
        study.complete(study.ask().number, [abs(number - 6) + 0.5])
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


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--folds=101"], "--folds=101: expected at most 100"),
        (["--max-hours=0"], "--max-hours=0 must be above zero"),
        (["--budget-usd=5"], "--budget-usd=5 needs the price of this machine"),
        (["--max-hours=2", "--store=there"], "--max-hours=2 is of this machine"),
        (["--max-hours=2", "--describe"], "--describe starts none"),
    ],
)
def test_folds_and_limits_that_cannot_be_had_are_refused(space, cloudgan_here, flags, said):
    done = cloudgan_here("search", space, "--data=x.h5", *flags, exits=2)
    assert said in done.stderr
    assert list(space.parent.iterdir()) == [space]


@pytest.mark.parametrize("command", ["search space.yaml", "crossvalidate"])
def test_folds_with_too_few_showers_to_validate_are_refused(space, cloudgan_here, command):
    write_hdf5(space.parent / "x.h5", simulate(900, seed=1, cells=(9, 9)))
    flags = ("--data=x.h5", "--preset=smoke", "--folds=5")
    done = cloudgan_here(*command.split(), *flags, exits=2)
    assert "--folds=5 holds out 180 of 900 showers" in done.stderr
    assert "give at most --folds=4, or at least 1000 showers" in done.stderr
    assert not (space.parent / "runs").exists()


def test_a_loss_ranks_no_trials_that_differ_in_its_weights(space, cloudgan_here):
    space.write_text("model.loss_weights.shape: {low: 1.0, high: 9.0}\n")
    done = cloudgan_here("search", space, "--data=x.h5", "--objective=generator_loss", exits=2)
    assert "compares no trials with different model.loss_weights.shape" in done.stderr


def test_the_folds_of_a_trial_are_shown_with_mean_and_spread(space, cloudgan_here):
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space, with_folds
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = with_folds(parse_config({"model": {"preset": "smoke"}}, "test"), 2)
    asked = {"sampler": "random", "trials": 4, "folds": 2}
    config = SearchConfig(base=base, space=read_space(space), **asked)
    folder = SearchFolder(space.parent / "found")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    runs = config.runs_of(study.ask().number)
    for run, value in zip(runs, (0.4, 0.6), strict=True):
        study.note_objectives(run, [value])
        a_run_of(100.0, folder.run(run))
    study.complete(0, [0.5])
    study.note_objectives(config.runs_of(study.ask().number)[1], [0.2])
    first, second = json.loads(cloudgan_here("search", folder.path, "--show", "--json").stdout)[
        "trials"
    ]
    assert (first["value"], first["seconds"]) == (0.5, 200.0)
    assert first["deviation"] == pytest.approx(0.2 / 2**0.5)
    assert [fold["value"] for fold in first["folds"]] == [0.4, 0.6]
    assert first["folds"][1]["run"].endswith("found/trials/0000/folds/1")
    assert [fold["value"] for fold in second["folds"]] == [None, 0.2]
    assert second["deviation"] is None, "a fold without a number is not left out"
    shown = " ".join(cloudgan_here("search", folder.path, "--show").stdout.split())
    assert "the mean over the folds" in shown
    said = json.loads(cloudgan_here("search", folder.path, "--describe", "--json").stdout)
    assert said["hours"] == pytest.approx([600 / 3600] * 2), "three trials of two folds of 100 s"


def a_run_of(seconds, path):
    from cloudgan.schema import record

    path.mkdir(parents=True)
    line = record.Stopped(
        time="2026-11-22T00:00:00Z",
        step=9,
        reason="finished",
        program_seconds=seconds,
        train_seconds=seconds,
    )
    record.append(path / record.FILE_NAME, line)


def test_a_new_search_is_forecast_from_a_run_with_the_price_of_the_machine(space, cloudgan_here):
    a_run_of(360.0, space.parent / "one")
    price = "--price-as=gcp/g2-standard-4/us-central1/spot"
    flags = ("--data=x.h5", "--trials=25", "--like=one", "--describe")
    said = json.loads(cloudgan_here("search", space, *flags, price, "--json").stdout)
    assert (said["trials"], said["finished"], said["hours"]) == (25, 0, [2.5, 2.5])
    assert said["usd"] == pytest.approx([2.5 * said["usd_per_hour"]] * 2)
    shown = cloudgan_here("search", space, *flags, "--sampler=grid").stdout
    assert "--price-as=OFFER gives the price" in " ".join(shown.split())
    assert "unknown" in shown
    assert sorted(path.name for path in space.parent.iterdir()) == ["one", "space.yaml"]


def test_what_is_left_of_a_search_is_forecast_from_its_own_trials(space, cloudgan_here):
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import SearchConfig, read_space
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    config = SearchConfig(base=base, space=read_space(space), sampler="random", trials=8)
    folder = SearchFolder(space.parent / "found")
    folder.write_config(config)
    study = SearchStudy(folder, config)
    done = cloudgan_here("search", folder.path, "--describe", exits=2)
    assert "give --like=RUN" in done.stderr
    for number, seconds in enumerate((100.0, 140.0)):
        study.complete(study.ask().number, [0.3])
        a_run_of(seconds, folder.trial(number))
    said = json.loads(cloudgan_here("search", folder.path, "--describe", "--json").stdout)
    assert (said["finished"], said["trial_seconds"]) == (2, 120.0)
    assert said["hours"] == pytest.approx([0.2, 0.2])
    assert said["usd"] is None


def test_more_blocks_than_were_measured_widen_a_forecast(space, cloudgan_here, monkeypatch):
    from cloudgan.search import blocks

    monkeypatch.setattr(blocks.LocalBlocks, "of_machine", lambda count: [])
    a_run_of(360.0, space.parent / "one")
    flags = ("--data=x.h5", "--trials=25", "--blocks=4", "--like=one", "--describe", "--json")
    said = json.loads(cloudgan_here("search", space, *flags).stdout)
    assert said["hours"] == pytest.approx([0.7, 2.8])  # seven rounds of four trials


def test_a_run_for_a_forecast_that_is_not_asked_for_is_refused(space, cloudgan_here):
    done = cloudgan_here("search", space, "--data=x.h5", "--like=one", exits=2)
    assert "only valid with --describe" in done.stderr
