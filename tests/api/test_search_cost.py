"""Cost of a search, and of a deployment that joined one, by the statuses of its blocks."""

import pytest

pytest.importorskip("optuna")

from cloudgan.api.search_cost import IDLE, REST, NodeTime, SearchCost, node_time
from cloudgan.schema.search_exchange import BlockStatus, Spell, TrialRun
from searches import write_search, write_time


def status(seconds, *spells, **more):
    given = {"deployment": "d", "worker": 0, "incarnation": "a", "beat": 9, "seconds": seconds}
    found = tuple(Spell(trial=trial, seconds=spent) for trial, spent in spells)
    return BlockStatus.model_validate(given | {"spells": found} | more)


def cost_of(time, states, usd=None, best=None):
    return SearchCost(
        run="d", search="s", time=time, states=states, best=best, usd=usd, price_row="lab/cpu"
    )


def test_time_goes_to_trials_by_their_state_to_idle_blocks_and_to_the_start_of_nodes():
    blocks = [status(100.0, (0, 40.0), (1, 30.0)), status(60.0, (2, 10.0))]
    states = {0: "complete", 1: "pruned", 2: "failed"}
    assert cost_of(node_time(blocks, 200.0), states).node_seconds == {
        "finished trials": 40.0,
        "pruned trials": 30.0,
        "failed trials": 10.0,
        "unfinished trials": 0.0,
        IDLE: 80.0,
        REST: 40.0,
    }


def test_a_block_that_was_killed_has_spent_its_time_until_its_last_beat():
    time = node_time([status(50.0, trial=4, trial_since=20.0)], 60.0)
    parts = cost_of(time, {4: "complete"}).node_seconds
    assert (parts["finished trials"], parts[IDLE], parts[REST]) == (30.0, 20.0, 10.0)
    assert cost_of(time, {}).node_seconds["unfinished trials"] == 30.0


def test_parts_add_up_to_the_bill_also_where_clocks_give_more():
    time = node_time([status(100.0, (0, 75.0))], 80.0)
    found = cost_of(time, {0: "complete"}, usd=4.0)
    assert sum(found.node_seconds.values()) == pytest.approx(80.0)
    assert sum(found.parts_usd.values()) == pytest.approx(4.0)
    assert found.parts_usd["finished trials"] == pytest.approx(3.0)
    assert cost_of(time, {0: "complete"}).parts_usd["finished trials"] is None


def test_the_price_of_a_finished_trial_of_the_best_one_and_what_pruning_saved_are_printed():
    time = NodeTime({0: 50.0, 1: 30.0, 2: 10.0}, 10.0, 0.0)
    states = {0: "complete", 1: "complete", 2: "pruned"}
    found = cost_of(time, states, usd=1.0, best=1)
    assert found.finished_trial_usd == pytest.approx(0.5), "of the whole 1 USD"
    assert found.best_trial_usd == pytest.approx(0.3)
    assert found.saved_by_pruning_usd == pytest.approx(0.3), "the mean of 40 s, less 10 s"
    assert found.view().line == "d: 1.00 USD, as lab/cpu"
    assert found.view().notes[:2] == (
        "0.50 USD per finished trial, the whole cost over 2",
        "best trial, 1: 0.30 USD",
    )
    unknown = cost_of(time, states, best=1)
    assert (unknown.finished_trial_usd, unknown.best_trial_usd) == (None, None)
    assert "unknown" in unknown.view().line
    assert cost_of(time, {0: "complete"}, usd=1.0).saved_by_pruning_usd is None


def test_a_search_on_this_machine_is_priced_by_its_time_with_idle_blocks(tmp_path, cloudgan_here):
    """Each block has half of the machine: 300 + 100 s of two folds are 200 s of the machine."""
    folder, study, _ = write_search(tmp_path / "s", 0.3, trials=2, folds=2, blocks=2)
    for fold, seconds in enumerate((300.0, 100.0)):
        write_time(folder.run(TrialRun(0, fold)), seconds)
    study.note_machine_seconds(360.0)
    offer = "gcp/g2-standard-4/us-central1/spot"
    said = cloudgan_here("cost", folder.path, f"--price-as={offer}", "--json").json()
    assert said["node_seconds"]["finished trials"] == pytest.approx(200.0)
    assert said["node_seconds"][IDLE] == pytest.approx(160.0)
    assert said["finished_trial_usd"] == pytest.approx(said["usd"])
    assert offer in said["price_row"]
    shown = cloudgan_here("cost", folder.path).stdout
    assert "unknown: its nodes have no price" in shown


def test_a_search_that_deployments_trained_names_what_has_the_price(tmp_path, cloudgan_here):
    write_search(tmp_path / "s", store=str(tmp_path / "store"))
    done = cloudgan_here("cost", tmp_path / "s", exits=2)
    assert "-- join s" in done.stderr
