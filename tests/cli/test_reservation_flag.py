"""`--reservation` of `plan`: required flags, excluded flags, and the output."""

from __future__ import annotations

import json

import pytest

from cli.provisioned import basis
from cloudgan.cli.main import main

GKE = ("--provider=gcp", "--region=us-central1", "--accelerator=a3-highgpu-8g")


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*flags):
        code = 0
        named = () if any("--reservation" in one for one in flags) else ("--reservation=week",)
        try:
            code = main(["plan", "--name=gan", *named, *flags])
        except SystemExit as end:
            code = end.code
        shown = capsys.readouterr()
        return code or 0, shown.out, shown.err

    return run


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--market=spot", *GKE), "--market=spot would start nodes outside of --reservation=week"),
        (("--flex-start", *GKE), "--flex-start would start"),
        (("--fallback=same", *GKE), "--fallback=same would start"),
        (("--keep-nodes=30m", *GKE), "omit --keep-nodes, since the reservation keeps the capacity"),
        (("--provider=gcp", "--accelerator=h100:8"), "give --region or --zone"),
        (("--provider=gcp", "--region=us-central1"), "give --provider and --accelerator"),
        (("--provider=cheapest", *GKE[1:]), "give --provider and --accelerator"),
        (
            ("--provider=local",),
            "--reservation: only valid with --provider=aws, azure, gcp or slurm",
        ),
    ],
    ids=str,
)
def test_other_nodes_than_the_reserved_ones_are_bad_input(plan, flags, why):
    code, _, err = plan(*flags)
    assert code == 2
    assert why in err


def test_a_name_that_the_cloud_cannot_have_is_bad_input(plan):
    code, _, err = plan("--reservation=Week", *GKE)
    assert code == 2
    assert "projects/OWNER/reservations/NAME" in err


def test_the_price_on_demand_is_shown_with_a_note_that_the_reservation_always_bills(plan):
    code, out, err = plan(*GKE, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["node_pool"]["reservation"] == "week"
    assert found["price"]["market"] == "on_demand"
    assert found["cost"]["known_usd"] > 0
    assert any("for as long as it exists" in one for one in found["warnings"])
    assert "on demand, reservation week" in basis(found)
