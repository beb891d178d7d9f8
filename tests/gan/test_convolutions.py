"""Convolution implementation by flag, checkpoint and hardware."""

from __future__ import annotations

import pytest

from cloudgan.gan.convolutions import choose_conv_impl
from cloudgan.schema.config import parse_config


def chosen(found=None, *, device="CPU", precision="float32", conv_impl="auto", preset="paper"):
    training = {"precision": precision, "conv_impl": conv_impl}
    config = parse_config({"model": {"preset": preset}, "training": training}, "a test")
    return choose_conv_impl(config, device, found)


@pytest.fixture(params=[True, False], ids=["with llvmlite", "without"])
def compiles(request, monkeypatch):
    monkeypatch.setattr("cloudgan.gan.convolutions.find_spec", lambda name: request.param or None)
    return request.param


def test_generated_cpu_code_is_the_default_where_it_can_run(compiles):
    assert chosen() == ("fft" if compiles else "phases")
    assert chosen(device="V100") == chosen(precision="bfloat16") == "phases"
    assert chosen(preset="mini") == chosen(preset="smoke") == "phases"
    assert chosen(preset="fixed25") == chosen()


def test_a_saved_choice_is_used_where_it_can_run(compiles):
    assert chosen("published") == "published"
    assert chosen("phases") == "phases"
    assert chosen("fft", preset="smoke") == ("fft" if compiles else "phases")
    assert chosen("fft", device="V100") == "phases"
    assert chosen("of another version") == chosen()


def test_a_flag_overrides_the_saved_choice(compiles):
    assert chosen("phases", conv_impl="published") == "published"
    assert chosen("published", conv_impl="phases") == "phases"
    assert chosen("published", conv_impl="fast") == ("fft" if compiles else "phases")
