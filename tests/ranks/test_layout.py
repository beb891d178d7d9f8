"""Which rank does what."""

import re

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.ranks.layout import make_layout, ranks_per_node, size_for, smallest_size
from cloudgan.schema.parallel import ParallelConfig


def easgd(**options):
    return ParallelConfig(mode="easgd", **options)


def test_one_master_comes_first_and_groups_of_workers_follow():
    layout = make_layout(5, easgd(group=2))
    assert [role.kind for role in layout.roles] == [
        "master",
        "leader",
        "member",
        "leader",
        "member",
    ]
    assert [role.parent for role in layout.roles] == [None, 0, None, 0, None]
    assert [role.worker for role in layout.roles] == [None, 0, 0, 1, 1]
    assert (layout.workers, layout.masters, layout.has_top) == (2, (0,), False)
    assert layout.children(0) == (1, 3)
    assert layout.group_of(1) == (3, 4)


def test_with_several_masters_rank_0_is_above_them_and_workers_are_divided_evenly():
    layout = make_layout(8, easgd(masters=2))
    assert layout.has_top
    assert layout.children(0) == layout.masters == (1, 2)
    assert layout.children(1) == (3, 4, 5)
    assert layout.children(2) == (6, 7)
    assert [layout.workers_below(rank) for rank in (0, 1, 2, 6)] == [
        *((0, 1, 2, 3, 4), (0, 1, 2), (3, 4), (3,)),
    ]
    assert layout.roles[1].parent == 0
    assert layout.as_json()["roles"][1]["serves"] == [3, 4, 5]


@pytest.mark.parametrize("group", [1, 2, 3, 4])
@pytest.mark.parametrize("masters", [1, 2, 3, 5])
def test_each_rank_has_one_role_and_each_leader_one_master(group, masters):
    parallel = easgd(group=group, masters=masters)
    fits = []
    for size in range(1, 40):
        try:
            layout = make_layout(size, parallel)
        except ConfigError as error:
            for fitting in re.findall(r"--masters=(\d+)", str(error)):
                assert make_layout(size, easgd(group=group, masters=int(fitting))).size == size
            near = {int(number) for number in re.findall(r"--ranks=(\d+)", str(error))} - {size}
            assert near
            assert all(make_layout(each, parallel).size == each for each in near)
            assert all(abs(each - size) < group or size < smallest_size(parallel) for each in near)
            continue
        fits.append(size)
        assert size_for(layout.workers, parallel) == size
        assert [role.rank for role in layout.roles] == list(range(size))
        trained = [rank for worker in range(layout.workers) for rank in layout.group_of(worker)]
        assert trained == [role.rank for role in layout.roles if not role.is_master]
        served = [rank for master in layout.masters for rank in layout.children(master)]
        assert served == [layout.group_of(worker)[0] for worker in range(layout.workers)]
        counts = [len(layout.children(master)) for master in layout.masters]
        assert max(counts) - min(counts) <= 1
        assert min(counts) >= 1
    assert fits == list(range(smallest_size(parallel), 40, group))


def test_a_size_that_does_not_fit_names_the_nearest_that_do():
    with pytest.raises(ConfigError, match=r"--ranks=6 fits .*--ranks=5 or --ranks=7"):
        make_layout(6, easgd(group=2))
    with pytest.raises(ConfigError, match=r"--ranks=1 fits .*use --ranks=2,"):
        make_layout(1, easgd())
    with pytest.raises(ConfigError, match=r"--ranks=8 fits .*--ranks=9 or --masters=3,"):
        make_layout(8, easgd(masters=4))


@pytest.mark.parametrize(
    ("size", "options"),
    [
        *((3, {"elastic_force": force}) for force in (2.0, 5.0, 0.0)),
        (11, {"elastic_force": 3.0, "masters": 2}),  # a master serves two masters or four workers
    ],
)
def test_an_elastic_force_outside_of_0_to_the_fewest_that_a_master_serves_is_refused(size, options):
    with pytest.raises(ConfigError, match=r"outside of \(0, 2\)"):
        make_layout(size, easgd(**options))


def test_an_elastic_force_of_0_is_plain_training_of_one_worker():
    assert make_layout(2, easgd(elastic_force=0.0)).workers == 1


def test_nodes_have_consecutive_ranks_and_masters_only_where_workers_are_too_few():
    def by_node(size, nodes, **options):
        parallel = ParallelConfig(mode="gem", **options)
        return ranks_per_node(make_layout(size, parallel), nodes)

    assert by_node(3, 3) == (1, 1, 1)
    assert by_node(3, 2) == (2, 1)
    assert by_node(9, 2) == (5, 4)
    assert by_node(9, 3) == (3, 3, 3)
    assert by_node(7, 2, masters=2) == (5, 2)
    assert by_node(7, 5, masters=2) == (1, 1, 1, 2, 2)
    with pytest.raises(ConfigError, match="--nodes=4 are more than the 3 ranks"):
        by_node(3, 4)
