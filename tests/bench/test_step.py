"""Variants of the step, and their measurements."""

from __future__ import annotations

import pytest

from bench.made_up import measured, step_result
from cloudgan.bench.arithmetic import step_macs
from cloudgan.bench.step import make_variant, parse_against
from cloudgan.core.errors import ConfigError
from cloudgan.schema.presets import find_preset


def test_the_ratio_is_of_neighbours_in_time_and_of_the_other_over_the_own():
    found = step_result(own=[5.0, 4.0, 10.0], against=[10.0, 12.0, 20.0])
    assert (found.ratio.min, found.ratio.median, found.ratio.max) == (2.0, 2.0, 3.0)
    assert found.cpu_ratio.max == 3.0


def test_with_nothing_to_compare_there_is_no_ratio():
    found = step_result(against=None)
    assert found.ratio is found.cpu_ratio is None


def test_the_share_of_the_limit_is_counted_operations_at_the_measured_speed_over_the_step():
    found = measured("auto", [10.0, 20.0], gflops=100.0)
    counted_gflop = 2e-9 * 16 * sum(step_macs(find_preset("paper"), "phases").values())
    assert found.limit_seconds.median == pytest.approx(counted_gflop / 100)
    assert found.share_of_direct_limit.max == pytest.approx(counted_gflop / 100 / 10)
    assert found.share_of_direct_limit.min == pytest.approx(counted_gflop / 100 / 20)


def test_the_published_form_is_held_against_the_same_limit():
    rounds = [5.0]
    assert (
        measured("published", rounds, conv_impl="published").limit_seconds
        == measured("fast", rounds).limit_seconds
    )


def test_throughput_is_of_the_global_batch():
    assert measured("auto", [8.0], global_batch=32).showers_per_second.median == 4.0


def test_the_label_of_auto_names_the_implementation_it_chose():
    assert measured("auto", [1.0]).label == "auto (fast)"
    assert measured("fast", [1.0]).label == "fast"


TRAINING = {"batch_per_replica": 4, "precision": "float32", "replicas": None}


def against(text, conv_impl="auto"):
    own = make_variant(conv_impl, "smoke", TRAINING, {})
    return parse_against(text, own, "smoke", TRAINING)


def test_the_other_variant_has_the_settings_of_the_first_unless_given():
    found = against("published")
    assert found.name == found.config.training.conv_impl == "published"
    assert found.config.training.batch_per_replica == 4
    assert found.environment == {}


def test_settings_and_variables_of_its_process_follow_a_colon():
    found = against("fast:precision=bfloat16,replicas=2,TF_ENABLE_ONEDNN_OPTS=0")
    assert found.config.training.precision == "bfloat16"
    assert found.config.training.replicas == 2
    assert found.environment == {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert found.name == "fast (precision=bfloat16, replicas=2, TF_ENABLE_ONEDNN_OPTS=0)"


def test_the_same_form_again_has_a_name_of_its_own():
    assert against("fast", conv_impl="fast").name == "fast, again"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("publised", "Did you mean 'published'"),
        ("", "unknown conv_impl in --against ''"),
        ("fast:precision", "is not KEY=VALUE"),
        ("fast:precision=mixed", "give --precision=bfloat16"),
        ("fast:precison=bfloat16", "Did you mean 'precision'"),
        ("fast:precision=bfloat17", "training.precision"),
        ("fast:threads=two", "threads is a whole number, got 'two'"),
        ("fast:replicas=0", "training.replicas"),
    ],
)
def test_a_misspelt_variant_is_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        against(text)


def test_a_misspelt_preset_gets_a_suggestion():
    with pytest.raises(ConfigError, match="Did you mean 'smoke'"):
        make_variant("auto", "smok", TRAINING, {})
