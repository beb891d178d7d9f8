"""Local workers never share a GPU. A program on the PATH answers as NVIDIA's does."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.training.gpu_share import share_gpus

pytestmark = pytest.mark.tf


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


def test_each_worker_gets_its_own_part(driver):
    driver(4)
    parts = [part["CUDA_VISIBLE_DEVICES"] for part in share_gpus(2)]
    assert parts == ["0,1", "2,3"]


def test_what_the_user_hid_stays_hidden(driver, monkeypatch):
    driver(4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 3")
    assert share_gpus(2) == [{"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "3"}]


def test_without_a_gpu_or_with_all_hidden_nothing_is_set(driver, monkeypatch):
    driver(0)
    assert share_gpus(2) == [{}, {}]
    driver(4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert share_gpus(2) == [{}, {}]


def test_workers_that_do_not_divide_the_gpus_are_refused(driver):
    driver(3)
    with pytest.raises(ConfigError, match="2 workers cannot share 3 GPUs"):
        share_gpus(2)
