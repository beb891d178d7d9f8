"""The flags of ranks: `--describe`, the plan, and refusals before any file is written."""

from __future__ import annotations

import json

import pytest

from cli.provisioned import basis

TRAIN = ("train", "--data=x.h5", "--preset=mini")


@pytest.fixture
def here(cloudgan_here, tmp_path, monkeypatch):
    """Runs a command in an empty folder, which stays empty."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, exits=0):
        done = cloudgan_here(*arguments, exits=exits)
        assert not list(tmp_path.iterdir())
        return done

    return run


def test_describe_prints_the_layout_and_starts_nothing(here):
    flags = (*TRAIN, "--parallel=easgd", "--ranks=5", "--group=2", "--sync-every=10", "--describe")
    shown = here(*flags).stdout
    assert "5 ranks: 1 master, 2 workers of 2 ranks" in shown
    found = json.loads(here(*flags, "--json").stdout)
    assert found["parallel"]["sync_every"] == 10
    assert [role["role"] for role in found["layout"]["roles"]] == [
        *("master", "leader", "member", "leader", "member"),
    ]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--parallel=gem", "--ranks=6", "--group=2"), "use --ranks=5 or --ranks=7"),
        (("--parallel=gem", "--ranks=4", "--masters=2"), "use --ranks=5 or --masters=1"),
        (("--parallel=gem", "--ranks=3", "--master-sync-every=2"), "give --masters=2 or more"),
        (("--parallel=gem",), "give --ranks=3, or start"),
        (("--parallel=easgd", "--ranks=3", "--elastic-force=2"), "outside of (0, 2)"),
        (("--parallel=easgd", "--ranks=3", "--elastic-force=0"), "outside of (0, 2)"),
        (("--parallel=gem", "--ranks=3", "--loop=fit"), "use loop custom"),
        (("--parallel=gem", "--ranks=3", "--strategy=tpu"), "strategy is 'tpu'"),
        (("--ranks=3",), "ranks is an option of mode"),
        (("--stages=conv33",), "Did you mean 'conv3'?"),
        (("--parallel=gem", "--ranks=0"), "expected at least 1"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(here, flags, expected):
    said = here(*TRAIN, *flags, exits=2).stderr
    assert expected in said


def test_a_plan_of_nodes_has_a_worker_rank_per_node_and_its_masters(cloudgan_here, user_folder):
    flags = (
        *(
            "--provider=kubernetes",
            "--store=s3://lab/x",
            "--data=s3://lab/data",
            "--image=lab/gan:1",
        ),
        *("--preset=smoke", "--nodes=4", "--parallel=downpour"),
    )
    shown = basis(cloudgan_here("plan", *flags, "--masters=2", "--json").stdout)
    assert "downpour, 7 ranks: rank 0 above 2 masters, 4 workers" in shown
    planned = json.loads(cloudgan_here("plan", *flags, "--json").stdout)
    assert planned["config"]["parallel"]["ranks"] == 5
    assert planned["config"]["training"]["strategy"] == "auto"
    shown = basis(cloudgan_here("plan", *flags, "--ranks=9", "--json").stdout)
    assert "9 ranks: 1 master, 8 workers; by node: 3, 2, 2, 2" in shown
    shown = basis(cloudgan_here("plan", *flags, "--ranks=4", "--json").stdout)
    assert "4 ranks: 1 master, 3 workers; by node: 1, 1, 1, 1" in shown
    said = cloudgan_here("plan", *flags, "--ranks=3", exits=2).stderr
    assert "--nodes=4 are more than the 3 ranks of --parallel; use --nodes=3 or fewer" in said


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--provider=local",), "--provider=local with one node starts no ranks"),
    ],
)
def test_ranks_that_a_provider_does_not_start_are_refused(
    cloudgan_here, user_folder, flags, expected
):
    ranks = ("--data=s3://lab/data", "--preset=smoke", "--parallel=easgd", "--ranks=3", "--yes")
    said = cloudgan_here("deploy", *flags, *ranks, exits=2).stderr
    assert expected in said
