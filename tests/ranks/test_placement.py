"""Refusals before ranks start, and the ranks of each node."""

import pytest

from cloudgan.api.training_result import stages_table
from cloudgan.core.errors import ConfigError
from cloudgan.core.hardware import Accelerator
from cloudgan.gan.footprint import place
from cloudgan.ranks import placement
from cloudgan.ranks.placement import check_mpi, layout_table, local_layout, ranks_on
from cloudgan.schema.config import parse_config
from cloudgan.schema.plan import Workers
from cloudgan.schema.presets import find_preset


def config(**parallel):
    return parse_config({"parallel": {"mode": "downpour"} | parallel}, "test")


def nodes(count, *, accelerators=0, accelerator=None):
    return Workers(
        nodes=count,
        accelerator=accelerator or ("V100" if accelerators else None),
        accelerators_per_node=accelerators,
        cpus=8,
        memory_gib=64.0,
        image=None,
    )


@pytest.fixture
def machine(monkeypatch):
    """Makes this machine one with a number of GPUs."""

    def of(gpus):
        found = tuple(Accelerator(name="V100", count=1) for _ in range(gpus))
        monkeypatch.setattr(placement, "nvidia_gpus", lambda: found)

    of(0)
    return of


@pytest.mark.parametrize(
    ("parallel", "place", "expected"),
    [
        ({}, nodes(4), 5),
        ({"masters": 2}, nodes(4), 7),
        ({}, nodes(2, accelerators=4), 9),
        ({"group": 4}, nodes(2, accelerators=4), 9),
        ({"group": 8}, nodes(2, accelerators=4), 9),
        ({"ranks": 3}, nodes(2, accelerators=4), 3),
        ({"stages": ["conv1"]}, nodes(2, accelerators=4), 5),
    ],
)
def test_a_node_has_a_worker_rank_per_accelerator_or_one_without(parallel, place, expected):
    assert ranks_on(config(**parallel), place) == expected


@pytest.mark.parametrize(
    ("parallel", "place", "expected"),
    [
        ({"group": 3}, nodes(2, accelerators=4), "--group=3 does not divide the 4 accelerators"),
        ({"ranks": 10}, nodes(2, accelerators=4), "use --ranks=9 or less"),
        ({"ranks": 6, "stages": ["conv1"]}, nodes(2, accelerators=4), "use --ranks=5 or less"),
        ({"stages": ["conv1"]}, nodes(2, accelerators=1), "give fewer stages than 1"),
        ({}, nodes(1, accelerators=8, accelerator="TPU-v3"), "one process owns all cores"),
        ({"masters": 4}, nodes(2), "--ranks=7 fits no layout of 4 masters"),
    ],
)
def test_ranks_that_do_not_fit_the_nodes_are_refused(parallel, place, expected):
    with pytest.raises(ConfigError) as refused:
        ranks_on(config(**parallel), place)
    assert expected in str(refused.value)


def test_an_existing_world_gives_the_number_of_ranks_and_must_agree_with_it(machine):
    assert local_layout(config(), world=4).workers == 3
    with pytest.raises(ConfigError, match=r"--ranks=5, but the MPI world .* has 4"):
        local_layout(config(ranks=5), world=4)
    with pytest.raises(ConfigError, match=r"give --ranks=3, or start .*mpiexec -n 3"):
        local_layout(config())


def test_on_this_machine_two_ranks_never_share_a_gpu(machine):
    machine(2)
    assert local_layout(config(ranks=3)).workers == 2
    with pytest.raises(ConfigError, match="use --ranks=3 or less"):
        local_layout(config(ranks=4))
    machine(0)
    assert local_layout(config(ranks=4)).workers == 3


def test_a_tpu_is_refused(machine, monkeypatch):
    monkeypatch.setenv("CLOUDGAN_TPU", "1")
    with pytest.raises(ConfigError, match="all cores of a TPU"):
        local_layout(config(ranks=3))


def test_without_mpi4py_the_extra_is_named(monkeypatch):
    check_mpi()
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[mpi\]'"):
        check_mpi()


def test_the_table_of_stages_has_bytes_per_device_and_across_the_boundary():
    rows = place(find_preset("mini"), ("conv1",), slots=2)
    table = stages_table(rows)
    assert table.rows[1][:3] == ("generator", 1, "conv1")
    assert table.rows[0][-1].value == 0
    assert table.rows[1][-1].value > 0


def test_the_table_has_a_row_per_rank(machine):
    table = layout_table(local_layout(config(ranks=7, masters=2, group=2)))
    assert table.caption == "Layout: 7 ranks: rank 0 above 2 masters, 2 workers of 2 ranks"
    assert [row[1] for row in table.rows] == [
        *("top master", "master", "master", "leader", "member", "leader", "member"),
    ]
    assert table.rows[0][-1] == "1, 2"
