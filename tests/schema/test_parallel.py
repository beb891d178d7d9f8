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


ONE_STAGE = {"stages": ["conv1"]}


@pytest.mark.parametrize(
    ("parallel", "training", "expected"),
    [
        ({"ranks": 4}, {}, "ranks is an option of mode downpour or easgd or gem"),
        ({"mode": "gem", "elastic_force": 0.5}, {}, "elastic_force is an option of mode easgd"),
        ({"mode": "easgd", "synchronous": True}, {}, "synchronous is an option of mode downpour"),
        ({"mode": "easgd", "elastic_force": -1}, {}, "elastic_force"),
        ({"mode": "esgd"}, {}, "downpour"),
        ({"mode": "gem", "momentum": 1}, {}, "momentum"),
        # Ranks need the custom loop and set the strategy themselves.
        ({"mode": "easgd"}, {"loop": "fit"}, "use loop custom"),
        ({"mode": "easgd"}, {"strategy": "tpu"}, "strategy is 'tpu'"),
        ({"mode": "easgd"}, {"workers": 2}, "workers is 2"),
        # Stages are of one replica.
        (ONE_STAGE, {"replicas": 2}, "replicas is 2"),
        (ONE_STAGE, {"strategy": "mirrored"}, "strategy is 'mirrored'"),
        (ONE_STAGE | {"mode": "gem", "group": 2}, {}, "group is 2"),
    ],
)
def test_an_option_without_its_mode_or_out_of_range_is_refused(parallel, training, expected):
    with pytest.raises(ConfigError, match=expected):
        config(parallel=parallel, training=training)


def test_the_interval_between_masters_and_rank_0_is_of_a_tree_only():
    tree = {"mode": "easgd", "ranks": 7, "masters": 2}
    often = config(parallel=tree | {"master_sync_every": 2})
    assert often.config_hash() != config(parallel=tree).config_hash()
    assert "master_sync_every" not in config(parallel={"mode": "easgd"}).mathematics()["parallel"]
