"""Schemas that editors and other programs check our files with."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    "file",
    ["run.yaml", "record.jsonl", "launch.json", "cost.json", "heartbeat.json", "quality.json"],
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
