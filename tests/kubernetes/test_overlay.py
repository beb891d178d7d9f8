"""One tree of YAML over another, as kustomize lays them."""

from __future__ import annotations

import copy

import pytest

from cloudgan.kubernetes.overlay import base, merged


def test_mappings_are_merged_by_key_and_leaves_replaced():
    under = {"spec": {"a": 1, "b": {"c": 2}}}
    assert merged(under, {"spec": {"b": {"c": 3, "d": 4}}}) == {
        "spec": {"a": 1, "b": {"c": 3, "d": 4}}
    }


def test_named_things_are_merged_by_name_and_new_ones_come_last():
    under = {"containers": [{"name": "a", "x": 1}, {"name": "b"}]}
    over = {"containers": [{"name": "c"}, {"name": "a", "y": 2}]}
    assert merged(under, over)["containers"] == [
        {"name": "a", "x": 1, "y": 2},
        {"name": "b"},
        {"name": "c"},
    ]


@pytest.mark.parametrize(
    ("under", "over"), [([1, 2], [3]), ([{"name": "a"}], [{"key": "b"}]), ([{"name": "a"}], [])]
)
def test_a_list_of_things_without_names_is_replaced(under, over):
    assert merged(under, over) == over


def test_what_lies_under_and_over_stays_as_it_was():
    under, over = {"a": {"b": [{"name": "x"}]}}, {"a": {"b": [{"name": "x", "y": 1}]}}
    before = copy.deepcopy((under, over))
    merged(under, over)
    assert (under, over) == before


def test_a_manifest_is_read_anew_each_time():
    base("job")["spec"]["completions"] = 99
    assert base("job")["spec"]["completions"] == 1
