"""`cloudgan export`: the folder that it writes, its model card, and what it refuses."""

import json
import resource
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import cloudgan as cg
from cloudgan.core.errors import DataError
from cloudgan.data.summary import AngleFit
from cloudgan.exports.layout import noise_length
from cloudgan.exports.shower_model import network_in_gev, shower_model
from cloudgan.schema.presets import find_preset
from cloudgan.schema.run_folder import RunFolder
from exports.example_run import ENERGY_GEV, THETA_RAD, example_run

pytestmark = pytest.mark.tf


@pytest.fixture
def run(tmp_path):
    example_run(tmp_path / "mine")
    return tmp_path / "mine"


def test_the_model_is_the_averaged_generator_of_the_checkpoint(run, tmp_path, cloudgan_here):
    said = cloudgan_here("export", run, tmp_path / "out", "--json").json()
    model = onnx.load(tmp_path / "out" / "generator.onnx")
    facts = {each.key: each.value for each in model.metadata_props}
    weights, preset = example_run(tmp_path / "again"), find_preset("smoke")
    network = network_in_gev(preset)
    network.set_weights(list(weights.values()))
    expected = shower_model(preset, network, AngleFit(offset_rad=0.1, slope=0.9))
    noise = np.random.default_rng(5).standard_normal((2, noise_length(preset)), np.float32)
    given = {"energy": np.float32([20, 80]), "theta": np.float32([1.5, 1.2]), "noise": noise}
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
    assert np.abs(found - expected(given).numpy()).max() <= 1e-5 * found.max() > 0
    assert said["model"] == str(tmp_path / "out" / "generator.onnx")
    assert said["card"]["file"]["bytes"] == (tmp_path / "out" / "generator.onnx").stat().st_size
    assert facts == {
        "cloudgan": cg.__version__,
        "run": "mine",
        "preset": "smoke",
        "step": "7",
        "particle": "electron",
        "energy_gev": "10.0:100.0",
        "theta_rad": "1.1:2.0",
    }


def test_the_model_card_has_ranges_and_says_what_is_unknown(run, tmp_path, cloudgan_here):
    cloudgan_here("export", run, tmp_path / "out")
    card = json.loads((tmp_path / "out" / "model_card.json").read_text())
    assert card["validity"]["energy_gev"] == list(ENERGY_GEV)
    assert card["validity"]["theta_rad"] == list(THETA_RAD)
    assert [each["name"] for each in card["inputs"]] == ["energy", "theta", "noise"]
    assert card["output"]["shape"] == [9, 9, 25]
    assert card["validation"]["verdict"] is None
    assert f"cloudgan validate {run}`" in card["validation"]["why_missing"]
    assert {figure["value"] for figure in card["cost"]["figures"].values()} == {None}
    assert card["cost"]["priced_as"] is None
    text = (tmp_path / "out" / "README.md").read_text()
    for wanted in ("10 to 100", "1.1 to 2", "electron", "not validated", "unknown", "batchx9x9x25"):
        assert wanted in text


def test_the_verdict_of_the_exported_step_is_in_the_card(run, tmp_path, cloudgan_here):
    measure = {"name": "fpd", "value": 0.05, "baseline": 0.002}
    check = {
        "title": "FPD",
        "measure": measure,
        "good": 0.02,
        "acceptable": 0.1,
        "grade": "acceptable",
    }
    verdict = {"grade": "acceptable", "passed": True, "checks": [check], "failures": []}
    stored = {"step": 7, "reference": "held-out Monte Carlo", "verdict": verdict}
    RunFolder(run).verdict_file.write_text(json.dumps(stored))
    cloudgan_here("export", run, tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    assert "Physics: acceptable against held-out Monte Carlo." in text
    assert "0.05" in text
    assert "0.002" in text
    RunFolder(run).verdict_file.write_text(json.dumps(stored | {"step": 6}))
    cloudgan_here("export", run, tmp_path / "other")
    assert "the last validation was of step 6" in (tmp_path / "other" / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine", "out", "--format=onx"], "Did you mean 'onnx'?"),
        (["mine", "out.onnx"], "give a folder, such as out"),
        (["mine", "out", "--step=3"], "available: 7"),
        (["mine", "out", "--step=best"], "no epoch was validated"),
        (["nothing", "out"], "unknown run 'nothing'. Known: mine"),
        (["mine", "s3://bucket/out"], "is a URL"),
        (["mine", "mine", "--overwrite"], "is not an export"),
    ],
)
def test_bad_input_ends_with_2_and_writes_nothing(
    arguments, said, tmp_path, cloudgan_here, monkeypatch
):
    example_run(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert said in cloudgan_here("export", *arguments, exits=2).stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_an_export_is_replaced_only_with_overwrite(run, tmp_path, cloudgan_here):
    out = tmp_path / "out"
    cloudgan_here("export", run, out)
    (out / "README.md").write_text("old")
    assert "--overwrite" in cloudgan_here("export", run, out, exits=2).stderr
    assert (out / "README.md").read_text() == "old"
    cloudgan_here("export", run, out, "--overwrite")
    assert "Ranges of validity" in (out / "README.md").read_text()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine", "out"]


def test_a_missing_package_is_named_with_its_extra(run, tmp_path, cloudgan_here, monkeypatch):
    for kind, missing, extra in [
        ("onnx", "tf2onnx", "export"),
        ("onnx", "onnx", "export"),
        ("keras", "tensorflow", "train"),
    ]:
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, missing, None)
            done = cloudgan_here("export", run, tmp_path / "out", f"--format={kind}", exits=2)
        assert f".[{extra}]" in done.stderr
        assert repr(missing) in done.stderr
        assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_a_full_disk_ends_with_1_and_leaves_no_part(run, tmp_path, cloudgan_here, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python would cut what it compiles
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    try:
        done = cloudgan_here("export", run, tmp_path / "out", exits=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "free space" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda kernel: kernel[:-1], "has shape"),
        (lambda kernel: np.full_like(kernel, np.nan), "diverged"),
    ],
    ids=["of another architecture", "not finite"],
)
def test_weights_that_cannot_be_exported_are_refused(tmp_path, spoil, said):
    example_run(tmp_path / "mine")
    (path,) = (tmp_path / "mine" / "checkpoints").iterdir()
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    arrays["ema_generator/000/kernel"] = spoil(arrays["ema_generator/000/kernel"])
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=said):
        cg.export(tmp_path / "mine", tmp_path / "out")


def test_a_notebook_runs_the_export(run, tmp_path):
    made = cg.export(run, tmp_path / "out")
    session = onnxruntime.InferenceSession(made.model, providers=["CPUExecutionProvider"])
    noise = np.zeros((2, *made.card.inputs[2].shape), np.float32)
    given = {"energy": np.float32([20, 80]), "theta": np.float32([1.5, 1.5]), "noise": noise}
    (ecal,) = session.run(None, given)
    assert ecal.shape == (2, 9, 9, 25)
    assert ecal[1].sum() > ecal[0].sum() > 0
    assert "Ranges of validity" in made._repr_html_()
