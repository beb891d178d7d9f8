from __future__ import annotations

import pytest

from cloudgan.bench.variant import make_variant, parse_against
from cloudgan.core.errors import ConfigError

TRAINING = {"batch_per_replica": 4, "precision": "float32", "replicas": None}


def against(text, kernels="auto"):
    own = make_variant(kernels, "smoke", TRAINING, {})
    return parse_against(text, own, "smoke", TRAINING)


def test_the_other_variant_has_the_settings_of_the_first_where_nothing_else_is_said():
    found = against("published")
    assert found.name == found.config.training.kernels == "published"
    assert found.config.training.batch_per_replica == 4
    assert found.environment == {}


def test_settings_and_variables_of_its_process_stand_behind_a_colon():
    found = against("fast:precision=bfloat16,replicas=2,TF_ENABLE_ONEDNN_OPTS=0")
    assert found.config.training.precision == "bfloat16"
    assert found.config.training.replicas == 2
    assert found.environment == {"TF_ENABLE_ONEDNN_OPTS": "0"}
    assert found.name == "fast (precision=bfloat16, replicas=2, TF_ENABLE_ONEDNN_OPTS=0)"


def test_the_same_form_again_has_a_name_of_its_own():
    assert against("fast", kernels="fast").name == "fast, again"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("publised", "Did you mean 'published'"),
        ("", "unknown formulation in --against ''"),
        ("fast:precision", "is no KEY=VALUE"),
        ("fast:precision=mixed", "say bfloat16 or float32"),
        ("fast:precison=bfloat16", "Did you mean 'precision'"),
        ("fast:precision=bfloat17", "training.precision"),
        ("fast:threads=two", "threads is a whole number, got 'two'"),
        ("fast:replicas=0", "training.replicas"),
    ],
)
def test_a_misspelt_variant_is_told(text, said):
    with pytest.raises(ConfigError, match=said):
        against(text)


def test_a_misspelt_preset_is_told():
    with pytest.raises(ConfigError, match="Did you mean 'smoke'"):
        make_variant("auto", "smok", TRAINING, {})
