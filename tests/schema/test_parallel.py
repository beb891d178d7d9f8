"""The `parallel` section of run.yaml."""

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


def test_the_interval_between_masters_and_rank_0_is_of_a_tree_only():
    tree = {"mode": "easgd", "ranks": 7, "masters": 2}
    often = config(parallel=tree | {"master_sync_every": 2})
    assert often.config_hash() != config(parallel=tree).config_hash()
    assert "master_sync_every" not in config(parallel={"mode": "easgd"}).mathematics()["parallel"]
