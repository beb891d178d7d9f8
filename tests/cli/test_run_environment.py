"""Environment variables of a run: what is refused, and where values come from."""

import json

import pytest

import cloudgan as cg
from cli.provisioned import few_showers
from cloudgan.core.errors import ConfigError
from cloudgan.launch.plan.request import LaunchRequest

PLANTED = "pl4nted-secret"
TOKEN = f"hf_{'pl4nted'}{'0' * 30}"


@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        ({"env": ("1A=2",)}, "--env=1A: give KEY=VALUE or KEY, where KEY has letters"),
        ({"env": ("A B=2",)}, "--env=A B: give KEY=VALUE"),
        ({"env": ("=2",)}, "give KEY=VALUE"),
        ({"env": ("CLOUDGAN_RUN=x",)}, "CLOUDGAN_RUN is reserved: it tells a worker which one"),
        ({"env": ("JOB_COMPLETION_INDEX=1",)}, "is reserved: it tells a worker"),
        ({"env": ("TF_CONFIG={}",)}, "is reserved: it tells a worker"),
        ({"env": ("KUBERNETES_SERVICE_HOST=x",)}, "Kubernetes, Slurm or MPI sets it"),
        ({"env": ("SLURM_JOB_ID=1",)}, "Kubernetes, Slurm or MPI sets it"),
        ({"env": ("PMI_RANK=1",)}, "Kubernetes, Slurm or MPI sets it"),
        ({"env": ("PATH=/x",)}, "the worker would not start, or load other code"),
        ({"env": ("LD_PRELOAD=/x.so",)}, "the worker would not start, or load other code"),
        ({"env": ("PYTHONPATH=/x",)}, "the worker would not start, or load other code"),
        ({"env": ("CUDA_VISIBLE_DEVICES=0",)}, "it selects accelerators"),
        ({"env": ("BASH_ENV=/x",)}, "it has a meaning in every shell"),
        ({"secrets": ("UID",)}, "--secret=UID is reserved"),
        ({"env": (f"LAB_TOKEN={PLANTED}",)}, "give it as --secret=LAB_TOKEN"),
        ({"env": ("LAB_PASSWORD",)}, "give it as --secret=LAB_PASSWORD"),
        ({"env": (f"LAB_LOGIN={TOKEN}",)}, "give it as --secret=LAB_LOGIN"),
        ({"env": (f"URL=https://marie:{PLANTED}@lab/x",)}, "give it as --secret=URL"),
        ({"secrets": (f"LAB_LOGIN={PLANTED}",)}, "give its name only"),
        ({"env": ("A=1",), "secrets": ("A",)}, "A is given twice"),
        ({"env": (f"A={'x' * 2**17}",)}, "--env=A has 131,074 bytes, and Linux starts no program"),
    ],
)
def test_a_variable_that_no_run_can_have_is_refused(request_of, expected):
    with pytest.raises(ConfigError) as refused:
        LaunchRequest(**request_of)
    assert expected in str(refused.value)
    assert "pl4nted" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nB", "B: give KEY=VALUE or KEY"),
        ("A=1\n\n-=2", "line 3: -: give KEY=VALUE"),
        ("# c\nHOME=/x", "line 2: HOME is reserved"),
        (f"A=1\nLAB_TOKEN={PLANTED}", "line 2: LAB_TOKEN looks like a credential"),
        (f"A={TOKEN}", "line 1: A looks like a credential"),
        ("LAB_LOGIN=x", "has a value of LAB_LOGIN, which --secret names"),
    ],
)
def test_a_line_of_an_env_file_is_refused_by_its_number(user_folder, text, expected):
    (user_folder / "vars.env").write_text(text.replace("\nB", "\n1B"))
    with pytest.raises(ConfigError) as refused:
        cg.plan(env_file="vars.env", secret=["LAB_LOGIN"], preset="smoke")
    assert expected in str(refused.value)
    assert "pl4nted" not in str(refused.value)


def test_values_are_of_the_flag_then_of_the_file_and_a_name_alone_takes_that_of_the_environment(
    user_folder, monkeypatch
):
    (user_folder / "vars.env").write_text("# x\nA=file\nexport B='b # c'\n\nHERE\nEMPTY=\n")
    monkeypatch.setenv("HERE", "value from here")
    plan = cg.plan(env=["A=flag=1"], env_file="vars.env", preset="smoke").plan
    assert plan.workers.env == {
        "A": "flag=1",
        "B": "b # c",
        "HERE": "value from here",
        "EMPTY": "",
    }
    assert cg.plan(preset="smoke").plan.spec_hash == plan.spec_hash, "a run keeps its identity"


@pytest.mark.parametrize(
    ("request_of", "value", "expected"),
    [
        ({"secret": ("LAB_LOGIN",)}, None, "--secret=LAB_LOGIN: LAB_LOGIN is not set"),
        ({"secret": ("LAB_LOGIN",)}, "", "--secret=LAB_LOGIN: LAB_LOGIN is not set"),
        ({"env": ("LAB_LOGIN",)}, None, "--env=LAB_LOGIN: LAB_LOGIN is not set"),
        ({"secret": ("LAB_LOGIN",)}, "ab\ncd ef"[:5], "its value is too short to be masked"),
        ({"secret": ("LAB_LOGIN",)}, "pl4nted\udcff", "its value is not UTF-8"),
        ({"secret": ("LAB_LOGIN",)}, "abc", "its value is too short to be masked"),
    ],
)
def test_a_variable_that_is_not_set_is_named_by_the_plan_and_refused_before_anything_starts(
    user_folder, monkeypatch, request_of, value, expected
):
    monkeypatch.delenv("LAB_LOGIN", raising=False)
    if value is not None:
        monkeypatch.setenv("LAB_LOGIN", value)
    request = {"name": "mine", "preset": "smoke", **request_of}
    warned = any(expected in one for one in cg.plan(**request).plan.warnings)
    assert warned == (not value)
    few_showers(user_folder / "showers")
    before = sorted(user_folder.rglob("*"))
    with pytest.raises(ConfigError, match=expected):
        cg.deploy(data="showers", **request)
    assert sorted(user_folder.rglob("*")) == before


def test_the_value_of_a_secret_is_in_no_plan(user_folder, monkeypatch):
    monkeypatch.setenv("LAB_LOGIN", PLANTED)
    for provider, store in (("kubernetes", "s3://lab/x"), ("slurm", "shared"), ("local", None)):
        request = {"provider": provider, "store": store, "secret": ["LAB_LOGIN"]}
        text = json.dumps(cg.plan(preset="smoke", **request).as_json())
        assert "LAB_LOGIN" in text
        assert PLANTED not in text
