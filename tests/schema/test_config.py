"""run.yaml: presets, what the hash depends on, and the sections of ranks and simulations."""

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.schema.config import RunConfig, differences, parse_config
from cloudgan.schema.presets import PROFILES, LossWeights, find_preset
from cloudgan.schema.simulation import SimulationConfig


def test_a_preset_in_a_file_may_override_single_keys_and_loss_weights():
    config = parse_config({"model": {"preset": "mini", "dropout": 0.1}}, "run.yaml")
    assert config.model == find_preset("mini").model_copy(update={"dropout": 0.1})
    weights = parse_config({"model": {"loss_weights": {"angle": 1.0}}}, "x").model.loss_weights
    assert weights == find_preset("paper").loss_weights.model_copy(update={"angle": 1.0})


def test_a_dropout_of_which_no_16_bit_mask_keeps_the_share_is_refused():
    said = r"model\.dropout is 0\.999995: .* less than or equal to 0\.99"
    with pytest.raises(ConfigError, match=said):
        parse_config({"model": {"dropout": 0.999995}}, "run.yaml")


def test_a_dumped_configuration_reads_back_as_itself():
    config = parse_config({"model": {"preset": "fixed25"}, "training": {"seed": 3}}, "x")
    assert parse_config(config.model_dump(mode="json"), "x") == config


def test_a_batch_per_replica_grows_with_the_replicas_and_they_divide_a_global_one():
    per_replica = parse_config({"training": {"batch_per_replica": 4}}, "x")
    fixed = parse_config({"training": {"global_batch_size": 12}}, "x")
    assert [per_replica.global_batch(n) for n in (1, 3)] == [4, 12]
    assert [fixed.global_batch(n) for n in (1, 3)] == [12, 12]
    with pytest.raises(ConfigError, match=r"--global-batch=10 or --global-batch=15"):
        fixed.global_batch(5)


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


def of_smoke(**sections):
    return parse_config({"model": {"preset": "smoke"}, **sections}, "run.yaml")


def test_a_run_without_ranks_has_the_hash_and_the_document_of_before():
    plain = of_smoke()
    assert "parallel" not in plain.mathematics()
    assert "parallel" not in plain.model_dump(mode="json")
    assert of_smoke(parallel={}).config_hash() == plain.config_hash()
    assert of_smoke(parallel={"stages": ["conv3"]}).config_hash() == plain.config_hash()


def test_the_section_of_a_run_with_ranks_is_part_of_its_hash_and_document():
    run = of_smoke(parallel={"mode": "easgd", "ranks": 5, "stages": ["conv3"]})
    assert run.config_hash() != of_smoke().config_hash()
    assert run.config_hash() != of_smoke(parallel={"mode": "easgd", "ranks": 6}).config_hash()
    assert RunConfig.model_validate(run.model_dump(mode="json")) == run
    assert run.mathematics()["parallel"]["ranks"] == 5


def test_the_interval_between_masters_and_rank_0_is_of_a_tree_only():
    tree = {"mode": "easgd", "ranks": 7, "masters": 2}
    often = of_smoke(parallel=tree | {"master_sync_every": 2})
    assert often.config_hash() != of_smoke(parallel=tree).config_hash()
    assert "master_sync_every" not in of_smoke(parallel={"mode": "easgd"}).mathematics()["parallel"]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("showers", [1, 4, 22, 24])
def test_each_shower_is_simulated_by_one_worker(workers, showers):
    simulation = SimulationConfig(showers=showers, showers_per_shard=4)
    parts = [simulation.shards_of(worker, workers) for worker in range(workers)]
    numbers = [n for part in parts for shard in part for n in simulation.events(shard)]
    assert sorted(numbers) == list(range(showers))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_last_shard_that_is_not_full_counts_its_showers():
    simulation = SimulationConfig(showers=22, showers_per_shard=4)
    assert (simulation.shards, simulation.events(5)) == (6, range(20, 22))
    assert [simulation.finished(shards) for shards in (0, 3, 6)] == [0, 12, 22]


def test_a_run_that_trains_has_neither_task_nor_section_and_keeps_its_hash():
    assert not {"task", "simulation"} & set(RunConfig().model_dump())
    other = RunConfig(simulation=SimulationConfig(showers=7))
    assert other.config_hash() == RunConfig().config_hash()


def test_a_simulation_is_identified_by_its_showers_and_seed_alone():
    run = RunConfig(task="simulate")
    assert RunConfig.model_validate(run.model_dump(mode="json")) == run
    networks = RunConfig(task="simulate", model={"preset": "mini"}, training={"threads": 3})
    assert networks.config_hash() == run.config_hash()
    for changed in ({"training": {"seed": 1}}, {"simulation": {"particle": "photon"}}):
        other = RunConfig.model_validate({"task": "simulate"} | changed)
        assert other.config_hash() != run.config_hash()


def test_each_preset_carries_its_own_name():
    for name, profile in PROFILES.items():
        assert (profile.preset.preset, profile.preset.networks) == (name, name)


def test_paper_is_what_the_paper_says_without_any_of_our_additions():
    published = {
        "image_shape": (51, 51, 25),
        "latent_size": 256,
        "loss_weights": LossWeights(
            real_fake=3, energy=0.1, angle=25, ecal_sum=0.1, longitudinal=0
        ),
        "optimizer": "rmsprop",
        "generator_updates": 2,
        "label_flip_fraction": 0.05,
        "label_flips": "drawn",
        "image_power": 0.85,
        "batch_norm_momentum": 0.99,
        "output_activation": "relu",
        "energy_scaled_output": False,
        "calibrated_output": False,
        "ema_decay": 0,
    }
    paper = find_preset("paper")
    assert {key: getattr(paper, key) for key in published} == published
