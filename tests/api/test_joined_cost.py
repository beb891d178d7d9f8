"""Cost of a deployment that joined a search, by the statuses of its blocks."""

from __future__ import annotations

import pytest

from cloudgan.api.joined_cost import IDLE, REST, JoinedCost, node_parts
from cloudgan.schema.search_exchange import BlockStatus, Spell


def status(seconds, *spells, **more):
    given = {"deployment": "d", "worker": 0, "incarnation": "a", "beat": 9, "seconds": seconds}
    found = tuple(Spell(trial=trial, seconds=spent) for trial, spent in spells)
    return BlockStatus.model_validate(given | {"spells": found} | more)


def test_time_goes_to_trials_by_their_state_to_idle_blocks_and_to_the_start_of_nodes():
    blocks = [status(100.0, (0, 40.0), (1, 30.0)), status(60.0, (2, 10.0))]
    states = {0: "complete", 1: "pruned", 2: "failed"}
    assert node_parts(blocks, states, 200.0) == {
        "finished trials": 40.0,
        "pruned trials": 30.0,
        "failed trials": 10.0,
        "unfinished trials": 0.0,
        IDLE: 80.0,
        REST: 40.0,
    }


def test_a_block_that_was_killed_has_spent_its_time_until_its_last_beat():
    killed = status(50.0, trial=4, trial_since=20.0)
    parts = node_parts([killed], {4: "complete"}, 60.0)
    assert (parts["finished trials"], parts[IDLE], parts[REST]) == (30.0, 20.0, 10.0)
    assert node_parts([killed], {}, 60.0)["unfinished trials"] == 30.0


def test_parts_add_up_to_the_bill_also_where_clocks_give_more():
    parts = node_parts([status(100.0, (0, 75.0))], {0: "complete"}, 80.0)
    assert sum(parts.values()) == pytest.approx(80.0)
    cost = JoinedCost("d", "s", parts, 4.0, "lab/cpu")
    assert sum(cost.parts_usd.values()) == pytest.approx(4.0)
    assert cost.parts_usd["finished trials"] == pytest.approx(3.0)
    assert JoinedCost("d", "s", parts, None, None).parts_usd["finished trials"] is None
