import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.schema.config import RunConfig, differences, parse_config
from cloudgan.schema.presets import find_preset


def test_a_preset_in_a_file_may_override_single_keys():
    config = parse_config({"model": {"preset": "mini", "dropout": 0.1}}, "run.yaml")
    assert config.model == find_preset("mini").model_copy(update={"dropout": 0.1})


def test_a_dropout_of_which_no_16_bit_mask_keeps_the_share_is_refused():
    said = r"model\.dropout is 0\.999995: .* less than or equal to 0\.99"
    with pytest.raises(ConfigError, match=said):
        parse_config({"model": {"dropout": 0.999995}}, "run.yaml")


def test_a_loss_weight_may_be_overridden_alone():
    config = parse_config({"model": {"loss_weights": {"angle": 1.0}}}, "run.yaml")
    assert config.model.loss_weights.angle == 1.0
    assert config.model.loss_weights.energy == find_preset("paper").loss_weights.energy


def test_a_dumped_configuration_reads_back_as_itself():
    config = parse_config({"model": {"preset": "fixed25"}, "training": {"seed": 3}}, "x")
    assert parse_config(config.model_dump(mode="json"), "x") == config


def test_a_batch_per_replica_grows_with_the_replicas_and_a_global_one_does_not():
    per_replica = parse_config({"training": {"batch_per_replica": 4}}, "x")
    fixed = parse_config({"training": {"global_batch_size": 12}}, "x")
    assert [per_replica.global_batch(n) for n in (1, 3)] == [4, 12]
    assert [fixed.global_batch(n) for n in (1, 3)] == [12, 12]


def test_a_global_batch_that_replicas_do_not_divide_is_refused_with_ones_that_fit():
    config = parse_config({"training": {"global_batch_size": 10}}, "x")
    with pytest.raises(ConfigError, match=r"--global-batch=8 or --global-batch=12"):
        config.global_batch(4)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"training": {"epochs": 9}}, True),
        ({"training": {"loop": "fit"}}, True),
        ({"training": {"max_seconds": 5.0}}, True),
        ({"training": {"conv_impl": "published"}}, True),
        ({"training": {"validate_every": 2}}, True),
        ({"training": {"until": "metric<1"}}, True),
        ({"training": {"validate_every": 1, "patience": 4, "smooth": 3}}, True),
        ({"checkpoint": {"keep": 9}}, True),
        ({"name": "other"}, True),
        ({"training": {"seed": 9}}, False),
        ({"training": {"precision": "float64"}}, False),
        ({"model": {"dropout": 0.3}}, False),
        ({"data": {"path": "other.h5"}}, False),
        ({"data": {"last_batch": "drop"}}, False),
    ],
)
def test_the_hash_changes_with_what_decides_numbers_and_only_with_that(change, same):
    changed = parse_config(change, "x")
    assert (changed.config_hash() == RunConfig().config_hash()) == same


@pytest.mark.parametrize(
    ("training", "every", "ranking"),
    [
        ({}, 0, "metric<0"),
        ({"validate_every": 3}, 3, "metric<0"),
        ({"until": "hits>0.9"}, 1, "hits>0.9"),
        ({"until": "hits>0.9", "validate_every": 5}, 5, "hits>0.9"),
    ],
)
def test_until_validates_every_epoch_unless_configured_otherwise_and_ranks(
    training, every, ranking
):
    found = parse_config({"training": training}, "x").training
    assert (found.validates_every, str(found.ranking)) == (every, ranking)
    assert found.ends_with_its_epochs == ("until" not in training)


def test_an_early_stop_needs_validations_of_any_kind_and_is_in_no_other_document():
    found = parse_config({"training": {"until": "hits>0.9", "patience": 4}}, "x").training
    assert found.early_stop == (4, 1)
    assert not found.ends_with_its_epochs
    assert "patience" not in RunConfig().model_dump()["training"]


def test_differences_name_every_key_with_both_values():
    ours, theirs = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 4}, "d": 5}
    assert differences(ours, theirs) == ["a.c: 2, 4", "d: 3, 5"]


def test_a_fold_is_part_of_the_hash_and_absent_from_other_documents():
    usual = parse_config({"data": {"held_out_fraction": 0.2}}, "test")
    assert "fold" not in usual.model_dump(mode="json")["data"]
    assert parse_config({"data": {"fold": 3}}, "test").config_hash() != usual.config_hash()
