"""Which form the layers take: a flag, then what a checkpoint says or was the fastest, then what is here."""

from __future__ import annotations

import pytest

from cloudgan.core.config import parse_config
from cloudgan.models.formulation import choose_formulation


def chosen(found=None, *, device="CPU", precision="float32", kernels="auto", preset="paper"):
    training = {"precision": precision, "kernels": kernels}
    config = parse_config({"model": {"preset": preset}, "training": training}, "a test")
    return choose_formulation(config, device, found)


@pytest.fixture(params=[True, False], ids=["with llvmlite", "without"])
def compiles(request, monkeypatch):
    monkeypatch.setattr("cloudgan.models.formulation.find_spec", lambda name: request.param or None)
    return request.param


def test_what_is_generated_for_a_cpu_is_usual_where_it_can_run(compiles):
    assert chosen() == ("transforms" if compiles else "phases")
    assert chosen(device="V100") == chosen(precision="bfloat16") == "phases"
    assert chosen(preset="mini") == chosen(preset="smoke") == "phases"
    assert chosen(preset="fixed25") == chosen()


def test_what_was_found_or_saved_is_taken_where_it_can_run(compiles):
    assert chosen("published") == "published"
    assert chosen("phases") == "phases"
    assert chosen("transforms", preset="smoke") == ("transforms" if compiles else "phases")
    assert chosen("transforms", device="V100") == "phases"
    assert chosen("of another version") == chosen()


def test_a_flag_is_stronger_than_what_was_found(compiles):
    assert chosen("phases", kernels="published") == "published"
    assert chosen("published", kernels="phases") == "phases"
    assert chosen("published", kernels="fast") == ("transforms" if compiles else "phases")
