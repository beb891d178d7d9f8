from __future__ import annotations

import pytest

from cloudgan.launch.plan.build import all_steps, make_plan, with_node_pool
from cloudgan.speed.throughput_model import build_throughput_model

WAITING = "import time\nprint('training', flush=True)\ntime.sleep(600)\n"


@pytest.fixture(scope="session")
def rented_plan_of(asked_of):
    """Makes the plan of a run on provisioned nodes."""
    unknown = build_throughput_model("paper", 1000, ())

    def build(*, rent, **asked):
        built, noon = asked_of(**asked)
        return make_plan(with_node_pool(built, rent), unknown, all_steps, noon)

    return build


@pytest.fixture
def lab(tmp_path, rented_plan_of):
    """An emulated subscription after `setup`; its pods only wait and train nothing."""
    pytest.importorskip("azure.mgmt.containerservice")
    from emulators.azure import small_azure
    from emulators.kubernetes import Image, python_image
    from launch.clouds.azure.lab import IMAGE, Lab

    stub = tmp_path / "stub.py"
    stub.write_text(WAITING)
    python = python_image()
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec "{python.programs["python"]}" "{stub}"\n')
    program.chmod(0o755)
    with small_azure(tmp_path, {IMAGE: Image({"python": str(program)}, python.env)}) as azure:
        made = Lab(azure, rented_plan_of, tmp_path, [])
        made.set_up()
        yield made
