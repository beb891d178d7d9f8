"""Plans of the paper's TPU experiments, and of TPUs that are available today; no login, no network."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

GCP = ("plan", "--provider=gcp", "--name=gan", "--epochs=5")


def planned(cloudgan_here, accelerator, *flags):
    return json.loads(cloudgan_here(*GCP, f"--accelerator={accelerator}", *flags, "--json").stdout)


def test_the_program_of_a_tpu_host_is_printed_whole(tmp_path, monkeypatch):
    """A mask of secrets took a variable of its shell for a token, and the JSON was not valid."""
    monkeypatch.chdir(tmp_path)
    words = ("plan", "--provider=gcp", "--accelerator=v5e:4", "--epochs=1", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "cloudgan", *words], capture_output=True, check=True
    )
    assert "Authorization: Bearer $token" in json.dumps(json.loads(done.stdout))


PAPER = {
    "tpu-v2:4": ("v2-8", 1058.9, "v5litepod-4"),
    "tpu-v2:16": ("v2-32", 261.3, "v5litepod-8"),
    "tpu-v3:4": ("v3-8", 416.3, "v5litepod-4"),
    "tpu-v3:16": ("v3-32", 103.2, "v6e-8"),
}
"""Slice, seconds of an epoch as the paper's runs measured them, and the nearest that is sold."""


@pytest.mark.parametrize("accelerator", PAPER)
def test_the_papers_slices_are_planned_with_its_times_and_their_replacement(
    cloudgan_here, user_folder, accelerator
):
    slice_, epoch_seconds, instead = PAPER[accelerator]
    plan = planned(cloudgan_here, accelerator, "--batch=128")  # per replica, as in the paper
    assert plan["node_pool"]["node_type"] == slice_
    assert plan["node_pool"]["engine"] == "tpu_vm"
    assert plan["workers"]["nodes"] == 1
    (warning,) = (one for one in plan["warnings"] if "The nearest generally available" in one)
    assert f"has no {slice_} any more" in warning
    assert warning.endswith(instead)
    # The last step of an epoch is a whole one.
    assert plan["forecast"]["epoch_seconds"] == pytest.approx(epoch_seconds, rel=0.02)
    hosts = 4 if slice_.endswith("-32") else 1
    assert plan["node_pool"]["hosts"] == hosts
    assert any("`deploy` refuses it" in one for one in plan["warnings"]) == (hosts > 1)
    node = plan["steps"][-1]["body"]["tpu"]["nodeSpec"][0]["node"]
    assert node["acceleratorType"] == slice_
    assert "<project>" in plan["steps"][-1]["path"]


def test_a_tpu_vm_gets_no_secret_but_variables(cloudgan_here, user_folder, monkeypatch):
    monkeypatch.setenv("LAB_LOGIN", "pl4nted-secret")
    flags = ("--accelerator=v5litepod-4", "--env=LAB_MODE=on")
    (step,) = json.loads(cloudgan_here(*GCP, *flags, "--json").stdout)["steps"][-1:]
    metadata = step["body"]["tpu"]["nodeSpec"][0]["node"]["metadata"]
    assert "LAB_MODE=on" in metadata["startup-script"]
    for secret in ("--secret=LAB_LOGIN", "--kubernetes-secrets=LAB_LOGIN"):
        said = cloudgan_here(*GCP, *flags, secret, exits=5).stderr
        assert "LAB_LOGIN: Cloud TPU VMs get their settings as instance metadata" in said
    plan = json.loads(cloudgan_here(*GCP, "--secret=LAB_LOGIN", "--json").stdout)
    assert plan["node_pool"]["engine"] == "cluster"


def test_a_slice_of_several_vms_is_priced_by_name_and_never_selected_for_auto(
    cloudgan_here, user_folder
):
    plan = planned(cloudgan_here, "v5litepod-16")
    assert plan["price"]["usd_per_hour"] > 0
    assert any("`deploy` refuses it" in one for one in plan["warnings"])
    limits = ("--nodes=auto", "--region=us-central1", "--epochs=60", "--max-hours=4")
    said = cloudgan_here(*GCP[:-1], "--accelerator=tpu-v5e", *limits, exits=5).stderr
    assert "v5litepod-16" not in said, "only the slice that `deploy` refuses would be fast enough"


def test_a_current_slice_has_no_warning(cloudgan_here, user_folder):
    plan = planned(cloudgan_here, "tpu-v5e:8", "--market=on_demand")
    assert plan["node_pool"]["node_type"] == "v5litepod-8"
    assert plan["node_pool"]["market"] == "on_demand"
    assert not any("generally available" in one or "tried" in one for one in plan["warnings"])


@pytest.mark.parametrize("accelerator", ["tpu7x:8", "tpu-v7:4", "tpu7x"])
def test_the_seventh_generation_is_refused_in_one_sentence(cloudgan_here, user_folder, accelerator):
    said = cloudgan_here(*GCP, f"--accelerator={accelerator}", exits=5).stderr
    assert said.count("\n") == 1
    assert "TensorFlow cannot train on tpu" in said
    assert "--accelerator=tpu-v6e:8" in said


def test_several_slices_are_refused(cloudgan_here, user_folder):
    said = cloudgan_here(*GCP, "--accelerator=tpu-v3:4", "--nodes=2", exits=5).stderr
    assert "a TPU slice is one node" in said
