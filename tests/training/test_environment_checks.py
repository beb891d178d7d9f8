"""Warnings of settings that make a run slow; refusal of a setting that ends it without a message."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.training.environment_checks import (
    Machine,
    environment_warnings,
    refuse_aborting_settings,
)


def machine(*features, gpus=0):
    return Machine(frozenset(features), gpus)


OLD = machine("avx2")
NEW = machine("avx2", "avx512f", "avx512_bf16")
GPU = machine("avx2", "avx512f", gpus=1)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")
    for name in ("TF_XLA_FLAGS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("precision", ["bfloat16", "mixed"])
@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"])
def test_bfloat16_with_instructions_that_end_the_process_is_refused(monkeypatch, precision, name):
    refuse_aborting_settings(precision, NEW)
    monkeypatch.setenv(name, "AVX2")
    with pytest.raises(ConfigError, match=r"Unset ONEDNN_MAX_CPU_ISA, or use --precision=float32"):
        refuse_aborting_settings(precision, NEW)
    refuse_aborting_settings("float32", NEW)
    refuse_aborting_settings(precision, OLD)
    refuse_aborting_settings(precision, GPU)
    monkeypatch.setenv(name, "AVX512_CORE_BF16")
    refuse_aborting_settings(precision, NEW)


@pytest.mark.parametrize(
    ("precision", "variables", "said"),
    [
        ("float32", {"TF_ENABLE_ONEDNN_OPTS": "0"}, "two to three times as long"),
        ("float32", {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"}, "16 times"),
        ("bfloat16", {}, "6 to 16 times"),
        ("mixed", {}, "so float32 is used"),
    ],
)
def test_what_makes_a_run_many_times_slower_is_a_warning(monkeypatch, precision, variables, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (sentence,) = environment_warnings(precision, OLD)
    assert said in sentence
    assert environment_warnings(precision, GPU) == ()


def test_settings_without_a_problem_give_no_warning(monkeypatch):
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=2")
    for precision in ("float32", "float64", "bfloat16", "mixed"):
        assert environment_warnings(precision, NEW) == ()
    assert environment_warnings("float32", OLD) == ()
