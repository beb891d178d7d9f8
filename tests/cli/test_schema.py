"""Schemas that editors and other programs check our files with."""

from __future__ import annotations

import json

import jsonschema
import pytest


@pytest.mark.parametrize(
    "file",
    [
        *("job.yaml", "run.yaml", "record.jsonl", "launch.json", "cost.json", "heartbeat.json"),
        "quality.json",
    ],
)
def test_each_document_has_a_schema(cloudgan_here, file):
    schema = json.loads(cloudgan_here("schema", file).stdout)
    assert "properties" in schema or "oneOf" in schema


def test_the_schema_of_a_configuration_forbids_unknown_keys(cloudgan_here):
    schema = json.loads(cloudgan_here("schema", "run.yaml").stdout)
    assert schema["additionalProperties"] is False
    assert {"data", "model", "training", "checkpoint"} <= set(schema["properties"])


def test_an_unknown_document_gets_the_list_of_documents(cloudgan_here):
    done = cloudgan_here("schema", "run.yml", exits=2)
    assert "run.yaml" in done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("simulate", ["out.h5", "--showers=10"]),
        ("status", []),
        ("init", ["job"]),
        ("image", ["--kind=cpu"]),
        ("search", ["found", "--show"]),
        ("crossvalidate", ["--show=folds"]),
        (
            "bench parallel",
            ["--step-seconds=0.05", "--service-seconds=0.01", "--message-seconds=0.01"],
        ),
    ],
)
def test_what_a_command_prints_as_json_fits_its_schema(
    cloudgan_here, tmp_path, monkeypatch, name, words
):
    monkeypatch.chdir(tmp_path)
    if name in {"search", "crossvalidate"}:
        a_search_in(tmp_path)
    schema = json.loads(cloudgan_here("schema", *name.split()).stdout)
    printed = json.loads(cloudgan_here(*name.split(), *words, "--json").stdout)
    jsonschema.validate(printed, schema)
    assert printed["schema_version"] == 1


def a_search_in(folder):
    pytest.importorskip("optuna")
    from cloudgan.schema.config import parse_config
    from cloudgan.schema.search import FOLD, Dimension, SearchConfig
    from cloudgan.search.folder import SearchFolder
    from cloudgan.search.study import SearchStudy

    base = parse_config({"model": {"preset": "smoke"}}, "test")
    rate = {"model.learning_rate": Dimension(low=1e-4, high=1e-2)}
    for name, space in (("found", rate), ("folds", {FOLD: Dimension(choices=(0, 1))})):
        config = SearchConfig(base=base, space=space, sampler="grid" if name == "folds" else "tpe")
        found = SearchFolder(folder / name)
        found.write_config(config)
        study = SearchStudy(found, config)
        for value in (0.3, 0.4):
            study.complete(study.ask().number, [value])


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["statsu"], "'status'"), (["bench", "stepp"], "'bench step'"), (["completion"], "document")],
)
def test_a_command_without_a_schema_is_refused_with_the_nearest_name(cloudgan_here, words, hint):
    assert hint in cloudgan_here("schema", *words, exits=2).stderr
