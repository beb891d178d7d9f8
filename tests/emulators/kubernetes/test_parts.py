"""Unit tests of parts that need no cluster."""

from __future__ import annotations

from fractions import Fraction

import pytest

from emulators.kubernetes.images import Image, find
from emulators.kubernetes.job_pods import listed, numbers
from emulators.kubernetes.ownership import fields
from emulators.kubernetes.patches import json_patch, merge, strategic
from emulators.kubernetes.quantities import of_pod, parse, shown
from emulators.kubernetes.selection import matches_label_selector, matches_labels
from emulators.kubernetes.status_errors import Refusal
from emulators.kubernetes.volumes import replacer


@pytest.mark.parametrize(
    ("text", "amount"),
    [("500m", Fraction(1, 2)), ("2Gi", 2 * 1024**3), ("1e3", 1000), ("4", 4), ("1.5k", 1500)],
)
def test_quantities(text, amount):
    assert parse(text) == amount


@pytest.mark.parametrize("text", ["", "4 Gi", "1Zi", "two"])
def test_what_is_no_quantity(text):
    with pytest.raises(ValueError, match="no quantity"):
        parse(text)


def test_amounts_are_shown_in_whole_or_in_thousandths():
    assert (shown(Fraction(3)), shown(Fraction(1, 4))) == ("3", "250m")


def test_a_pod_takes_the_sum_of_its_containers_or_its_largest_init_container():
    def container(**limits):
        return {"resources": {"limits": limits}}

    spec = {
        "containers": [container(cpu="1", memory="1Gi"), container(cpu="500m")],
        "initContainers": [container(cpu="1"), container(memory="2Gi")],
    }
    assert of_pod({"spec": spec}) == {"cpu": Fraction(3, 2), "memory": 2 * 1024**3}


@pytest.mark.parametrize("text", ["", "0", "0,1", "0-2", "0,2-4,6,7"])
def test_indexes_are_read_as_they_are_listed(text):
    assert listed(numbers(text)) == text


def test_a_merge_patch_removes_what_is_null():
    assert merge({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": [2]}) == {
        "a": {"c": 2},
        "d": [2],
    }


def test_a_strategic_patch_merges_lists_by_their_key():
    old = {"containers": [{"name": "a", "args": ["1"]}, {"name": "b"}], "finalizers": ["x"]}
    patch = {
        "containers": [
            {"name": "b", "$patch": "delete"},
            {"name": "a", "image": "i"},
            {"name": "c"},
        ],
        "finalizers": ["y"],
    }
    assert strategic(old, patch) == {
        "containers": [{"name": "a", "args": ["1"], "image": "i"}, {"name": "c"}],
        "finalizers": ["x", "y"],
    }


def test_a_json_patch_is_all_or_nothing():
    old = {"a": [1, 2]}
    added = [
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "copy", "from": "/a/0", "path": "/b"},
    ]
    assert json_patch(old, added) == {"a": [1, 2, 3], "b": 1}
    assert json_patch(old, [{"op": "replace", "path": "/a/0", "value": 9}]) == {"a": [9, 2]}
    for wrong in (
        {"op": "remove", "path": "/z"},
        {"op": "replace", "path": "/z", "value": 1},
        {"op": "test", "path": "/a/0", "value": 2},
        {"op": "add", "path": "/c/d", "value": 2},
    ):
        with pytest.raises(Refusal):
            json_patch(old, [*added, wrong])
    assert old == {"a": [1, 2]}


def test_fields_are_owned_by_the_key_of_their_list():
    body = {"spec": {"containers": [{"name": "t", "image": "i"}]}, "metadata": {"name": "n"}}
    assert sorted(fields(body)) == [
        ("f:spec", "f:containers", 'k:{"name": "t"}', "f:image"),
        ("f:spec", "f:containers", 'k:{"name": "t"}', "f:name"),
    ]


def test_label_selectors():
    labels = {"run": "gan", "rank": "0"}
    for selector, fits in (
        ("run=gan,rank in (0,1)", True),
        ("run==gan,rank notin (0)", False),
        ("!other", True),
        ("run!=gan", False),
    ):
        assert matches_labels(selector, labels) == fits
    with pytest.raises(Refusal):
        matches_labels("run in gan", labels)
    expression = {"key": "rank", "operator": "In", "values": ["0"]}
    assert matches_label_selector({"matchExpressions": [expression]}, labels)
    assert not matches_label_selector({"matchLabels": {"run": "x"}}, labels)


def test_mount_paths_are_replaced_where_paths_begin(tmp_path):
    container = {
        "volumeMounts": [
            {"name": "a", "mountPath": "/data"},
            {"name": "b", "mountPath": "/data/deep", "subPath": "sub"},
        ]
    }
    replaced = replacer(container, {"a": tmp_path / "A", "b": tmp_path / "B"})
    text = "--x=/data/f:/data/deep/g /data2 /data.d s3://b/data '/data'"
    assert replaced(text) == (
        f"--x={tmp_path}/A/f:{tmp_path}/B/sub/g /data2 /data.d s3://b/data '{tmp_path}/A'"
    )


def test_images_are_found_by_digest_and_without_registry():
    images = {"tf:2": Image(entrypoint=("a",))}
    for name in ("tf:2", "tf:2@sha256:0", "docker.io/tf:2"):
        assert find(images, name) == images["tf:2"]
    assert find(images, "tf:3") is None
    assert find(images | {"*": Image()}, "tf:3") == Image()
