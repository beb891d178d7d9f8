"""`cloudgan plan`: the plan of a deployment, without any request or file."""

import base64
import json

import kubernetes_validate
import pytest
import yaml

from cli.provisioned import few_showers
from cloudgan.launch.operations.launched_run import where_of
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.schema.plan import Plan

CLUSTER = ("plan", "--provider=kubernetes", "--store=gs://lab/cloudgan")
OFFER = "gcp/n1-standard-64+8xV100/us-central1/spot"


def test_a_plan_lists_run_target_workers_duration_cost_and_requests(cloudgan_here, user_folder):
    flags = (
        "--nodes=4",
        "--accelerator=v100:8",
        f"--price-as={OFFER}",
        "--max-hours=12",
        "--name=big",
    )
    said = cloudgan_here(*CLUSTER, *flags).stdout
    plan = Plan.model_validate_json(cloudgan_here(*CLUSTER, *flags, "--json").stdout)
    lines = PlanResult(plan=plan).view().basis
    fields = {line.partition(" ")[0]: line.partition(" ")[2].strip() for line in reversed(lines)}
    assert said.startswith("Plan big: train paper, 60 epochs, on 4 nodes of 8 x V100")
    assert fields["target"] == "kubernetes (context lab, namespace cloudgan)"
    assert fields["workers"] == "4 x (8 x V100, 48 cores, 128 GiB)"
    assert fields["image"].startswith("python:3.11-slim, installs 1 wheel and others")
    assert fields["store"] == "gs://lab/cloudgan"
    assert fields["data"].startswith("124987 showers")
    assert fields["duration"].startswith("measured: ")
    assert fields["price"].startswith(f"{OFFER}, https://")
    assert "limits   12 h at most (--max-hours=12)" in said
    made = [line.replace(":", " ").split()[1:3] for line in lines if line.startswith("request")]
    kinds = ["Namespace", "ConfigMap", "NetworkPolicy", "Service", "Job"]
    assert [kind for kind, name in made if kind in kinds and name in ("cloudgan", "big")] == kinds
    probe = ["NetworkPolicy", "Service", "Job"]
    assert [kind for kind, name in made if name == "big-ports"] == probe
    last = [["NetworkPolicy", "is"], ["Job", "big"], ["Secret", "big"]]
    assert made[-3:] == last, "workers start after the test"
    assert list(user_folder.iterdir()) == [], "it was a plan only"


def test_without_data_the_plan_assumes_the_papers_and_says_so(cloudgan_here, user_folder):
    out = cloudgan_here(*CLUSTER).stdout.splitlines()
    assert out[0].endswith("showers assumed (no --data)")
    assert "  data     the paper's 124,987 showers are assumed: give --data=FILE.h5" in out


def test_a_plan_as_json_is_one_object_and_the_same_each_time(cloudgan_here, user_folder):
    first, second = (cloudgan_here(*CLUSTER, "--json").stdout for _ in range(2))
    plan = json.loads(first)
    assert plan["spec_hash"] == json.loads(second)["spec_hash"]
    assert plan["owner"] == "marie"
    assert plan["run"].startswith("mini-")
    assert plan["price"] is plan["forecast"]["low_usd"] is None, "unknown is never zero"
    assert [step["method"] for step in plan["steps"]] == ["POST"] * 5


@pytest.mark.parametrize(
    ("flags", "gpus", "preset"),
    [
        ("--provider=local", 0, "mini"),
        ("--provider=local", 1, "paper"),
        ("--provider=local --preset=smoke", 1, "smoke"),
        ("--provider=kubernetes --store=gs://lab/x", 1, "mini"),
        ("--provider=kubernetes --store=gs://lab/x --accelerator=v100:8", 0, "paper"),
        (f"--provider=kubernetes --store=gs://lab/x --price-as={OFFER}", 0, "paper"),
        ("--provider=gcp --project=my-lab --nodes=1", 0, "paper"),
        ("--provider=gcp --project=my-lab --nodes=1 --accelerator=l4", 0, "paper"),
        ("--provider=local --config=run.yaml", 0, "mini"),
        ("--provider=local --config=preset.yaml", 0, "fixed25"),
        ("--provider=kubernetes --store=gs://lab/x --accelerator=v100 -- evolve", 0, "mini"),
    ],
)
def test_without_a_preset_nodes_without_an_accelerator_train_mini_and_others_paper(
    cloudgan_here, user_folder, tmp_path, monkeypatch, *, flags, gpus, preset
):
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\n" + "echo 'NVIDIA L4, 23034'\n" * gpus)
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(smi.parent))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (user_folder / "run.yaml").write_text("training: {epochs: 2}")
    (user_folder / "preset.yaml").write_text("model: {preset: fixed25}")
    plan = cloudgan_here("plan", "--json", *flags.split()).json()
    assert plan["config"]["model"]["preset"] == preset


@pytest.mark.parametrize(
    ("file", "flags", "preset", "dropout"),
    [
        ("model: {dropout: 0.25}", "", "mini", 0.25),
        ("model: {dropout: 0.25}", "--preset=smoke", "smoke", 0.25),
        ("model: {preset: paper, dropout: 0.25}", "", "paper", 0.25),
        ("model: {preset: paper, dropout: 0.25}", "--preset=smoke", "smoke", 0.2),
    ],
)
def test_keys_of_a_network_in_run_yaml_apply_unless_another_preset_is_asked_for(
    *, planned, user_folder, file, flags, preset, dropout
):
    (user_folder / "run.yaml").write_text(file)
    model = planned("--provider=local", "--config=run.yaml", *flags.split())["config"]["model"]
    assert (model["preset"], model["dropout"]) == (preset, dropout)


def test_the_shape_of_images_needs_no_preset(planned):
    model = planned("--provider=local", "--image-shape=25x25x25")["config"]["model"]
    assert (model["preset"], model["image_shape"]) == ("mini", [25, 25, 25])


def test_output_is_what_kubectl_takes_and_nothing_else(cloudgan_here, user_folder):
    said = cloudgan_here(*CLUSTER, "--nodes=2", "--output=made")
    assert "written to made" in said.stderr.splitlines()
    paths = sorted((user_folder / "made").iterdir())
    kinds = []
    for path in paths:  # kubectl reads every .json, .yaml and .yml of a folder, in this order
        body = yaml.safe_load(path.read_text())
        kubernetes_validate.validate(body, "1.32", strict=True)
        kinds.append(body["kind"])
        if body["kind"] == "ConfigMap":
            plan = json.loads(body["data"]["plan.json"])
    assert kinds == ["Namespace", "ConfigMap", "NetworkPolicy", "Service", "Job", "Secret"]
    assert len(base64.b64decode(body["data"]["key"])) == 64
    assert paths[-1].stat().st_mode & 0o077 == 0
    assert body["data"]["key"] not in said.stdout + said.stderr
    assert plan["workers"]["nodes"] == 2, "the desired state is complete"


def test_too_few_held_out_showers_are_refused_before_anything_is_created(
    cloudgan_here, user_folder, tmp_path
):
    few_showers(tmp_path / "showers")
    flags = (f"--data={tmp_path / 'showers'}", "--validate-every=1")
    assert "of 8 are held out" in cloudgan_here(*CLUSTER, *flags, exits=2).stderr
    assert list(user_folder.iterdir()) == []


def test_without_a_kubeconfig_a_plan_for_a_cluster_says_what_to_set(refused, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert "set KUBECONFIG" in refused(*CLUSTER)


def test_an_offer_says_which_accelerators_a_node_has(user_folder, planned):
    plan = planned(*CLUSTER[1:], f"--price-as={OFFER}")
    assert plan["workers"]["accelerator"] == "V100"
    assert plan["workers"]["accelerators_per_node"] == 8


def test_default_requests_leave_a_share_of_a_small_node(user_folder, planned):
    """The system of a node uses a part, so no node could run a pod that requests all of it."""
    offer = "--price-as=gcp/g2-standard-4/us-central1/spot"
    workers = planned(*CLUSTER[1:], offer)["workers"]
    assert (workers["cpus"], workers["memory_gib"]) == (3, 12)


def test_an_accelerator_is_spelt_as_the_catalogue_does(user_folder, planned):
    plans = [planned(*CLUSTER[1:], f"--accelerator={name}:8") for name in ("v100", "V100")]
    assert plans[0]["workers"] == plans[1]["workers"]
    assert plans[0]["spec_hash"] == plans[1]["spec_hash"]
    assert plans[0]["forecast"]["epoch_seconds"], "8 V100 were measured"


@pytest.mark.parametrize(
    ("store", "endpoint", "port"),
    [
        ("s3://lab/x", "http://minio.lab:9000", 9000),
        ("s3://lab/x", "http://minio.lab", 80),
        ("s3://lab/x", "https://minio.lab", 443),
        ("s3://lab/x", "", 443),
        ("gs://lab/x", "http://minio.lab:9000", 443),
    ],
)
@pytest.mark.usefixtures("user_folder")
def test_pods_may_reach_the_port_of_a_store_of_ones_own(
    cloudgan_here, monkeypatch, store, endpoint, port
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    plan = cloudgan_here(*CLUSTER[:2], f"--store={store}", "--json").json()
    assert plan["store_port"] == port


def test_the_plan_of_a_run_here_has_processes_and_no_price(cloudgan_here, user_folder):
    out = cloudgan_here("plan", "--nodes=2", "--preset=smoke").stdout
    assert out.startswith("Plan smoke-")
    assert "train smoke, 60 epochs, on this machine, 2 workers" in out
    assert "total    unknown: --price-as=OFFER gives the price of the nodes" in out
    assert list(user_folder.iterdir()) == []


def test_a_plan_names_the_steps_that_end_a_training_before_its_epochs(cloudgan_here, user_folder):
    out = cloudgan_here("plan", "--nodes=2", "--preset=smoke", "--epochs=1", "--max-steps=3").stdout
    assert "train smoke, 1 epoch or 3 steps, on this machine, 2 workers" in out


@pytest.mark.parametrize(
    ("provider", "nodes", "where"),
    [
        ("local", 1, "this machine"),
        ("local", 2, "this machine, 2 nodes"),
        ("slurm", 2, "slurm 2 nodes"),
    ],
)
def test_a_launched_run_says_where_it_is(plan_of, provider, nodes, where):
    plan = plan_of()
    target = plan.target.model_copy(update={"provider": provider})
    workers = plan.workers.model_copy(update={"nodes": nodes})
    assert where_of(plan.model_copy(update={"target": target, "workers": workers})) == where


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_tracker_with_a_server_needs_an_image_that_has_its_package(refused, cloudgan_here, name):
    said = refused(*CLUSTER, f"--track={name}")
    assert f"image and wheels have no {name}; give an --image" in said
    out = cloudgan_here(*CLUSTER, f"--track={name}", "--image=lab/gan:1", "--json").stdout
    (warning,) = (one for one in json.loads(out)["warnings"] if "--track" in one)
    assert f"the image must have {name}, which nothing checks" in warning
    cloudgan_here(*CLUSTER, "--track=tensorboard")
    cloudgan_here("plan", "--nodes=1", f"--track={name}")


def test_the_secret_of_a_private_registry_is_in_the_plan_of_a_cluster(cloudgan_here, user_folder):
    out = cloudgan_here(*CLUSTER, "--image=lab/gan:1", "--image-pull-secret=lab", "--json").stdout
    plan = json.loads(out)
    assert plan["workers"]["pull_secret"] == "lab"  # noqa: S105  its name
    (job,) = (step["body"] for step in plan["steps"] if step["ensure"].startswith("Job"))
    assert job["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "lab"}]
