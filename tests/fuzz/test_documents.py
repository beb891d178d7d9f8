"""Documents with changed keys, types and values, damaged bytes, and files that are no document."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import strategies as st

from fuzz.harness import Case
from fuzz.mutations import (
    SPECIAL_FILES,
    as_json,
    as_yaml,
    changed_table,
    changed_tree,
    damaged,
    special,
)
from fuzz.project import BILL, KUBECONFIG, RUN_YAML

ON_KUBERNETES = {"KUBECONFIG": "{here}/kubeconfig"}


def readers():
    """Commands that read each document, by its name in the project."""
    run = [
        ("cost", "runs/mine"),
        ("compare", "runs/mine"),
        ("offers", "--run=runs/mine"),
        ("generate", "runs/mine", "out.h5"),
        ("validate", "runs/mine"),
    ]
    config = [
        ("train", "--config=run.yaml"),
        ("plan", "--config=run.yaml"),
        ("plan", "--config=run.yaml", "--provider=gcp", "--accelerator=v100"),
        ("deploy", "--config=run.yaml", "--dry-run"),
    ]
    launched = [(verb, "mine") for verb in ("status", "logs", "cancel", "down", "adopt")]
    return {
        "run.yaml": config,
        "runs/mine/run.yaml": [*run, ("train", "--config=run.yaml", "--run=runs/mine"), ("train", "--config=run.yaml", "--run=runs/new", "--init-from=runs/mine")],
        "runs/mine/record.jsonl": run[:4],
        "runs/mine/launch.json": run[:2],
        "runs/mine/verdict.json": run[:2],
        "runs/mine/plan.json": [*launched, ("cost", "runs/mine"), ("status",)],
        "runs/mine/pods/state.json": launched,
        "kubeconfig": [("plan", "--config=run.yaml", "--provider=kubernetes", "--store=pvc:x")],
        "timings.csv": [("cost", "--fit=timings.csv", "--predict=64")],
        "own-prices.yaml": [("offers", "--price-file=own-prices.yaml"), ("plan", "--config=run.yaml", "--price-file=own-prices.yaml")],
        "gates.toml": [("validate", "--generated=showers.h5", "--reference=showers.h5", "--gate=gates.toml")],
        "bill.json": [("cost", "runs/mine", "--billing-export=bill.json")],
        "bill.csv": [("cost", "runs/mine", "--billing-export=bill.csv")],
        "prices/prices/gcp.csv": [("offers",), ("prices",), ("plan", "--config=run.yaml", "--provider=gcp", "--accelerator=v100"), ("cost", "runs/mine")],
        "aws-config": [("plan", "--config=run.yaml", "--provider=aws", "--accelerator=l4"), ("check", "--provider=aws")],
    }  # fmt: skip


READERS = readers()
ENVIRONMENT = {
    "kubeconfig": ON_KUBERNETES,
    "prices/prices/gcp.csv": {"CLOUDGAN_DATA": "{here}/prices"},
    "aws-config": {"AWS_CONFIG_FILE": "{here}/aws-config"},
}


def case_of(name, words_of, content, changes, *, json_too=False):
    return Case(
        (*words_of, *(("--json",) if json_too else ())),
        files={name: content},
        environment=ENVIRONMENT.get(name, {}),
        writes=("runs/*", "out.h5", "prices/*"),
        changes=f"{name}: {changes}",
    )


def cases_of(name, contents):
    """Cases of a strategy of (content, changes), for the commands that read the file."""
    return st.builds(
        lambda words_of, made, json_too: case_of(name, words_of, *made, json_too=json_too),
        st.sampled_from(READERS[name]),
        contents,
        st.booleans(),
    )


@pytest.mark.parametrize("name", READERS)
def test_damaged_bytes_are_refused_or_harmless(name, holds, project):
    valid = (project / name).read_bytes()
    holds(cases_of(name, damaged(valid).map(lambda content: (content, repr(content[:60])))), 8)


@pytest.mark.parametrize("name", READERS)
def test_special_files_are_refused(name, holds):
    kinds = st.sampled_from(sorted(SPECIAL_FILES)).map(
        lambda kind: (special(SPECIAL_FILES[kind]), kind)
    )
    holds(cases_of(name, kinds), len(SPECIAL_FILES))


TREES = {
    "run.yaml": (as_yaml, RUN_YAML),
    "kubeconfig": (as_yaml, KUBECONFIG),
    "bill.json": (lambda tree: as_json(tree) + b"\n", BILL),
}
FROM_PROJECT = (
    "runs/mine/run.yaml",
    "runs/mine/launch.json",
    "runs/mine/verdict.json",
    "runs/mine/plan.json",
    "runs/mine/pods/state.json",
)


@pytest.mark.parametrize("name", [*TREES, *FROM_PROJECT])
def test_changed_keys_and_values_are_refused_or_harmless(name, holds, project):
    if name in TREES:
        encode, tree = TREES[name]
    else:
        text = (project / name).read_text()
        encode, tree = (
            (as_yaml, yaml.safe_load(text))
            if name.endswith(".yaml")
            else (as_json, json.loads(text))
        )
    contents = changed_tree(tree).map(lambda made: (encode(made[0]), made[1]))
    holds(cases_of(name, contents), 20)


@st.composite
def changed_record(draw, lines):
    number = draw(st.integers(0, len(lines) - 1))
    tree, changes = draw(changed_tree(json.loads(lines[number])))
    kept = [line for at, line in enumerate(lines) if at != number or draw(st.booleans())]
    return b"\n".join(
        [*kept[:number], as_json(tree), *kept[number:]]
    ) + b"\n", f"line {number}: {changes}"


def test_a_changed_line_of_the_record_is_refused_or_harmless(holds, project):
    lines = (project / "runs/mine/record.jsonl").read_bytes().splitlines()
    holds(cases_of("runs/mine/record.jsonl", changed_record(lines)), 25)


@pytest.mark.parametrize("name", ["timings.csv", "bill.csv", "prices/prices/gcp.csv"])
def test_changed_cells_are_refused_or_harmless(name, holds, project):
    contents = changed_table((project / name).read_bytes()).map(
        lambda content: (content, repr(content[-80:]))
    )
    holds(cases_of(name, contents), 15)
