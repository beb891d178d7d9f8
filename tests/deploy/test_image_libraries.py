"""The folder of NVIDIA's libraries in deploy/Dockerfile, without a build."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

DOCKERFILE = (Path(__file__).parents[2] / "deploy" / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("has_wheels", [True, False])
def test_the_loader_of_the_image_finds_the_libraries_of_nvidias_wheels_if_it_has_them(
    tmp_path, has_wheels
):
    (step,) = re.findall(
        r"^RUN (mkdir /opt/cloudgan/nvidia .*?done)$", DOCKERFILE, re.MULTILINE | re.DOTALL
    )
    names = ("cudnn/lib/libcudnn.so.9", "cusolver/lib/libcusolver.so.11", "cudnn/lib/a.txt")
    for name in names if has_wheels else ():
        path = tmp_path / "lib/python3.12/site-packages/nvidia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    subprocess.run(["sh", "-euc", step.replace("/opt/cloudgan", str(tmp_path))], check=True)
    links = sorted((tmp_path / "nvidia").iterdir())
    found = ["libcudnn.so.9", "libcusolver.so.11"] if has_wheels else []
    assert [link.name for link in links] == found
    assert all(link.resolve().is_file() for link in links)


def test_the_image_has_them_and_those_of_gkes_driver_on_its_paths():
    assert "LD_LIBRARY_PATH=/opt/cloudgan/nvidia:/usr/local/nvidia/lib64 " in DOCKERFILE
    assert "PATH=/opt/cloudgan/bin:$PATH:/usr/local/nvidia/bin " in DOCKERFILE
