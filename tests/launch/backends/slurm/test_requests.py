import subprocess
from pathlib import Path

import pytest

from cloudgan.launch.backends.slurm.client import parse_comment
from cloudgan.launch.backends.slurm.requests import run_folder, slurm_steps
from cloudgan.schema.config import RunConfig
from cloudgan.schema.plan import Step


def text_of(plan, **how):
    (found,) = (step.body for step in slurm_steps(plan, **how) if step.path == "slurm/job.sh")
    return found


def options_of(plan, **how):
    lines = text_of(plan, **how).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


def values_in(script, *names):
    """Returns the environment of a worker of this script, without Slurm."""
    head = script.partition("# shellcheck shell=bash")[0]
    fake = "work=/node/w; exec() { :; }\n"
    shown = "".join(f'printf "%s\\n" "${{{name}:-}}"\n' for name in names)
    done = subprocess.run(
        ["bash", "-c", head + fake + "worker\n" + shown],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    return done.stdout.splitlines()


def test_a_prologue_runs_before_the_worker_and_its_failure_ends_the_worker_alone(make_plan):
    plan = make_plan(target={"slurm": {"prologue": "export FROM_MODULE=yes\n"}})
    step = next(step for step in slurm_steps(plan) if step.path == "slurm/prologue.sh")
    file = run_folder(plan) / step.path
    file.parent.mkdir(parents=True)
    file.write_text(step.body, encoding="utf-8")
    assert values_in(text_of(plan), "FROM_MODULE", "CLOUDGAN_PORTS") == ["yes", "random"]
    file.write_text("if then fi\n", encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", text_of(plan).partition("# shellcheck shell=bash")[0] + "(worker)"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 2
    assert "cloudgan: the prologue exited with" in done.stderr


def test_the_plan_is_the_first_step_and_the_job_the_last(make_plan):
    found = slurm_steps(make_plan())
    assert [(step.method, step.path) for step in found] == [
        ("PUT", "plan.json"),
        ("PUT", "slurm/run.yaml"),
        ("PUT", "slurm/job.sh"),
        ("RUN", "sbatch slurm/job.sh"),
    ]
    assert all(isinstance(step, Step) for step in found)


def test_a_script_has_the_plans_options(make_plan):
    workers = {"nodes": 3, "cpus": 2.5, "memory_gib": 1.5, "grace_seconds": 45}
    plan = make_plan(
        workers=workers,
        target={"queue": "gpu"},
        limits={"deadline_seconds": 3601},
    )
    options = options_of(plan)
    assert {
        "--job-name=cloudgan-gan",
        "--nodes=3",
        "--ntasks=3",
        "--ntasks-per-node=1",
        "--cpus-per-task=3",
        "--mem=1536M",
        "--time=61",
        "--partition=gpu",
        "--signal=TERM@45",
        "--exclusive",
        "--export=ALL",
        "--requeue",
        "--open-mode=append",
    } <= set(options)
    assert not [one for one in options if one.startswith("--gres")]


@pytest.mark.parametrize(
    ("per", "wanted"),
    [("node", ["--mem=1536M"]), ("cpu", ["--mem-per-cpu=512M"]), ("none", [])],
)
def test_memory_is_asked_per_node_or_per_cpu_or_left_out(make_plan, per, wanted):
    plan = make_plan(
        workers={"cpus": 2.5, "memory_gib": 1.5}, target={"slurm": {"memory_per": per}}
    )
    assert [one for one in options_of(plan) if one.startswith("--mem")] == wanted


@pytest.mark.parametrize(
    ("mode", "workers", "is_exclusive"),
    [("none", {}, False), ("gem", {}, True), ("gem", {"allow_open_ports": True}, False)],
)
def test_ranks_on_one_node_need_it_alone_because_mpi_listens(
    make_plan, mode, workers, is_exclusive
):
    config = RunConfig.model_validate(
        {"name": "gan", "model": {"preset": "smoke"}, "parallel": {"mode": mode}}
    )
    plan = make_plan(config=config, workers={"nodes": 1, **workers})
    assert ("--exclusive" in options_of(plan)) is is_exclusive
    assert f"exclusive={'yes' if is_exclusive else 'no'}" in text_of(plan)


def test_accelerators_are_requested_by_name_or_gres(make_plan):
    plan = make_plan(workers={"accelerator": "V100", "accelerators_per_node": 4})
    assert "--gres=gpu:v100:4" in options_of(plan)
    assert "--gres=gpu:tesla_v100:4" in options_of(plan, gres="gpu:tesla_v100:4")


def test_a_comment_has_labels_and_a_folder_with_commas(make_plan, tmp_path):
    plan = make_plan(store=str(tmp_path / "a, b"))
    (comment,) = (one for one in options_of(plan) if one.startswith("--comment="))
    found = parse_comment(comment.removeprefix("--comment='").removesuffix("'"))
    assert found == plan.labels().as_dict() | {"cloudgan-folder": str(run_folder(plan))}


def test_a_workers_environment_is_a_pods_with_shared_folders(make_plan, tmp_path):
    store = tmp_path / "it's $HOME"
    plan = make_plan(store=str(store))
    names = ("CLOUDGAN_STORE", "CLOUDGAN_CONFIG", "CLOUDGAN_WORK", "TMPDIR", "CLOUDGAN_WORLD")
    assert values_in(text_of(plan), *names) == [
        str(store),
        str(store / "runs" / "gan" / "slurm" / "run.yaml"),
        "/node/w",
        "/node/w",
        "2",
    ]
    assert values_in(text_of(plan), "HOME", "CLOUDGAN_PEERS", "PYTHONPATH") == ["", "", ""]
    assert "exec '/a b/python' -m cloudgan worker" in text_of(plan, python="/a b/python")


def test_a_run_with_a_bucket_uses_the_local_runs_folder(make_plan):
    plan = make_plan(store="s3://bucket/prefix")
    assert run_folder(plan, Path("/shared/runs")) == Path("/shared/runs/gan")
    assert "folder=/shared/runs/gan/slurm" in text_of(plan, runs=Path("/shared/runs"))


@pytest.mark.parametrize("store", ["s3://bucket/prefix", "/shared/a b"])
def test_bash_and_shellcheck_accept_a_script(make_plan, tmp_path, store):
    path = tmp_path / "job.sh"
    path.write_text(text_of(make_plan(store=store)), encoding="utf-8")
    subprocess.run(["bash", "-n", path], check=True)
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_percent_sign_in_a_folder_is_escaped(make_plan):
    (output,) = (o for o in options_of(make_plan(store="/s/100%")) if o.startswith("--output="))
    assert output == "--output=/s/100%%/runs/gan/slurm/job-%j.log"
