"""Validation of two files of showers: text, JSON and exit codes, without TensorFlow."""

import json
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from cloudgan.data.hdf5_writer import write_hdf5
from cloudgan.data.showers import join_showers
from cloudgan.simulation.gflash import simulate


class Files(NamedTuple):
    """Two samples of one distribution, and one of them with 5 % more energy."""

    reference: str
    generated: str
    scaled: str

    def flags(self, generated=None):
        return [f"--generated={generated or self.generated}", f"--reference={self.reference}"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    samples = {
        name: join_showers(simulate(1100, seed=seed, energy_gev=(10, 20), cells=(13, 13)))
        for name, seed in (("reference", 1), ("generated", 3))
    }
    samples["scaled"] = replace(
        samples["generated"], ecal_gev=samples["generated"].ecal_gev * np.float32(1.05)
    )
    for name, showers in samples.items():
        write_hdf5(folder / f"{name}.h5", [showers], attrs={"source": f"made as {name}"})
    return Files(*(str(folder / f"{name}.h5") for name in Files._fields))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No classifiers and few bootstrap samples: tests/validation covers them."""
    monkeypatch.setattr("cloudgan.validation.assess.LEVELS", {})
    monkeypatch.setattr("cloudgan.validation.assess.BOOTSTRAPS", 15)


def test_two_samples_of_one_source_are_at_the_baseline_and_pass_the_gates(files, cloudgan_here):
    done = cloudgan_here("validate", *files.flags(), "--gate")
    assert done.stdout.splitlines()[0] == (
        "✓ at the baseline: indistinguishable from reference.h5 with 1,100 showers"
    )
    assert "reading generated.h5" in done.stderr


def test_an_energy_scale_of_5_percent_is_reported_first_and_fails_only_with_gate(
    files, cloudgan_here
):
    ungated = cloudgan_here("validate", *files.flags(files.scaled))
    assert ungated.stdout.startswith("✗ fail: the energy response is too high")
    gated = cloudgan_here("validate", *files.flags(files.scaled), "--gate", exits=7)
    assert gated.stdout == ungated.stdout
    assert "gates missed: energy response" in gated.stderr


def test_json_is_one_object_with_assessment_and_verdict_even_if_a_gate_fails(files, cloudgan_here):
    done = cloudgan_here("validate", *files.flags(files.scaled), "--gate", "--json", exits=7)
    said = json.loads(done.stdout)
    assert said["run"] is said["step"] is said["untrained"] is said["verdict"]["in_sample"] is None
    assert said["reference"] == "reference.h5"
    assert said["verdict"]["grade"] == "fail"
    assert said["verdict"]["passed"] is False
    assert "energy response" in said["verdict"]["failures"][0]
    assert said["assessment"]["generated"]["name"] == "scaled.h5"
    assert said["assessment"]["reference"]["showers"] == 1100
    response = said["assessment"]["measures"][0]
    assert response["name"] == "response"
    assert response["value"] == pytest.approx(1.05, abs=0.02)
    assert {
        "value",
        "error",
        "baseline",
        "baseline_error",
        "null",
        "widths",
        "p",
        "detectable",
        "ideal",
    } < set(response)


def gates_file(path, acceptable, measure="response"):
    path.write_text(
        f'schema_version = 2\n[[gate]]\nmeasure = "{measure}"\nwhere = ""\ntitle = "my response"\n'
        f'good = {acceptable}\nacceptable = {acceptable}\nmessage = "off by {{percent:+.1f}} %"\n'
    )
    return path


def test_a_file_of_gates_replaces_the_shipped_ones(files, tmp_path, cloudgan_here):
    easy, hard = gates_file(tmp_path / "easy", 0.5), gates_file(tmp_path / "hard", 0.001)
    done = cloudgan_here("validate", *files.flags(files.scaled), f"--gate={easy}")
    assert done.stdout.startswith("✓ good: all 1 checks")
    done = cloudgan_here("validate", *files.flags(files.scaled), f"--gate={hard}", exits=7)
    assert "gates missed: my response" in done.stderr
    unknown = gates_file(tmp_path / "unknown", 0.5, "respons")
    done = cloudgan_here("validate", *files.flags(), f"--gate={unknown}", exits=2)
    assert "Did you mean 'response'" in done.stderr
    assert "reading" not in done.stderr


def test_showers_limits_both_samples_and_the_seed_selects_the_halves(files, cloudgan_here):
    flags = (*files.flags(), "--showers=610", "--json")
    one, other, again = (
        cloudgan_here("validate", *flags, f"--seed={seed}").json()["assessment"]
        for seed in (1, 2, 1)
    )
    assert one["generated"]["showers"] == one["reference"]["showers"] == 610
    assert one == again
    assert [m["baseline"] for m in one["measures"]] != [m["baseline"] for m in other["measures"]]


def test_the_report_is_html_with_figures_or_markdown_with_the_same_tables(
    files, tmp_path, cloudgan_here, monkeypatch
):
    drawn = []
    monkeypatch.setattr(
        "cloudgan.validation.figures.figures",
        lambda *given: drawn.append(given) or iter(()),
    )
    page, text = tmp_path / "a.html", tmp_path / "a.md"
    done = cloudgan_here("validate", *files.flags(), f"--report={page}")
    assert f"  open {page}  " in done.stdout
    cloudgan_here("validate", *files.flags(), f"--report={text}", "--json")
    for written in (page, text):
        said = written.read_text(encoding="utf-8")
        assert "Validation of generated.h5 against reference.h5" in said
        assert "made as reference" in said
        assert "energy response" in said
    (samples, assessment), *_ = drawn
    assert (samples.generated_name, samples.reference_name) == ("generated.h5", "reference.h5")
    assert len(samples.generated) == assessment.generated.showers == 1100


def test_ctrl_c_leaves_no_report(files, tmp_path, cloudgan_here, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("cloudgan.api.validate.assess", stopped)
    done = cloudgan_here("validate", *files.flags(), f"--report={tmp_path / 'a.html'}", exits=130)
    assert "stopped by Ctrl-C" in done.stderr
    assert list(tmp_path.iterdir()) == []


def changed(path, showers, source="made by a test", **others):
    write_hdf5(path, [replace(showers, **others)], attrs={"source": source})
    return str(path)


def test_incomparable_files_are_refused(files, tmp_path, cloudgan_here):
    good = join_showers(simulate(210, seed=3, energy_gev=(10, 20), cells=(13, 13)))
    holes = good.ecal_gev.copy()
    holes[7, 6, 6, 6] = np.nan
    high = np.float32(200) + good.energy_gev
    bad = {
        changed(tmp_path / "few.h5", good[slice(19)]): "few.h5 holds 19 showers; at least 20",
        changed(tmp_path / "nan.h5", good, ecal_gev=holes): "event 7: ECAL has 1 NaN cell",
        changed(tmp_path / "narrow.h5", good, ecal_gev=good.ecal_gev[:, 1:-1]): "11x13x25 cells",
        changed(tmp_path / "unit.h5", good, ecal_gev=good.ecal_gev / 50): "the ratio of GeV.",
        changed(tmp_path / "poor.h5", good, "cloudgan generator, step 1", ecal_gev=good.ecal_gev / 50): "a different unit",
        changed(tmp_path / "empty.h5", good, ecal_gev=0 * good.ecal_gev): "empty",
        changed(tmp_path / "high.h5", good, energy_gev=high, ecal_gev=good.ecal_gev * 14): "in the overlap",
    }  # fmt: skip
    for path, said in bad.items():
        done = cloudgan_here("validate", *files.flags(path), exits=2)
        assert said in done.stderr
        assert done.stderr.count("cloudgan: ") == 1
        assert "Traceback" not in done.stderr


def test_a_reference_that_a_generator_wrote_is_named_as_no_monte_carlo(
    files, tmp_path, cloudgan_here
):
    showers = join_showers(simulate(210, seed=5, energy_gev=(10, 20), cells=(13, 13)))
    said = {}
    for source in ("cloudgan generator, step 7", "made by a test"):
        other = changed(tmp_path / f"{source[:4]}.h5", showers, source)
        (generated,) = [flag for flag in files.flags() if flag.startswith("--generated")]
        done = cloudgan_here("validate", generated, f"--reference={other}")
        said[source[:4]] = " ".join((done.stdout + done.stderr).split())
    note = "No Monte Carlo: clou.h5 was written by a cloudgan generator, step 7"
    assert note in said["clou"]
    assert "No Monte Carlo" not in said["made"]


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """Writes two samples of one Monte Carlo, after `change`; returns the flags that compare them."""

    def make(change=lambda showers: showers, *, count=700, **request):
        folder = tmp_path_factory.mktemp("halves")
        for name, seed in (("generated", 3), ("reference", 1)):
            made = join_showers(simulate(count, seed=seed, cells=(13, 13), **request))
            write_hdf5(folder / f"{name}.h5", [change(made)])
        return [f"--{name}={folder}/{name}.h5" for name in ("generated", "reference")]

    return make


def _with_a_gap(showers):
    energy = showers.energy_gev
    return showers[(energy < 70) | (energy > 150)]


@pytest.mark.parametrize(
    ("change", "request_", "title", "note"),
    [
        (
            lambda showers: showers,
            {"theta_deg": (90, 90)},
            "measured against requested angle, slope",
            "angle_slope does not apply: all showers have the same requested angle",
        ),
        (
            _with_a_gap,
            {"energy_gev": (10, 200), "count": 1000},
            "energy response, 73.33-136.7 GeV",
            "response, 73.33-136.7 GeV does not apply: fewer than 5 showers in the bin",
        ),
    ],
    ids=["one angle", "a gap in the energies"],
)
def test_a_property_that_the_reference_cannot_have_does_not_apply_and_misses_no_gate(
    *, halves, cloudgan_here, tmp_path, change, request_, title, note
):
    flags = halves(change, **request_)
    report = tmp_path / "report.md"
    done = cloudgan_here("validate", *flags, f"--report={report}")
    assert not done.stdout.startswith("✗")
    assert note in report.read_text().replace("\\", "")
    row = next(line for line in report.read_text().splitlines() if line.startswith(f"| {title} "))
    assert row.rstrip("| ").endswith("does not apply")
    said = cloudgan_here("validate", *flags, "--json").json()
    (check,) = [each for each in said["verdict"]["checks"] if each["title"] == title]
    assert check["grade"] == "does not apply"
    assert (check["measure"]["value"], check["measure"]["applies"]) == (None, False)
    assert said["verdict"]["failures"] == []
    assert note in said["verdict"]["notes"]


def test_bins_of_discrete_energies_hold_one_energy_each(halves, cloudgan_here):
    def discrete(showers):
        nearest = np.array([10, 50, 200], np.float32)[np.arange(len(showers)) % 3]
        ecal = showers.ecal_gev * (nearest / showers.energy_gev)[:, None, None, None]
        return replace(showers, ecal_gev=ecal, energy_gev=nearest)

    done = cloudgan_here("validate", *halves(discrete), "--json")
    measures = json.loads(done.stdout)["assessment"]["measures"]
    found = {m["where"]: m["value"] for m in measures if m["name"] == "response"}
    for where in ("10-30 GeV", "30-125 GeV", "125-200 GeV"):
        assert found[where] == pytest.approx(1, abs=0.05)


def test_empty_showers_of_the_reference_are_left_out_and_those_of_a_generator_count(
    files, tmp_path, cloudgan_here
):
    for name in ("generated", "reference"):
        showers = join_showers(
            simulate(700, seed=7 + len(name), energy_gev=(10, 20), cells=(13, 13))
        )
        showers.ecal_gev[:30] = 0
        write_hdf5(tmp_path / f"{name}.h5", [showers])
    flags = [f"--reference={tmp_path}/reference.h5", f"--generated={files.generated}"]
    said = cloudgan_here("validate", *flags, "--json").json()
    assert "reference.h5: 30 of 700 showers are empty and left out" in " ".join(
        said["assessment"]["notes"]
    )
    assert said["assessment"]["reference"]["showers"] == 670
    assert said["verdict"]["failures"] == []
    flags = [f"--generated={tmp_path}/generated.h5", f"--reference={files.reference}"]
    said = cloudgan_here("validate", *flags, "--json").json()
    assert "30 of 700 generated showers are empty" in " ".join(said["assessment"]["notes"])
    assert "energy response" in said["verdict"]["failures"][0]
    assert said["verdict"]["passed"] is False
