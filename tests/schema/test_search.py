"""The space of a search, and its bounds."""

import pytest

from cloudgan.schema.config import parse_config
from cloudgan.schema.search import Dimension, SearchConfig


def search_of(space, **asked):
    base = parse_config({"model": {"preset": "smoke"}}, "test")
    return SearchConfig.model_validate({"base": base, "space": space} | asked)


@pytest.mark.parametrize(
    "dimension",
    [
        Dimension(low=1e-4, high=1e-1, log=True),
        Dimension(low=-3.0, high=5.0),
        Dimension(low=1, high=64, log=True),
        Dimension(low=2, high=9),
        Dimension(choices=("a", "b", 3)),
    ],
)
def test_a_value_keeps_its_position(dimension):
    for step in range(21):
        value = dimension.decode(step / 20)
        again = dimension.decode(dimension.encode(value))
        assert again == pytest.approx(value) if isinstance(value, float) else again == value


def test_integers_have_equal_shares_of_the_range():
    dimension = Dimension(low=1, high=4)
    found = [dimension.decode((step + 0.5) / 400) for step in range(400)]
    assert {value: found.count(value) for value in set(found)} == dict.fromkeys(range(1, 5), 100)


def test_a_point_sets_keys_inside_sections_of_the_model():
    search = search_of({"model.loss_weights.shape": Dimension(low=0.0, high=9.0)})
    search.check()
    config = search.run_config({"model.loss_weights.shape": 4.0}, "0001")
    assert config.model.loss_weights["shape"] == 4.0
    assert config.name == "0001"
    assert config.model.loss_weights["energy"] == search.base.model.loss_weights["energy"]


def test_width_and_depth_of_the_networks_can_be_searched():
    space = {
        "model.generator_width": Dimension(low=0.5, high=4.0, log=True),
        "model.discriminator_depth": Dimension(low=1, high=3),
    }
    found = search_of(space)
    found.check()
    point = {"model.generator_width": 2.5, "model.discriminator_depth": 2}
    assert found.run_config(point, "0001").model.network_name == (
        "smoke (generator width 2.5, discriminator depth 2)"
    )


@pytest.mark.parametrize("name", ["0001", "0001-fold-2"])
def test_each_run_of_a_search_copies_its_checkpoints_to_a_folder_of_its_own(name):
    base = {"model": {"preset": "smoke"}, "checkpoint": {"url": "gs://lab/x/"}}
    space = {"training.seed": Dimension(choices=(1, 2))}
    search = search_of(space, base=parse_config(base, "test"))
    config = search.run_config({"training.seed": 1}, name)
    assert config.checkpoint.url == f"gs://lab/x/{name}"
