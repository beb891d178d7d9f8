"""`plan` and `deploy --task=simulate` without a running job."""

from __future__ import annotations

import json

import pytest

from cli.provisioned import basis
from command_options import job

CLUSTER = ("--provider=kubernetes", "--store=s3://lab/showers", "--image=lab/gan:1", "--nodes=2")


def planned(cloudgan_here, *flags):
    return json.loads(cloudgan_here("plan", *job("simulate", *flags, "--json")).stdout)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--showers=0"], "--showers=0: expected at least 1"),
        (["--particle=photno"], "Did you mean 'photon'?"),
        (["--energy=0.1:5"], "energy_gev"),
        (["--energy=50:10"], "low exceeds high"),
        (["--accelerator=v100:8"], "--accelerator=v100:8: the job simulate computes on CPU cores"),
        (["--epochs=3"], "unknown flag of `cloudgan deploy -- simulate` '--epochs"),
        (["--seeds=1,2"], "a simulation has one --seed"),
        (["--data=x.h5"], "unknown flag of `cloudgan deploy -- simulate` '--data"),
        (["--provider=gcp"], "--provider=kubernetes --context=NAME"),
        (["--provider=cheapest"], "only nodes with accelerators"),
        (["--provider=kubernetes", "--store=s3://lab/x"], "needs --image=IMAGE"),
        (["--price-as=gcp/n1-standard-8+1xT4/us-central1/spot"], "in a --price-file"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "deploy"])
def test_what_cannot_simulate_is_refused_before_anything_starts(
    cloudgan_here, user_folder, verb, flags, said
):
    done = cloudgan_here(verb, *job("simulate", *flags), exits=2)
    assert said in done.stderr
    assert list(user_folder.iterdir()) == []


def test_a_run_yaml_states_the_task(cloudgan_here, user_folder):
    (user_folder / "run.yaml").write_text("{task: simulate, simulation: {showers: 9}}")
    found = json.loads(cloudgan_here("plan", "--config=run.yaml", "--json").stdout)
    assert found["config"]["simulation"]["showers"] == 9
    assert "simulate" in cloudgan_here("train", "--config=run.yaml", exits=2).stderr


def test_workers_of_a_simulation_exchange_nothing(cloudgan_here, user_folder):
    """So they need neither a secret nor a test of the cluster's network policies."""
    kinds = [step["ensure"].split()[0] for step in planned(cloudgan_here, *CLUSTER)["steps"]]
    assert "Job" in kinds
    assert not {"Secret", "NetworkPolicy is enforced"} & set(kinds)
    assert kinds.count("NetworkPolicy") == kinds.count("Service") == 1


def test_the_forecast_is_the_time_of_the_busiest_worker_and_prices_1000_showers(
    cloudgan_here, user_folder
):
    (user_folder / "own.yaml").write_text(
        "{date: 2026-11-20, nodes: [{offer: lab/cpu/room, vcpu: 16, usd_per_hour: 3.6}]}"
    )
    flags = (*CLUSTER, "--showers=1280", "--energy=40:60", "--cpus=8", "--price-file=own.yaml")
    ahead = planned(cloudgan_here, *flags)["forecast"]
    # Three of five shards, 768 showers of 50 GeV on 8 cores, and 10 s to start.
    assert ahead["low_seconds"] == pytest.approx(10 + 768 * 50 * 0.008 / 8)
    assert ahead["high_seconds"] == pytest.approx(10 + 768 * 50 * 0.025 / 8)
    assert ahead["high_usd"] == pytest.approx(2 * ahead["high_seconds"] * 0.001)
    shown = cloudgan_here("plan", *job("simulate", *flags)).stdout
    assert "simulate 1,280 showers with Geant4, electrons" in shown
    duration = basis(cloudgan_here("plan", *job("simulate", *flags, "--json")).stdout)
    assert "modelled: 0.008 to 0.025 s per GeV and core" in duration
    assert "USD per 1,000 showers" in shown


def test_a_deadline_that_is_too_short_names_the_flag(cloudgan_here, user_folder):
    words = job("simulate", *CLUSTER, "--showers=200000", "--max-hours=0.1")
    done = cloudgan_here("plan", *words, exits=5)
    assert "200,000 showers take at least" in done.stderr
    assert "fewer --showers" in done.stderr


def test_without_a_price_the_cost_is_unknown(cloudgan_here, user_folder):
    ahead = planned(cloudgan_here, *CLUSTER)["forecast"]
    assert ahead["low_usd"] is None
    assert "--price-as=OFFER" in ahead["why_unknown"]
