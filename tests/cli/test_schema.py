"""Schemas that editors and other programs check our files with."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("file", ["run.yaml", "record.jsonl", "launch.json", "cost.json"])
def test_each_file_has_a_schema(run_cloudgan, file):
    schema = json.loads(run_cloudgan("schema", file).stdout)
    assert "properties" in schema or "oneOf" in schema


def test_the_schema_of_a_configuration_forbids_unknown_keys(run_cloudgan):
    schema = json.loads(run_cloudgan("schema", "run.yaml").stdout)
    assert schema["additionalProperties"] is False
    assert {"data", "model", "training", "checkpoint"} <= set(schema["properties"])


def test_a_file_without_a_schema_is_told_which_have_one(cloudgan_here):
    done = cloudgan_here("schema", "run.yml")
    assert done.returncode == 2
    assert "run.yaml" in done.stderr
