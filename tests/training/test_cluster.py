"""TF_CONFIG, the GPUs of each worker, and settings that make a run slow or end it without a message."""

from __future__ import annotations

import json
import os
import sys

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.core.progress import Silent
from cloudgan.schema.config import RunConfig
from cloudgan.training.cluster import (
    check_environment,
    prepare_environment,
    read_cluster,
    share_gpus,
)
from records import numerics

pytestmark = pytest.mark.tf


def text(cluster, kind, index):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def test_without_tf_config_a_process_is_alone():
    assert read_cluster(None) is None
    assert read_cluster("") is None


@pytest.mark.parametrize(
    ("peers", "tasks", "workers"),
    [
        ({"worker": ["a:1", "b:1"]}, (("worker", 0), ("worker", 1)), ("a:1", "b:1")),
        ({"chief": ["c:1"], "worker": ["a:1"]}, (("chief", 0), ("worker", 0)), ("c:1", "a:1")),
    ],
)
def test_the_chief_is_the_first_worker_or_the_one_that_is_named(peers, tasks, workers):
    found = [read_cluster(text(peers, *task)) for task in tasks]
    assert [(one.index, one.is_chief) for one in found] == [(0, True), (1, False)]
    assert {one.workers for one in found} == {workers}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "expected a cluster and a task"),
        ("[]", "expected a cluster and a task"),
        ('{"cluster": {}}', "expected a cluster and a task"),
        (text({"worker": ["a:1"]}, "ps", 0), "'ps'"),
        (text({"worker": ["a:1"]}, "worker", 1), "worker 1 of 1"),
        ("[" * 100_000, "TF_CONFIG: not JSON: nested"),
        (text({"worker": "abc"}, "worker", 0), "cluster.worker is 'abc'"),
        (text({"worker": [5]}, "worker", 0), "cluster.worker.0 is 5"),
        (text({"worker": ["a"]}, "worker", 0), "'a' is not an address"),
        (text({"worker": ["a:99999"]}, "worker", 0), "'a:99999' is not an address"),
        (text({"worker": []}, "worker", 0), "cluster.worker"),
        (text({"worker": ["a:1"], "chief": 5}, "worker", 0), "cluster.chief is 5"),
        (text({"worker": ["a:1"]}, ["worker"], 0), "task.type"),
        (text({"worker": ["a:1"]}, "worker", -1), "task.index is -1"),
        (text({"worker": ["a:1"]}, "worker", float("inf")), "task.index is inf"),
        (text({"worker": ["a:1"]}, "worker", 0).replace("0", "9" * 5000), "not JSON"),
    ],
)
def test_a_tf_config_that_says_nothing_usable_is_refused(given, said):
    with pytest.raises(ConfigError, match=said):
        read_cluster(given)


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """Puts an nvidia-smi that lists `count` GPUs on the PATH."""

    def install(count):
        program = tmp_path / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + "echo 'NVIDIA V100, 16384'\n" * count)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return install


@pytest.mark.parametrize(
    ("count", "visible", "parts"),
    [
        (4, None, ["0,1", "2,3"]),
        (4, "1, 3", ["1", "3"]),  # what the user hid stays hidden
        (0, None, None),
        (4, "-1", None),
    ],
)
def test_each_worker_gets_its_own_part_of_the_gpus_it_may_see(
    driver, monkeypatch, count, visible, parts
):
    driver(count)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    wanted = [{"CUDA_VISIBLE_DEVICES": part} for part in parts] if parts else [{}, {}]
    assert share_gpus(2) == wanted


def test_workers_that_do_not_divide_the_gpus_are_refused(driver):
    driver(3)
    with pytest.raises(ConfigError, match="2 workers cannot share 3 GPUs"):
        share_gpus(2)


OLD = frozenset({"avx2"}), 0
NEW = frozenset({"avx2", "avx512f", "avx512_bf16"}), 0
GPU = frozenset({"avx2", "avx512f"}), 1


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    for name in ("TF_XLA_FLAGS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)


@pytest.mark.parametrize("precision", ["bfloat16", "mixed"])
@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_bfloat16_with_instructions_that_end_the_process_is_refused(monkeypatch, precision, name):
    assert check_environment(precision, *NEW) == []
    monkeypatch.setenv(name, "AVX2")
    with pytest.raises(ConfigError, match=r"Unset ONEDNN_MAX_CPU_ISA, or use --precision=float32"):
        check_environment(precision, *NEW)
    for other, machine in (("float32", NEW), (precision, OLD), (precision, GPU)):
        check_environment(other, *machine)
    monkeypatch.setenv(name, "AVX512_CORE_BF16")
    assert check_environment(precision, *NEW) == []


@pytest.mark.parametrize(
    ("precision", "variables", "said"),
    [
        ("float32", {"TF_ENABLE_ONEDNN_OPTS": "0"}, "two to three times as long"),
        ("float32", {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"}, "16 times"),
        ("bfloat16", {}, "6 to 16 times"),
        ("mixed", {}, "so float32 is used"),
        ("float32", {}, ""),
        ("float32", {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2"}, ""),
    ],
)
def test_what_makes_a_run_many_times_slower_is_a_warning(monkeypatch, precision, variables, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = check_environment(precision, *OLD)
    assert [said in sentence for sentence in found] == [True] * bool(said)
    assert check_environment(precision, *GPU) == []


@pytest.mark.parametrize(
    ("given", "xla", "instructions"),
    [
        ({}, "--tf_xla_auto_jit=2", "AVX2"),
        ({"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_max_cluster_size=9"}, None, "AVX2"),
        ({"TF_XLA_FLAGS": "--tf_xla_auto_jit=0", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}, None, None),
    ],
)
def test_a_resumed_run_takes_the_options_of_its_checkpoint_and_changes_no_variable_of_the_user(
    monkeypatch, given, xla, instructions
):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    saved = numerics(instructions="AVX2", xla=True, threads=3, conv_impl="phases")
    assert prepare_environment(RunConfig(), saved, Silent(), processes=1) == ("phases", 3)
    assert os.environ["TF_XLA_FLAGS"] == (xla or given["TF_XLA_FLAGS"])
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == (instructions or given["ONEDNN_MAX_CPU_ISA"])
