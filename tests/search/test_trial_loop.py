"""The loop of a search on this machine, with real processes and records; what they run needs no TensorFlow."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from optuna.pruners import MedianPruner, SuccessiveHalvingPruner
from optuna.trial import TrialState

from cloudgan.core.errors import CloudganError, ConfigError, Interrupted
from cloudgan.core.hardware import this_machine
from cloudgan.core.progress import Silent
from cloudgan.schema.config import parse_config
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.search import Dimension, SearchConfig, TrialRun, with_folds
from cloudgan.search.blocks import LOG, Block
from cloudgan.search.folder import SearchFolder
from cloudgan.search.study import open_study
from cloudgan.search.trial_loop import train_here
from waiting import until

PROGRAM = (sys.executable, str(Path(__file__).with_name("trainer_program.py")))
SPACE = {"model.learning_rate": Dimension(low=1e-5, high=1e-1, log=True)}


def config_of(**asked):
    base = parse_config({"model": {"preset": "smoke"}, "training": {"seed": 3}}, "test")
    if "folds" in asked:
        base = with_folds(base, asked["folds"])
    return SearchConfig.model_validate(
        {"base": base, "space": SPACE, "sampler": "random", "trials": 4} | asked
    )


class Lines(Silent):
    """Keeps what is said."""

    def __init__(self):
        self.lines = []

    def say(self, line):
        self.lines.append(line)


def new_study(path, **asked):
    folder, config = SearchFolder(path), config_of(**asked)
    folder.write_config(config)
    return folder, config, open_study(folder, config)


def limited(path, *, blocks=1, behaviour="", progress=None, limits=None, **asked):
    folder, config, _ = new_study(path, blocks=blocks, **asked)
    devices = [Block(index, {"BEHAVIOUR": behaviour}, PROGRAM) for index in range(blocks)]
    return train_here(folder, config, progress or Silent(), blocks=devices, **(limits or {}))


def searched(path, **asked):
    study, _ = limited(path, **asked)
    return study


def points(study):
    return [trial.params["model.learning_rate"] for trial in study.trials()]


def test_the_objective_is_the_median_of_the_last_three_validations_and_blocks_share_threads(
    tmp_path,
):
    study = searched(tmp_path / "s", trials=2, blocks=2)
    threads = max(1, this_machine().cores // 2)
    for trial in study.trials():
        folder = RunFolder(SearchFolder(tmp_path / "s").run(TrialRun(trial.number)))
        assert folder.read_config().training.threads == threads
        rate = trial.params["model.learning_rate"]
        assert trial.value == pytest.approx(math.log10(rate / 1e-3) ** 2 + 1 / 9)
    assert study.best().value == min(trial.value for trial in study.trials())


def test_a_process_that_was_killed_costs_its_block_nothing_but_a_restart(tmp_path):
    study = searched(tmp_path / "s", trials=1, behaviour="dies once")
    (trial,) = study.trials()
    assert trial.state == TrialState.COMPLETE
    assert "began at epoch 5" in (SearchFolder(tmp_path / "s").run(TrialRun(0)) / LOG).read_text()


def test_starts_of_a_trial_are_counted_from_its_newest_checkpoint(tmp_path):
    """Preempted nodes may cut a long trial often; without progress it fails after three starts."""
    _, _, study = new_study(tmp_path / "s", trials=1)
    counted = []
    for count, step in enumerate((0, 0, 8, 8, 8, 12)):
        run = study.claim_run(f"block/{count}", lambda *_: True, lambda _, step=step: step)
        counted.append(study.attempts(run))
    assert counted == [1, 2, 1, 2, 3, 1]


@pytest.mark.slow
def test_five_trials_that_fail_in_a_row_end_the_search(tmp_path):
    with pytest.raises(CloudganError, match=r"last 5 trials failed.*the showers are damaged"):
        searched(tmp_path / "s", trials=9, behaviour="fails")
    study = open_study(SearchFolder(tmp_path / "s"), config_of(trials=9))
    assert [trial.state for trial in study.trials()] == [TrialState.FAIL] * 5


@pytest.mark.slow
def test_trials_worse_than_the_median_are_pruned_and_keep_their_run(tmp_path):
    study = searched(tmp_path / "s", trials=10, prune="median", behaviour="waits", blocks=2)
    pruned = [trial for trial in study.trials() if trial.state == TrialState.PRUNED]
    assert pruned
    assert all(len(trial.intermediate_values) < 10 for trial in pruned)


def test_a_killed_search_continues_with_the_points_of_an_undisturbed_search(tmp_path):
    undisturbed = points(searched(tmp_path / "one", sampler="gp", trials=6))
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from search.test_trial_loop import *;"
        "searched(Path(sys.argv[2]), sampler='gp', trials=6, behaviour='waits')"
    )
    here = str(Path(__file__).parents[1])
    process = subprocess.Popen([sys.executable, "-c", program, here, str(tmp_path / "two")])
    until((SearchFolder(tmp_path / "two").run(TrialRun(2)) / "epoch").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # The orphan of this program does not watch its standard input, as `train` does.
    study = searched(tmp_path / "two", sampler="gp", trials=6, progress=(said := Lines()))
    assert "trial 0002: waits for process" in said.lines[0]
    assert points(study) == undisturbed
    assert [trial.state for trial in study.trials()] == [TrialState.COMPLETE] * 6


@pytest.mark.parametrize("prune", ["median", "halving"])
@pytest.mark.parametrize(
    "killed", ["before it decides", "while it decides", "before the trial ends"]
)
def test_a_search_that_is_killed_when_a_trial_is_pruned_prunes_it_when_it_continues(
    tmp_path, monkeypatch, prune, killed
):
    folder, config, study = new_study(tmp_path / "s", prune=prune, trials=9)
    for number in range(6):
        study.ask()
        assert [study.report(number, epoch, 2.0 - epoch) for epoch in (0, 1)] == [False] * 2
        study.complete(number, [1.0])
    study.ask()
    assert not study.report(6, 0, 2.0)
    if killed == "before the trial ends":
        assert study.report(6, 1, 9.0)
        for number in (7, 8):  # are worse still, and end before the next process looks
            study.ask()
            study.report(number, 1, 99.0)
            study.complete(number, [99.0])
    else:
        kind = {"median": MedianPruner, "halving": SuccessiveHalvingPruner}[prune]
        decide = kind.prune

        def die(pruner, *arguments):
            if killed == "while it decides":
                decide(pruner, *arguments)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(kind, "prune", die)
            with pytest.raises(KeyboardInterrupt):
                study.report(6, 1, 9.0)
    study = open_study(folder, config)
    assert not study.report(6, 0, 2.0) or killed == "before the trial ends"
    assert study.report(6, 1, 9.0)


@pytest.mark.parametrize("sampler", ["nsgaii", "random"])
def test_two_objectives_have_a_front_and_a_price_of_the_share_of_the_machine(tmp_path, sampler):
    price = {"second": "usd", "usd_per_hour": 7.2}
    study = searched(tmp_path / "s", sampler=sampler, trials=3, blocks=2, **price)
    # The records give one second to each trial, on half of a machine of 7.2 USD per hour.
    assert [trial.values[1] for trial in study.trials()] == [pytest.approx(0.001)] * 3
    best = min(study.trials(), key=lambda trial: trial.values[0])
    assert [trial.number for trial in study.front()] == [best.number]
    assert study.best().number == best.number


def test_another_space_in_the_folder_of_a_search_is_refused(tmp_path):
    folder = SearchFolder(tmp_path / "s")
    folder.write_config(config_of())
    folder.run(TrialRun(0)).mkdir(parents=True)
    wider = {"model.learning_rate": Dimension(low=1e-6, high=1e-1, log=True)}
    with pytest.raises(ConfigError, match=r"the space of model.learning_rate changed"):
        folder.write_config(config_of(space=wider))
    folder.write_config(config_of(trials=8, blocks=2))


def test_a_trial_with_folds_is_the_mean_of_ordinary_runs_that_hold_out_other_showers(tmp_path):
    study = searched(tmp_path / "s", trials=2, folds=3, blocks=2)
    folder = SearchFolder(tmp_path / "s")
    for trial in study.trials():
        rate = trial.params["model.learning_rate"]
        of_fold_0 = math.log10(rate / 1e-3) ** 2 + 1 / 9
        values = [value for (value,) in study.run_objectives(trial.number).values()]
        assert values == pytest.approx([of_fold_0, of_fold_0 + 1, of_fold_0 + 2])
        assert trial.value == pytest.approx(of_fold_0 + 1)
        for fold in range(3):
            config = RunFolder(folder.path / f"trials/000{trial.number}/folds/{fold}").read_config()
            assert (config.data.fold, config.data.held_out_fraction) == (fold, 1 / 3)
            assert config.model.learning_rate == rate


def test_a_fold_that_fails_ends_its_trial_and_the_training_of_its_other_folds(tmp_path):
    study = searched(tmp_path / "s", trials=1, folds=3, blocks=2, behaviour="fold 1 fails")
    (trial,) = study.trials()
    assert trial.state == TrialState.FAIL
    assert trial.user_attrs["reason"] == "fold 1: the showers are damaged"
    folder = SearchFolder(tmp_path / "s")
    assert not study.run_objectives(0), "fold 0 was stopped"
    assert not folder.run(TrialRun(0, 2)).exists(), "fold 2 was not started"


def test_a_search_that_continues_trains_no_fold_again_that_has_a_number(tmp_path):
    _, _, study = new_study(tmp_path / "s", trials=2, folds=2)
    study.ask(), study.ask()
    for run in (TrialRun(0, 0), TrialRun(0, 1), TrialRun(1, 0)):
        study.note_objectives(run, [float(run.fold)])
    missing = [study.missing_runs(trial) for trial in study.unfinished()]
    assert missing == [[], [TrialRun(1, 1)]]
    study = searched(tmp_path / "s", trials=2, folds=2)
    assert study.trials()[0].value == 0.5, "ended by the next process, without any training"
    folder = SearchFolder(tmp_path / "s")
    began = list((folder.path / "trials").glob("*/folds/*"))
    assert began == [folder.run(TrialRun(1, 1))]


@pytest.mark.slow
def test_trials_whose_first_folds_are_worse_than_the_median_train_no_further_fold(tmp_path):
    study = searched(tmp_path / "s", trials=10, folds=3, prune="median")
    pruned = [trial for trial in study.trials() if trial.state == TrialState.PRUNED]
    assert pruned
    for trial in pruned:
        assert len(study.run_objectives(trial.number)) < 3
        assert trial.intermediate_values


@pytest.mark.parametrize(
    "limits",
    [{"max_hours": 1e-4}, pytest.param({"budget_usd": 1e-4}, marks=pytest.mark.slow)],
)
def test_a_limit_saves_the_running_trials_and_ends_the_search_with_the_best_so_far(
    tmp_path, limits
):
    """The trial stays until it is stopped; a tenth of a second costs more than the budget."""
    asked = {"trials": 40, "second": "usd", "usd_per_hour": 7.2}
    study, ended_by = limited(tmp_path / "s", limits=limits, behaviour="stays", **asked)
    (limit,) = limits
    assert ended_by == f"--{limit.replace('_', '-')}=0.0001"
    assert 0 < len(study.trials()) < 40
    assert study.machine_seconds > 0
    started = SearchFolder(tmp_path / "s").run(TrialRun(len(study.trials()) - 1))
    saved = started / "epoch"
    before = int(saved.read_text()) if saved.exists() else 0
    assert before < 10, "the last trial was stopped"
    again = searched(tmp_path / "s", **(asked | {"trials": len(study.trials())}))
    assert again.trials()[-1].state == TrialState.COMPLETE
    assert f"began at epoch {before}" in (started / LOG).read_text()


def test_each_block_saves_before_a_search_ends_however_long_the_others_take(tmp_path):
    """A second signal would end a training without a checkpoint."""
    trials = [SearchFolder(tmp_path / "s").run(TrialRun(number)) for number in range(2)]

    def interrupt():
        until(lambda: all((trial / "trains").exists() for trial in trials))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(Interrupted):
        limited(tmp_path / "s", blocks=2, trials=2, behaviour="saves slowly")
    assert [(trial / "epoch").read_text() for trial in trials] == ["1", "1"]
