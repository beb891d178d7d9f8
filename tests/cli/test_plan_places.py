"""`plan` for nodes of one's own prices, Slurm, TPU slices and reservations, and the files that it writes."""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.provisioned import few_showers
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.options import build
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.money.price_file import read_price_file


def launch_flags(**given):
    return build(LaunchRequest, given, command="cloudgan deploy")


# The request


def test_the_default_is_one_process_of_this_machine():
    found = launch_flags()
    assert (found.provider, found.nodes, found.accelerator, found.store) == ("local", 1, None, None)
    assert (found.max_hours, found.effective_gang_timeout_seconds) == (24.0, 1200)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"accelerator": "v100"}, "accelerator_name", "v100"),
        ({"accelerator": "v100"}, "accelerator_count", 1),
        ({"accelerator": "v100:8"}, "accelerator_count", 8),
        ({"accelerator": "A100-80GB:4"}, "accelerator_name", "A100-80GB"),
        ({"node_selector": "pool=gpu,disk=ssd"}, "node_selector", {"pool": "gpu", "disk": "ssd"}),
        ({"node_selector": "zone="}, "node_selector", {"zone": ""}),
        ({"kubernetes_secrets": "s3-login,ca,"}, "kubernetes_secrets", ("s3-login", "ca")),
        ({}, "kubernetes_secrets", ()),
        ({"gang_timeout": "1h30m"}, "effective_gang_timeout_seconds", 5400),
        ({"provider": "slurm"}, "effective_gang_timeout_seconds", 7 * 24 * 3600),
        ({"provider": "slurm", "gang_timeout": "1h"}, "effective_gang_timeout_seconds", 3600),
    ],
)
def test_a_flag_is_read_into_its_meaning(given, name, value):
    assert getattr(launch_flags(**given), name) == value


# --price-file

CLUSTER = ("--provider=kubernetes", "--store=gs://lab/cloudgan")
FILE = """
date: 2026-11-20
source: https://lambda.ai/pricing
nodes:
  - offer: lambda/gpu_8x_v100/us-south-1
    accelerator: v100:8
    usd_per_hour: 4.4
    vcpu: 92
  - {offer: lab/dgx/room-1, accelerator: A100-40GB:8, usd_per_hour: 6, date: "2026-01-02"}
  - {offer: lab/dgx/room-2, accelerator: A100-40GB:8, usd_per_hour: 7}
  - {offer: lab/cpu/room-1, usd_per_hour: 0.2}
"""


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def priced(prices):
    return (*CLUSTER, f"--price-file={prices}")


def test_the_file_prices_a_plan_on_a_cluster_of_your_own(planned, priced):
    plan = planned(*priced, "--accelerator=v100:8", "--budget-usd=300")
    found = [plan["price"][name] for name in ("usd_per_hour", "source", "date")]
    assert found == [4.4, "https://lambda.ai/pricing", "2026-11-20"]
    hours = plan["forecast"]["high_seconds"] / 3600
    assert plan["forecast"]["high_usd"] == pytest.approx(4.4 * hours)
    plan = planned(*priced)
    assert plan["price"]["node_type"] == "cpu", "the node without any accelerator"
    assert plan["workers"]["accelerator"] is None


def test_a_node_that_the_accelerators_do_not_settle_is_named_by_its_offer(planned, priced, refused):
    flags = (*priced, "--accelerator=a100-40gb:8")
    both = "lab/dgx/room-1/on_demand, lab/dgx/room-2/on_demand"
    assert both in refused("plan", *flags)
    plan = planned(*flags, "--price-as=lab/dgx/room-2/on_demand")
    assert plan["price"]["usd_per_hour"] == 7
    assert "no node with 4 x h100" in refused("plan", *priced, "--accelerator=h100:4")


def test_offers_lists_your_own_nodes_beside_the_clouds(cloudgan_here, prices, refused):
    flag = f"--price-file={prices}"
    found = cloudgan_here("offers", "--accelerator=v100", flag, "--json").json()
    (own,) = (one for one in found["offers"] if one["row"]["provider"] == "lambda")
    assert own["row"]["usd_per_hour"] == 4.4
    assert own["expected_seconds"] is not None, "the paper measured 8 V100"
    said = refused("plan", "--provider=gcp", "--accelerator=v100:8", flag)
    assert "--price-file: only valid with an existing" in said
    assert "--price-as=OFFER" in refused("cost", "runs/x", flag)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("usd_per_hour: 4.4", "usd_per_hour: 0", "nodes.0.usd_per_hour is 0"),
        ("usd_per_hour: 4.4", "usd_per_gpu: 4.4", "nodes.0.usd_per_gpu"),
        ("offer: lambda/gpu_8x_v100/us-south-1", "offer: lambda", "provider/node type/region"),
        ("offer: lambda/", "offer: aws/", "from their price lists"),
        ("accelerator: v100:8", "accelerator: 'v100:'", "NAME:COUNT"),
        ("accelerator: v100:8", "accelerator: H100x8", "write NAME:COUNT, here H100:8"),
        ("accelerator: v100:8", "accelerator: 8xA100", "write NAME:COUNT, here A100:8"),
        ("usd_per_hour: 4.4", "usd_per_hour: 3 EUR", "3 EUR': Input should be a valid number"),
        ("date: 2026-11-20", "date: today", "today"),
        ("date: 2026-11-20", "date: 2999-01-02", "prices.yaml: date 2999-01-02 has not come"),
        ("vcpu: 92", "date: 2999-01-02", "date 2999-01-02 has not come"),
        ("date: 2026-11-20", "date: 20.11.2026", "write YYYY-MM-DD or unknown"),
        ("date: 2026-11-20", "", "date"),
        ("room-2", "room-1", "duplicate row of node/lab/dgx/room-1/on_demand/current, see node 2"),
    ],
)
def test_a_file_that_is_not_valid_is_refused_by_its_key(prices, old, new, message):
    assert old in FILE
    prices.write_text(FILE.replace(old, new, 1))
    with pytest.raises((ConfigError, DataError), match=message.replace("(", r"\(")) as refused:
        read_price_file(prices)
    assert "at least 1 item" not in str(refused.value), "there is one, and its fault is named"


# Slurm

SLURM = ("--provider=slurm", "--preset=smoke", "--name=gan")


def test_a_plan_needs_no_slurm_and_names_what_it_would_send(planned, plan_basis, user_folder):
    flags = (*SLURM, "--store=shared", "--queue=gpu", "--accelerator=v100:4", "--nodes=2")
    shown = plan_basis(*flags)
    assert "sbatch slurm/job.sh" in shown
    assert "slurm (queue gpu)" in shown
    found = planned(*SLURM, "--store=shared")
    assert found["store"] == str(user_folder / "shared")
    assert found["limits"]["gang_timeout_seconds"] == 7 * 86400, "jobs may wait for days"
    assert found["workers"]["image"] is None


def test_account_qos_constraint_reservation_and_prologue_are_in_plan_and_script(
    planned, user_folder
):
    (user_folder / "site.sh").write_text("module load cuda/12.5\n")
    found = planned(
        *(*SLURM, "--store=shared", "--account=hep-ml", "--qos=gpu", "--constraint=a100&ib"),
        *("--reservation=week", "--prologue=site.sh", "--memory-per=cpu"),
    )
    assert found["target"]["slurm"]["account"] == "hep-ml"
    bodies = {step["path"]: step["body"] for step in found["steps"]}
    assert bodies["slurm/prologue.sh"] == "module load cuda/12.5\n"
    assert {
        "#SBATCH --account=hep-ml",
        "#SBATCH --qos=gpu",
        "#SBATCH --constraint='a100&ib'",
        "#SBATCH --reservation=week",
        "#SBATCH --mem-per-cpu=2048M",
    } <= set(bodies["slurm/job.sh"].splitlines())


# Files of a plan

NOW = dt.datetime(2026, 11, 21, 9, 30, tzinfo=dt.UTC)
PROGRAMS = {
    "sinfo": 'case "$*" in *%h*) echo "gpu*|NO" ;; *) echo "gpu*|infinite|2|256000|gpu:tesla_v100:4" ;; esac',
    "squeue": "",
    "scancel": "",
    "scontrol": "exit 1",
    "sbatch": 'cp "$2" "$RECEIVED" && env >"$RECEIVED.env" && echo 7',
}
ASKED = (
    *(*SLURM, "--store=shared", "--nodes=2", "--accelerator=v100:4", "--prologue=site.sh"),
    *("--env=LAB_MODE=on", "--secret=LAB_LOGIN", "--data=showers"),
)


@pytest.fixture
def login_node(user_folder, tmp_path, monkeypatch):
    """Stubs of Slurm's programs; sbatch keeps the script and its environment."""
    (tmp_path / "bin").mkdir()
    for name, text in PROGRAMS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.setenv("RECEIVED", str(tmp_path / "received"))
    monkeypatch.setenv("LAB_LOGIN", "pl4nted-secret")
    monkeypatch.setattr("cloudgan.launch.plan.launch_plan.utc_moment", lambda: NOW)
    few_showers(user_folder / "showers")
    (user_folder / "site.sh").write_text("module load cuda\n")
    return user_folder


def test_the_script_of_a_plan_is_what_sbatch_receives(cloudgan_here, login_node, tmp_path):
    cloudgan_here("plan", *ASKED, "--output=made")
    made = {path.name: path for path in (login_node / "made").iterdir()}
    assert set(made) == {"job.sh", "run.yaml", "prologue.sh"}
    subprocess.run(["bash", "-n", "made/job.sh"], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "made/job.sh"], check=True)
    assert "LAB_MODE=on" in made["job.sh"].read_text()
    cloudgan_here("deploy", *ASKED, "--detach", "--yes")
    assert made["job.sh"].read_bytes() == (tmp_path / "received").read_bytes()
    given = Path("shared/runs/gan/slurm/prologue.sh")
    assert made["prologue.sh"].read_bytes() == given.read_bytes()
    assert "gpu:tesla_v100:4" in made["job.sh"].read_text(), "the cluster's own name"


def test_a_secret_is_in_a_private_file_beside_the_script_and_not_in_what_sbatch_gets(
    cloudgan_here, login_node, tmp_path
):
    cloudgan_here("deploy", *ASKED, "--detach", "--yes")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    (secret,) = [path for path in files if b"pl4nted" in path.read_bytes()]
    assert secret == login_node / "shared/runs/gan/slurm/secret/variable.LAB_LOGIN"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert "LAB_MODE" not in (tmp_path / "received.env").read_text()
    cloudgan_here("cancel", "gan")
    assert not secret.exists(), "a job that never started has left it"


# TPU slices

GCP = ("--provider=gcp", "--name=gan", "--epochs=5")


def test_the_program_of_a_tpu_host_is_printed_whole(tmp_path, monkeypatch):
    """A mask of secrets took a variable of its shell for a token, and the JSON was not valid."""
    monkeypatch.chdir(tmp_path)
    words = ("plan", "--provider=gcp", "--accelerator=v5e:4", "--epochs=1", "--json")
    command = [sys.executable, "-m", "cloudgan", *words]
    done = subprocess.run(command, capture_output=True, check=True)
    assert "Authorization: Bearer $token" in json.dumps(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("accelerator", "slice_", "epoch_seconds", "instead"),
    [
        ("tpu-v2:4", "v2-8", 1058.9, "v5litepod-4"),
        ("tpu-v2:16", "v2-32", 261.3, "v5litepod-8"),
        ("tpu-v3:4", "v3-8", 416.3, "v5litepod-4"),
        ("tpu-v3:16", "v3-32", 103.2, "v6e-8"),
    ],
)
def test_the_papers_slices_are_planned_with_its_times_and_the_nearest_that_is_sold(
    planned, accelerator, slice_, epoch_seconds, instead
):
    plan = planned(*GCP, f"--accelerator={accelerator}", "--batch=128")  # as in the paper
    hosts = 4 if slice_.endswith("-32") else 1
    pool = {"node_type": slice_, "engine": "tpu_vm", "hosts": hosts}
    assert plan["node_pool"].items() >= pool.items()
    assert plan["workers"]["nodes"] == 1
    (warning,) = (one for one in plan["warnings"] if "The nearest generally available" in one)
    assert f"has no {slice_} any more" in warning
    assert warning.endswith(instead)
    # The last step of an epoch is a whole one.
    assert plan["forecast"]["epoch_seconds"] == pytest.approx(epoch_seconds, rel=0.02)
    assert any("`-- train --engine=jax` only" in one for one in plan["warnings"]) == (hosts > 1)
    last = plan["steps"][-1]
    assert last["body"]["tpu"]["nodeSpec"][0]["node"]["acceleratorType"] == slice_
    assert "<project>" in last["path"]


def test_a_tpu_vm_gets_no_secret_but_variables(planned, refused, monkeypatch):
    monkeypatch.setenv("LAB_LOGIN", "pl4nted-secret")
    flags = (*GCP, "--accelerator=v5litepod-4", "--env=LAB_MODE=on")
    last = planned(*flags)["steps"][-1]["body"]["tpu"]["nodeSpec"][0]["node"]
    assert "LAB_MODE=on" in last["metadata"]["startup-script"]
    for secret in ("--secret=LAB_LOGIN", "--kubernetes-secrets=LAB_LOGIN"):
        said = refused("plan", *flags, secret, exits=5)
        assert "LAB_LOGIN: Cloud TPU VMs get their settings as instance metadata" in said
    assert planned(*GCP, "--secret=LAB_LOGIN")["node_pool"]["engine"] == "cluster"


def test_a_slice_of_several_vms_is_priced_by_name_and_never_selected_for_auto(planned, refused):
    plan = planned(*GCP, "--accelerator=v5litepod-16")
    assert plan["price"]["usd_per_hour"] > 0
    assert any("`-- train --engine=jax` only" in one for one in plan["warnings"])
    limits = ("--nodes=auto", "--region=us-central1", "--epochs=60", "--max-hours=4")
    said = refused("plan", *GCP[:-1], "--accelerator=tpu-v5e", *limits, exits=5)
    assert "v5litepod-16" not in said, "only a slice of several VMs would be fast enough"
    plan = planned(*GCP, "--accelerator=tpu-v5e:8", "--market=on_demand")
    pool = plan["node_pool"]
    assert (pool["node_type"], pool["market"]) == ("v5litepod-8", "on_demand")
    assert not any("generally available" in one or "tried" in one for one in plan["warnings"])


# Reservations

H100 = "--provider=gcp --region=us-central1 --accelerator=a3-highgpu-8g"


def test_the_price_on_demand_is_shown_with_a_note_that_the_reservation_always_bills(
    planned, plan_basis
):
    flags = ("--name=gan", "--reservation=week", *H100.split())
    found = planned(*flags)
    assert found["node_pool"]["reservation"] == "week"
    assert found["price"]["market"] == "on_demand"
    assert found["cost"]["known_usd"] > 0
    assert any("for as long as it exists" in one for one in found["warnings"])
    assert "on demand, reservation week" in plan_basis(*flags)
    beyond = "the reservation before and after this run"
    assert beyond in found["cost"]["unknown"], "named, and not zero"
    of_run = planned("--name=gan", "--market=on_demand", *H100.split())["cost"]
    assert beyond not in of_run["unknown"]
    assert found["cost"]["known_usd"] == of_run["known_usd"]
