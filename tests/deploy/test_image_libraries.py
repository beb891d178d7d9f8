"""The folder of NVIDIA's libraries in deploy/Dockerfile, without a build."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

DOCKERFILE = (Path(__file__).parents[2] / "deploy" / "Dockerfile").read_text(encoding="utf-8")


def test_the_loader_of_the_image_finds_the_libraries_of_the_wheels_and_gkes_driver(tmp_path):
    (step,) = re.findall(
        r"^RUN (mkdir /opt/cloudgan/nvidia .*?done)$", DOCKERFILE, re.MULTILINE | re.DOTALL
    )
    for name in ("cudnn/lib/libcudnn.so.9", "cusolver/lib/libcusolver.so.11", "cudnn/lib/a.txt"):
        path = tmp_path / "lib/python3.12/site-packages/nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    command = step.replace("/opt/cloudgan", str(tmp_path))
    subprocess.run(["sh", "-euc", command], check=True)
    links = sorted((tmp_path / "nvidia").iterdir())
    assert [link.name for link in links] == ["libcudnn.so.9", "libcusolver.so.11"]
    assert all(link.resolve().is_file() for link in links)
    assert "LD_LIBRARY_PATH=/opt/cloudgan/nvidia:/usr/local/nvidia/lib64 " in DOCKERFILE
    assert "PATH=/opt/cloudgan/bin:$PATH:/usr/local/nvidia/bin " in DOCKERFILE


def test_an_image_without_nvidias_wheels_has_an_empty_folder(tmp_path):
    (step,) = re.findall(
        r"^RUN (mkdir /opt/cloudgan/nvidia .*?done)$", DOCKERFILE, re.MULTILINE | re.DOTALL
    )
    subprocess.run(["sh", "-euc", step.replace("/opt/cloudgan", str(tmp_path))], check=True)
    assert list((tmp_path / "nvidia").iterdir()) == []
