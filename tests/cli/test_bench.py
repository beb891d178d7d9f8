"""Misspelt flags of `bench` are refused before any measurement; no test imports TensorFlow."""

import re

import pytest

from bench.test_step import measured, step_result

TIMES = "--step-seconds=0.05 --service-seconds=0.0025 --message-seconds=0.0005"


@pytest.fixture
def stopped(monkeypatch):
    """A measurement that Ctrl-C ended after one and a half rounds."""
    found = step_result(own=(5.0, 4.0), against=(12.0,))[1]
    monkeypatch.setattr("cloudgan.bench.step.measure_step", lambda *_: (found, True))


def test_after_ctrl_c_json_is_one_object_with_the_measured_rounds(cloudgan_here, stopped):
    said = cloudgan_here("bench", "step", "--json", exits=130).json()
    assert said["interrupted"]
    assert said["rounds"] == said["ratio"]["count"] == 1
    assert said["variants"][0]["seconds_per_step"]["count"] == 2


def test_after_ctrl_c_the_table_is_printed_without_a_roofline(cloudgan_here, stopped, tmp_path):
    picture = tmp_path / "roof.png"
    said = cloudgan_here("bench", "step", f"--roofline={picture}", exits=130)
    assert "ratio published / auto (fast): 2.4" in said.stdout
    assert "stopped before the last round" in said.stderr
    assert not picture.exists()


class Layers:
    """A child that times one convolution after the other."""

    def __init__(self, variant, *_, **__):
        self.variant, self.facts = variant, lambda: {"copy_gb_per_second": 10.0}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def __call__(self):
        times = {"forward": 0.5, "input_gradient": 1.0, "weight_gradient": 2.0, "all_passes": 3.0}
        return times | {"matmul_gflops": 100.0}


def test_report_and_roofline_are_written_and_a_result_is_compared_with_it_again(
    cloudgan_here, monkeypatch, tmp_path
):
    found = [measured("auto", [5.0])]
    monkeypatch.setattr("cloudgan.bench.step.measure_step", lambda *_: (found, False))
    monkeypatch.setattr("cloudgan.bench.step.Child", Layers)
    page, picture, earlier = (tmp_path / name for name in ("page.html", "roof.png", "earlier.json"))
    said = cloudgan_here(
        "bench", "step", f"--report={page}", f"--roofline={picture}", "--against=none", "--json"
    )
    assert "Roofline" in page.read_text(encoding="utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
    earlier.write_text(said.stdout)
    again = cloudgan_here("bench", "step", "--against=none", f"--compare={earlier}").stdout
    assert "auto: seconds_per_step" in again
    assert f"Medians beside those of {earlier}" in " ".join(again.split())


@pytest.mark.parametrize("count", [0, 2])
def test_after_ctrl_c_between_convolutions_the_step_and_those_before_remain(
    cloudgan_here, monkeypatch, tmp_path, count
):
    calls = iter([Layers.__call__] * count)

    class Stopped(Layers):
        def __call__(self):
            if call := next(calls, None):
                return call(self)
            raise KeyboardInterrupt

    found = [measured("auto", [5.0])]
    monkeypatch.setattr("cloudgan.bench.step.measure_step", lambda *_: (found, False))
    monkeypatch.setattr("cloudgan.bench.step.Child", Stopped)
    picture = tmp_path / "roof.png"
    words = (f"--roofline={picture}", "--against=none", "--json")
    said = cloudgan_here("bench", "step", *words, exits=130).json()
    assert said["interrupted"]
    assert (len(said["variants"]), len(said["layers"])) == (1, 3 * count)
    assert not picture.exists()


def test_predictions_are_printed_as_a_table_as_json_and_as_a_page(cloudgan_here, tmp_path):
    page = tmp_path / "page.html"
    shown = cloudgan_here(
        "bench",
        "parallel",
        "--predict=128",
        "--masters=1,4",
        *TIMES.split(),
        f"--report={page}",
        "-v",
    ).stdout
    assert len(re.findall("^predicted +128 ", shown, re.MULTILINE)) == 2
    assert "NNLO, published" in shown
    assert "Speed-up over a plain training" in page.read_text()
    found = cloudgan_here("bench", "parallel", *TIMES.split(), "--predict=128", "--json").json()
    one, four = found["predicted"]
    assert four["speedup"] > 2 * one["speedup"]


@pytest.mark.slow
def test_real_ranks_are_measured_and_predicted_from_the_times_of_one_worker(cloudgan_here):
    pytest.importorskip("mpi4py")
    flags = ("--workers=2", "--predict=100", "--masters=1", "--seconds=0.5", "--preset=smoke")
    found = cloudgan_here("bench", "parallel", *flags, "--json").json()
    one, two = found["measured"]
    assert (one["workers"], two["workers"]) == (1, 2)
    assert 1.4 * one["speedup"] < two["speedup"] < 2
    assert 0 < two["staleness"] <= 1
    assert 0 < two["service_seconds"] < two["exchange_seconds"] + 0.01
    assert 0 < two["service_cpu_seconds"] < two["service_seconds"]
    assert 0 < two["waiting_cpu_share"] < 0.5
    assert two["peak_memory_bytes"] > 2**20
    assert (two["steps"], two["updates"]) == (20, 20)
    assert [row["workers"] for row in found["predicted"]] == [1, 2, 100]
    assert found["predicted"][1]["speedup"] == pytest.approx(two["speedup"], rel=0.3)
