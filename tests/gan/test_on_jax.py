"""The networks under JAX: the same functions as under TensorFlow, and as exact in bfloat16."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from gan.answers import SMOKE, answers

NEEDS_JAX = pytest.mark.skipif(not find_spec("jax"), reason="JAX is not installed")
pytestmark = [pytest.mark.tf, NEEDS_JAX]
ROOT = Path(__file__).parents[2]
POLICIES = ("float32", "mixed_bfloat16")


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """Results under JAX, by policy."""
    folder = tmp_path_factory.mktemp("answers")
    environment = os.environ | {
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",  # compiles in a fraction of the time
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    program = Path(__file__).parent / "answers.py"
    done = subprocess.run(
        [sys.executable, program, folder, *POLICIES],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for policy in POLICIES:
        with np.load(folder / f"{policy}.npz") as archive:
            found[policy] = dict(archive)
    return found


# In bfloat16 TensorFlow's convolutions on a CPU round their sums too: up to 5 % of a gradient.
@pytest.mark.parametrize(("policy", "apart"), [("float32", 1e-5), ("mixed_bfloat16", 0.1)])
def test_networks_and_phase_convolution_agree_under_jax_and_tensorflow(answered, policy, apart):
    ours, theirs = answered[policy], answers(policy)
    assert ours.keys() == theirs.keys()
    for name in set(ours) - {"types"}:
        size = np.linalg.norm(theirs[name])
        assert np.linalg.norm(ours[name] - theirs[name]) <= apart * size, name
    assert json.loads(str(ours["types"])) == json.loads(str(theirs["types"]))


def test_the_phase_form_is_the_plain_convolution_under_jax_in_value_and_gradient(answered):
    arrays = answered["float32"]
    np.testing.assert_allclose(arrays["phases"], arrays["published"], rtol=1e-4, atol=1e-5)
    gradients = arrays["phases gradient"], arrays["published gradient"]
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-4)


def test_in_bfloat16_convolutions_alone_are_rounded_and_no_weight_is(answered):
    kinds = json.loads(str(answered["mixed_bfloat16"]["types"]))
    exact = {name for name, (compute, *_) in kinds.items() if compute == "float32"}
    assert exact == {
        "generator output",
        "discriminator real",
        "discriminator energy",
        "discriminator measure",
    }
    assert {kind for _, *weights in kinds.values() for kind in weights} == {"float32"}
    assert kinds["generator conv0"][0] == "bfloat16"


def test_in_bfloat16_angle_and_sum_are_measured_as_in_float32(answered):
    for name in ("angle", "total"):
        exact, rounded = (answered[policy][name] for policy in POLICIES)
        np.testing.assert_allclose(rounded, exact, rtol=1e-6, err_msg=name)
    exact, rounded = (answered[policy]["energy"] for policy in POLICIES)
    assert np.abs(rounded - exact).max() > 0, "the rest was not rounded at all"


@pytest.mark.parametrize("policy", POLICIES)
def test_batch_norm_takes_its_statistics_in_float32(answered, policy):
    arrays, share = answered[policy], 1 - SMOKE.batch_norm_momentum
    for name, of in (("mean", np.mean), ("variance", np.var)):
        seen = of(arrays["values"].astype(np.float64), axis=(0, 1, 2, 3))
        expected = arrays[f"{name} before"] * (1 - share) + seen * share
        np.testing.assert_allclose(arrays[name], expected, rtol=1e-5, err_msg=name)
