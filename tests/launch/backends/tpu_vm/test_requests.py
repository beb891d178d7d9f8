"""TPU slices, their caveats and the runtime that TensorFlow needs on them, and the requests for them."""

import subprocess
from importlib import resources
from pathlib import Path

import pytest
import yaml

from cloudgan.core import assets
from cloudgan.core.errors import PlanError
from cloudgan.launch.backends.tpu_vm import requests as tpu_requests
from cloudgan.launch.backends.tpu_vm.requests import (
    slice_environment,
    slice_notes,
    slice_of,
    slices,
    unsupported_reason,
)
from cloudgan.launch.clouds.planner import NodePoolRequest
from cloudgan.launch.kubernetes.manifests import WHEEL_FILES
from cloudgan.schema.plan import Workers
from emulators.gcp.discovery import api as documented
from launch.backends.tpu_vm.lab import planned, resolved
from launch.plan.write_golden import _Readable

HERE = Path(__file__).parent
SCRIPT = resources.files("cloudgan.launch.backends.tpu_vm").joinpath("startup.sh").read_text()
OWN = {"wheels": (), "workers": {"image": "us-docker.pkg.dev/lab/gan@sha256:" + "5" * 64}}
GOLDEN = HERE / "golden-tpu-v3-8-spot.yaml"
PLANS = {
    "v3-8-spot": ("v3-8", "spot", {}),
    "v3-32": ("v3-32", "on_demand", {}),
    "v5litepod-8-own-image": ("v5litepod-8", "on_demand", OWN),
}


def made(name):
    node_type, market, others = PLANS[name]
    return planned(node_type, market, **others)


def render(name):
    """Renders the last step; project files appear by name."""
    step = made(name).steps[-1].model_dump(mode="json", exclude_none=True)
    metadata = step["body"]["tpu"]["nodeSpec"][0]["node"]["metadata"]
    assert metadata["startup-script"].endswith(SCRIPT)
    metadata["startup-script"] = metadata["startup-script"].replace(SCRIPT, "<startup.sh>\n")
    for program in WHEEL_FILES:
        if (key := f"cloudgan-{program.replace('_', '-').replace('.', '-')}") in metadata:
            assert metadata[key] == assets.read_text(f"k8s/{program}")
            metadata[key] = f"<k8s/{program}>"
    return yaml.dump(step, Dumper=_Readable, sort_keys=False, width=100)


def test_a_plan_yields_the_golden_request():
    golden = GOLDEN.read_text(encoding="utf-8")
    assert render("v3-8-spot") == golden, f"if intended, run python {__file__} and read the diff"


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "v3-32",
            [
                *("acceleratorType: v3-32", "runtimeVersion: tpu-ubuntu2204-base", "hosts=4\n"),
                *("CLOUDGAN_ACCELERATORS=4", "CLOUDGAN_WORLD=4"),
                "CLOUDGAN_SECRET_FILE=/cloudgan/secret/key",
            ],
        ),
        (
            "v5litepod-8-own-image",
            [
                *("acceleratorType: v5litepod-8", "runtimeVersion: v2-alpha-tpuv5-lite"),
                *("CLOUDGAN_ACCELERATORS=8", "image=us-docker.pkg.dev/lab/gan@sha256:555"),
                *(
                    "PJRT_DEVICE=TPU",
                    "NEXT_PLUGGABLE_DEVICE_USE_C_API=true",
                    "fetch=()\n",
                    "install=()\n",
                ),
            ],
        ),
    ],
)
def test_other_slices_have_their_own_software_and_number_of_chips(name, lines):
    text = render(name)
    assert [line for line in lines if line not in text] == []
    assert ("wheels-txt" in text, "PYTHONPATH" in text) == ((name == "v3-32"),) * 2


@pytest.mark.parametrize("name", PLANS)
def test_a_request_is_what_the_discovery_document_describes(name):
    step = resolved(made(name)).steps[-1]
    tpu = documented("tpu", "v2")
    method = tpu.methods["tpu.projects.locations.queuedResources.create"]
    assert not tpu.wrong_request(method, step.body)
    assert "<" not in step.path + (step.find or "")


@pytest.mark.parametrize("name", PLANS)
def test_the_startup_script_passes_shellcheck_and_fits_the_metadata_server(name, tmp_path):
    node = resolved(made(name)).steps[-1].body["tpu"]["nodeSpec"][0]["node"]
    path = tmp_path / "startup.sh"
    path.write_text(node["metadata"]["startup-script"])
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    # https://docs.cloud.google.com/compute/docs/metadata/setting-custom-metadata, read 2026-11-21
    assert all(len(one.encode()) < 256 * 1024 for one in node["metadata"].values())
    assert sum(map(len, node["metadata"].values())) < 512 * 1024


def test_the_desired_state_precedes_all_billed_resources():
    assert [step.at for step in planned().steps] == ["cloud", "store", "cloud"]
    assert [step.at for step in planned(store="gs://own/prefix").steps] == ["store", "cloud"]


def test_placeholders_in_the_script_are_resolved():
    script = resolved(planned()).steps[-1].body["tpu"]["nodeSpec"][0]["node"]["metadata"]
    assert "\nqueued_resource=projects/lab/locations/us-central1-b/" in script["startup-script"]
    assert "<project>" not in script["startup-script"]


def test_a_queued_request_expires_after_the_gang_timeout():
    body = planned(gang_timeout_seconds=4321.0).steps[-1].body
    assert body["queueingPolicy"] == {"validUntilDuration": "4321s"}


@pytest.mark.parametrize("market", ["spot", "on_demand"])
def test_the_tier_is_stated_once_in_the_queued_resource(market):
    body = planned("v3-8", market).steps[-1].body
    assert ("spot" in body) == (market == "spot")
    assert "schedulingConfig" not in body["tpu"]["nodeSpec"][0]["node"]


def wanted(node_type, **others):
    values = {"run": "gan", "spec_hash": "1", "node_type": node_type, "market": "spot", "nodes": 1}
    return NodePoolRequest(**values | others)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (wanted("v3-8", nodes=2), "JAX and PyTorch only"),
        (wanted("v3-8", flex_start=True), "alpha"),
        (wanted("v3-64"), "Did you mean 'v3-"),
        (wanted("tpu7x-8"), "cloudgan cannot train on tpu7x-8"),
    ],
)
def test_an_unsupported_request_is_refused_in_one_sentence(asked, words):
    with pytest.raises(PlanError, match=words) as refused:
        tpu_requests.node_pool(asked)
    assert "\n" not in str(refused.value)


def test_workers_use_the_python_image_unless_the_user_passes_one():
    node_pool = tpu_requests.node_pool(wanted("v5litepod-8"))
    public = Workers(nodes=1, cpus=1, memory_gib=1)
    assert tpu_requests.workers(public, node_pool).image == "python:3.11-slim"
    own = public.model_copy(update={"image": "registry/own"})
    assert tpu_requests.workers(own, node_pool).image == "registry/own"
    assert tpu_requests.workers(own, node_pool).accelerators_per_node == 8


def test_a_discontinued_slice_names_an_available_one():
    old = {name: one.replacement for name, one in slices().items() if one.replacement}
    assert set(old) == {"v2-8", "v2-32", "v3-8", "v3-32"}
    for name, instead in old.items():
        assert not slice_of(instead).replacement
        assert slice_of(instead).hosts == 1
        assert any(instead in note and name in note for note in slice_notes(slice_of(name)))


def test_multi_host_slices_name_a_single_host_one():
    nearest = {}
    for name in ("v2-32", "v3-32", "v4-32", "v5litepod-16"):
        assert slice_of(name).hosts == 4
        sentence = slice_notes(slice_of(name))[-1]
        assert "`deploy` starts `-- train --engine=jax` only" in sentence
        assert "TensorFlow's last releases" in sentence
        nearest[name] = sentence.rpartition(" ")[2]
        assert slice_of(nearest[name]).hosts == 1
    assert nearest["v5litepod-16"] == "v5litepod-8"
    assert nearest["v4-32"] == "v5p-8"
    assert slice_notes(slice_of("v5litepod-8")) == ()


@pytest.mark.parametrize("name", slices())
def test_pjrt_is_selected_for_the_generations_that_need_it_only(name):
    generation = name.partition("-")[0]
    needs_it = generation in ("v5litepod", "v5p", "v6e")
    expected = {"PJRT_DEVICE": "TPU", "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true"}
    assert slice_environment(name) == (expected if needs_it else {})


@pytest.mark.parametrize("name", ["tpu7x-8", "tpu-v7", "TPU7x", "v7x-4", "tpu_v7x", "v7-8"])
def test_tpu7x_is_refused_in_one_sentence(name):
    reason = unsupported_reason(name)
    assert f"cannot train on {name}" in reason
    assert ". " not in reason


@pytest.mark.parametrize("name", ["v6e-8", "tpu-v6e", "v3-8", "v100", "TPU-v5e", "a2-highgpu-1g"])
def test_other_names_are_not_taken_for_tpu7x(name):
    assert unsupported_reason(name) is None


if __name__ == "__main__":
    GOLDEN.write_text(render("v3-8-spot"), encoding="utf-8")
