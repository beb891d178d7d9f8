"""The `parallel` section of run.yaml."""

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.schema.config import RunConfig, parse_config


def config(**sections):
    return parse_config({"model": {"preset": "smoke"}, **sections}, "run.yaml")


def test_a_run_without_ranks_has_the_hash_and_the_document_of_before():
    plain = config()
    assert "parallel" not in plain.mathematics()
    assert "parallel" not in plain.model_dump(mode="json")
    assert config(parallel={}).config_hash() == plain.config_hash()
    assert config(parallel={"stages": ["conv3"]}).config_hash() == plain.config_hash()


def test_the_section_of_a_run_with_ranks_is_part_of_its_hash_and_document():
    run = config(parallel={"mode": "easgd", "ranks": 5, "stages": ["conv3"]})
    assert run.config_hash() != config().config_hash()
    assert run.config_hash() != config(parallel={"mode": "easgd", "ranks": 6}).config_hash()
    assert RunConfig.model_validate(run.model_dump(mode="json")) == run
    assert run.mathematics()["parallel"]["ranks"] == 5


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"ranks": 4}, "ranks is an option of mode downpour or easgd or gem"),
        ({"mode": "gem", "elastic_force": 0.5}, "elastic_force is an option of mode easgd"),
        ({"mode": "easgd", "synchronous": True}, "synchronous is an option of mode downpour"),
        ({"mode": "easgd", "elastic_force": -1}, "elastic_force"),
        ({"mode": "esgd"}, "downpour"),
        ({"mode": "gem", "momentum": 1}, "momentum"),
    ],
)
def test_an_option_without_its_mode_or_out_of_range_is_refused(section, expected):
    with pytest.raises(ConfigError, match=expected):
        config(parallel=section)


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({"loop": "fit"}, "use loop custom"),
        ({"strategy": "tpu"}, "strategy is 'tpu'"),
        ({"workers": 2}, "workers is 2"),
    ],
)
def test_ranks_need_the_custom_loop_and_set_the_strategy_themselves(training, expected):
    with pytest.raises(ConfigError, match=expected):
        config(parallel={"mode": "easgd"}, training=training)


@pytest.mark.parametrize(
    ("training", "parallel", "expected"),
    [
        ({"replicas": 2}, {}, "replicas is 2"),
        ({"strategy": "mirrored"}, {}, "strategy is 'mirrored'"),
        ({}, {"mode": "gem", "group": 2}, "group is 2"),
    ],
)
def test_stages_are_of_one_replica(training, parallel, expected):
    with pytest.raises(ConfigError, match=expected):
        config(training=training, parallel={"stages": ["conv1"]} | parallel)


def test_the_interval_between_masters_and_rank_0_is_of_a_tree_only():
    tree = {"mode": "easgd", "ranks": 7, "masters": 2}
    often = config(parallel=tree | {"master_sync_every": 2})
    assert often.config_hash() != config(parallel=tree).config_hash()
    assert "master_sync_every" not in config(parallel={"mode": "easgd"}).mathematics()["parallel"]
