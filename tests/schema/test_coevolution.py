"""Where the cells of a grid continue, from the names of their saved states."""

from cloudgan.schema.coevolution import (
    common_iteration,
    newest_point,
    saved_in_store,
    saved_iterations,
    state_name,
)


def test_states_are_recognised_by_their_names_only():
    assert state_name(5) == "state-000000005.npz"
    names = ["state-000000010.npz", "state-000000005.npz", "state-5.npz", "record.jsonl"]
    assert saved_iterations(names) == [5, 10]


def test_cells_in_step_continue_from_the_newest_iteration_that_all_have():
    saved = [[5, 10], [10, 15], [10, 15]]
    assert common_iteration(saved) == 10
    assert common_iteration([[5, 10], [15]]) == 0
    assert newest_point(saved, asynchronous=False) == 10
    assert newest_point([[5, 40], [15, 20]], asynchronous=True) == 20


def test_a_cell_without_a_state_in_the_store_has_none():
    names = [
        "cells/0-0/record.jsonl",
        "cells/0-0/state-000000005.npz",
        "cells/0-1/state-000000005.npz",
        "cells/1-0/record.jsonl",
    ]
    assert sorted(saved_in_store(names, 4)) == [[], [], [5], [5]]
    assert common_iteration(saved_in_store(names, 4)) == 0
    assert common_iteration(saved_in_store(names, 2)) == 5
