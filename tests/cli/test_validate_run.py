"""The verdict on a run: text, JSON and exit codes; test_validate.py is on files."""

import json
import re
import shutil

import h5py
import pytest

pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.tf, pytest.mark.usefixtures("quick_verdict")]


@pytest.fixture
def against(small_demo):
    """All of the demo's 200 showers."""
    return f"--against={small_demo.copy / 'showers.h5'}"


@pytest.fixture
def mirrored(small_demo, tmp_path):
    """The same showers, mirrored along y: their axis leans to the wrong side."""
    with (
        h5py.File(small_demo.copy / "showers.h5") as source,
        h5py.File(tmp_path / "mirrored.h5", "w") as target,
    ):
        for name in source:
            source.copy(name, target)
        target["ECAL"][:] = source["ECAL"][:][:, :, ::-1]
        for name, value in source.attrs.items():
            target.attrs[name] = value
    return f"--against={tmp_path / 'mirrored.h5'}"


def test_a_failed_verdict_shows_the_worst_first_and_with_gate_exits_with_7_and_names_the_gates(
    small_demo, mirrored, cloudgan_here
):
    done = cloudgan_here("validate", small_demo.copy, mirrored, "--step=20", "--gate", exits=7)
    shown = done.stdout.splitlines()
    assert shown[0].startswith("✗ fail: ")
    marks = [words[-1] for line in shown if (words := line.split()) and words[-1] in {*"✗?~✓"}]
    assert marks[0] == "✗", "the worst come first"
    assert marks == sorted(marks, key="✗?~✓".index)
    assert f"cloudgan validate {small_demo.copy} --report=small.html" in done.stdout
    assert "gates missed: " in done.stderr
    assert "Traceback" not in done.stderr


def test_with_few_held_out_showers_nothing_can_be_told_and_the_gate_is_not_passed(
    small_demo, tmp_path, cloudgan_here
):
    """A gate of which 40 showers cannot say whether it is met."""
    gates = tmp_path / "strict.toml"
    gates.write_text(
        'schema_version = 2\n[[gate]]\nmeasure = "diversity"\ntitle = "diversity"\ngood = 0.01\n'
        'acceptable = 0.01\nmessage = "{value}"\n'
    )
    done = cloudgan_here("validate", small_demo.copy, "--step=0", f"--gate={gates}", exits=7)
    assert "cannot tell: 40 showers are too few for diversity; give about" in done.stderr
    assert "fail" not in done.stdout.splitlines()[0]


def test_only_the_verdict_on_the_newest_checkpoint_is_written(small_demo, against, cloudgan_here):
    kept = small_demo.copy / "verdict.json"
    before = kept.read_bytes()
    try:
        said = cloudgan_here("validate", small_demo.copy, against, "--json").json()
        written = json.loads(kept.read_text())
        assert written == {key: said[key] for key in written}
        assert said["reference"] == "showers.h5, in sample"
        assert said["assessment"]["generated"]["showers"] == 200
        cloudgan_here("validate", small_demo.copy, against, "--step=0")
        assert json.loads(kept.read_text()) == written
    finally:
        kept.write_bytes(before)


@pytest.mark.parametrize("named", ["data", "other.h5,showers.h5"])
def test_showers_that_the_run_trained_on_are_in_sample_on_terminal_page_verdict_and_card(
    small_demo, mirrored, tmp_path, cloudgan_here, named
):
    """The file has held-out showers too: a mixture is in sample."""
    run = shutil.copytree(small_demo.copy, tmp_path / "small")
    (tmp_path / "mirrored.h5").rename(run / "other.h5")
    files = ",".join(str(run / each) for each in named.split(","))
    page = tmp_path / "page.md"
    shown = cloudgan_here("validate", run, f"--against={files}", f"--report={page}").stdout
    assert re.match(r"[\w ]+, in sample: ", shown)
    assert "In sample: small was trained on showers of" in " ".join(shown.split())
    assert ", in sample: " in page.read_text()
    kept = json.loads((run / "verdict.json").read_text())
    assert kept["verdict"]["in_sample"] is True
    cloudgan_here("export", run, tmp_path / "out", "--format=keras")
    assert "In sample: it was trained on these showers" in (tmp_path / "out/README.md").read_text()


def test_other_showers_are_not_in_sample_and_without_the_files_of_the_run_it_is_unknown(
    small_demo, mirrored, tmp_path, cloudgan_here
):
    run = shutil.copytree(small_demo.copy, tmp_path / "small")
    flags = ("validate", run, mirrored, "--step=0", "--json")
    assert cloudgan_here(*flags).json()["verdict"]["in_sample"] is False
    record = run / "record.jsonl"
    record.write_text(re.sub(r'"data_sha256":\[[^]]*\]', '"data_sha256":[]', record.read_text()))
    said = cloudgan_here(*flags).json()["verdict"]
    assert said["in_sample"] is None
    assert any(
        note.startswith("It is unknown whether small was trained on") for note in said["notes"]
    )


def test_the_report_of_a_run_is_written(small_demo, against, tmp_path, cloudgan_here):
    page = tmp_path / "verdict.html"
    cloudgan_here("validate", small_demo.copy, against, f"--report={page}", "--step=0")
    text = page.read_text(encoding="utf-8")
    assert "Validation of small, step 0" in text
    assert {"untrained", "generator, step 0", "showers.h5, in sample"} <= set(
        re.findall(r">([^<>]+)</text>", text)
    )


def test_a_missing_file_is_named(small_demo, cloudgan_here):
    words = ("validate", small_demo.copy, "--against=nowhere.h5")
    assert "nowhere.h5" in cloudgan_here(*words, exits=2).stderr
