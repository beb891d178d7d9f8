"""`compare --scaling`: speed-up, both efficiencies and Amdahl's serial share of real runs."""

from __future__ import annotations

import json

import pytest

from cloudgan.core.hardware import Hardware
from cloudgan.money.catalog import load_catalog
from cloudgan.schema import record
from cloudgan.schema.config import RunConfig
from cloudgan.schema.record import Epoch, Numerics, Started, Stopped, Validated
from cloudgan.schema.run_folder import RunFolder

NOON = "2026-11-21T12:00:00Z"
OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
HOURLY = load_catalog().row(OFFER).usd_per_hour
SHOWERS, BATCH, EPOCHS = 64_000, 64, 4
TRAINING, FIXED = 400.0, 40.0
"""Seconds of an epoch with one worker, and of the whole program with any number of workers."""


def write_run(
    folder,
    n,
    *,
    strong=False,
    ends=True,
    network="mini",
    training=None,
    device="NVIDIA V100",
    threads=2,
):
    """A run whose epochs scale without loss; start-up, validation and checkpoints do not shrink."""
    batch = BATCH if strong else BATCH * n
    folder.mkdir(parents=True)
    run, file = RunFolder(folder), folder / "record.jsonl"
    asked = {"epochs": EPOCHS, "validate_every": 1, "global_batch_size": batch, "seed": n}
    asked |= {"workers": n, "strategy": "multiworker"} if n > 1 else {}
    given = {
        "model": {"preset": network},
        "training": asked | (training or {}),
        "name": folder.name,
    }
    run.write_config(RunConfig.model_validate(given))
    numerics = Numerics(
        processor="a chip", device=device, threads=threads, replicas=n, workers=n,
        global_batch_size=batch, precision="float32", math_library="oneDNN", tensorflow="2.21",
        keras="3.15",
    )  # fmt: skip
    record.append(
        file,
        Started(
            time=NOON, step=0, config_hash="abc", training_showers=SHOWERS, held_out_showers=64,
            hardware=Hardware(processor="a chip", cores=2, memory_gib=4), numerics=numerics,
            versions={"cloudgan": "1"}, git_commit=None, strategy="multiworker", loop="custom",
            learning_rate=0.001, notes=(), startup_seconds=FIXED / 4,
        ),
    )  # fmt: skip
    steps = SHOWERS // batch
    for number in range(EPOCHS):
        step = steps * (number + 1)
        record.append(
            file,
            Validated(
                time=NOON, step=step, epoch=number, showers=64, seconds=1, ranked_by="metric",
                metrics={"metric": 0.4 / (number + 1) + 0.01 * n}, best=True, program_seconds=step,
            ),
        )  # fmt: skip
        record.append(
            file,
            Epoch(
                time=NOON, step=step, epoch=number, first=not number, complete=True, steps=steps,
                samples=SHOWERS, carried_samples=0, dropped_samples=0, train_seconds=TRAINING / n,
                trace_seconds=0, validation_seconds=FIXED / 8, checkpoint_seconds=FIXED / 16,
                samples_per_second=SHOWERS * n / TRAINING, losses={}, held_out_losses=None,
            ),
        )  # fmt: skip
    if ends:
        end = FIXED + EPOCHS * TRAINING / n
        record.append(
            file,
            Stopped(
                time=NOON,
                step=step,
                reason="finished",
                program_seconds=end,
                train_seconds=end - FIXED,
            ),
        )


@pytest.fixture
def compared(tmp_path, cloudgan_here):
    def run(*words):
        said = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*", "--json", *words).stdout
        return json.loads(said)

    return run


def serial(n):
    """Amdahl's law for the programs of `write_run`."""
    return (FIXED + EPOCHS * TRAINING) / (FIXED + EPOCHS * TRAINING / n)


def test_both_speed_ups_are_shown_and_amdahls_serial_share_is_found(tmp_path, compared):
    for n in (1, 2, 4, 8):
        write_run(tmp_path / f"n{n}", n)
    found = compared()
    (curve,) = found["curves"]
    assert (curve["kind"], found["networks"]) == ("weak", "mini")
    for size in curve["sizes"]:
        n = size["n"]
        assert size["training"]["speed_up"] == pytest.approx(n)
        assert size["training"]["efficiency"] == pytest.approx(1)
        assert size["end_to_end"]["speed_up"] == pytest.approx(serial(n))
        assert size["end_to_end"]["efficiency"] == pytest.approx(serial(n) / n)
    share = curve["end_to_end_share"]
    true = FIXED / (FIXED + EPOCHS * TRAINING)
    assert share["low"] < true < share["high"]
    assert share["share"] == pytest.approx(true, rel=0.2)
    assert curve["training_share"]["high"] < 0.005


def test_larger_sizes_are_predicted_and_marked(tmp_path, compared, cloudgan_here):
    for n in (1, 2, 4):
        write_run(tmp_path / f"n{n}", n)
    modelled = {one["n"]: one for one in compared()["curves"][0]["modelled"]}
    assert {n: one["predicted"] for n, one in modelled.items()} == {
        1: False, 2: False, 4: False, 8: True, 12: True, 16: True,
    }  # fmt: skip
    ahead = modelled[16]["end_to_end"]
    assert ahead["low"] < serial(16) < ahead["high"]
    shown = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*").stdout
    assert shown.count("  predicted\n") == 3
    assert shown.count("  measured\n") == 3


def test_parts_quality_and_cost_are_shown_for_each_run(tmp_path, compared):
    for n in (1, 2):
        write_run(tmp_path / f"n{n}", n)
    one, two = compared(f"--price-as={OFFER}")["runs"]
    assert one["seconds"]["steady epochs"] == pytest.approx(3 * TRAINING)
    assert two["seconds"]["first epoch"] == pytest.approx(TRAINING / 2)
    assert two["seconds"]["validation"] == pytest.approx(FIXED / 2)
    assert sum(two["seconds"].values()) == pytest.approx(FIXED + 2 * TRAINING)
    assert (two["quality_name"], two["quality"]) == ("metric", pytest.approx(0.12))
    assert one["usd"] == pytest.approx((FIXED + 4 * TRAINING) / 3600 * HOURLY)


def test_one_global_batch_is_strong_scaling(tmp_path, compared):
    write_run(tmp_path / "n1", 1)
    write_run(tmp_path / "n2", 2)
    write_run(tmp_path / "n2-strong", 2, strong=True)
    strong, weak = compared()["curves"]
    assert (strong["kind"], weak["kind"]) == ("strong", "weak")
    assert [size["runs"] for size in strong["sizes"]] == [["n1"], ["n2-strong"]]
    assert [size["global_batch_size"] for size in weak["sizes"]] == [BATCH, 2 * BATCH]
    assert "at least 3 different n; found 2" in weak["why_not_fitted"]


def test_processes_that_share_cores_are_measured_by_the_threads_that_they_use(tmp_path, compared):
    write_run(tmp_path / "n1", 1, device="CPU", threads=4)
    write_run(tmp_path / "n2", 2, device="CPU", threads=2)
    write_run(tmp_path / "n4", 4, device="CPU", threads=1)
    (curve,) = compared()["curves"]
    assert [size["training"]["efficiency"] for size in curve["sizes"]] == [1, 2, 4]
    assert "do not have equal devices" in curve["why_not_fitted"]


def test_a_run_without_an_end_has_neither_speed_up(tmp_path, compared, cloudgan_here):
    write_run(tmp_path / "n1", 1)
    write_run(tmp_path / "n2", 2)
    write_run(tmp_path / "n4", 4, ends=False)
    sizes = {size["n"]: size for size in compared()["curves"][0]["sizes"]}
    assert sizes[4]["training"] is sizes[4]["end_to_end"] is None
    assert "did not record its end" in sizes[4]["why_unknown"]
    assert sizes[2]["training"]["speed_up"] == pytest.approx(2)
    said = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*").stdout
    assert "did not record its end" in " ".join(said.split())


def test_sizes_that_amdahl_s_law_does_not_describe_are_named(tmp_path, compared, cloudgan_here):
    for n in (1, 2, 4, 8):
        write_run(tmp_path / f"n{n}", n)
    assert compared()["curves"][0]["misfits"] == []
    path = tmp_path / "n2" / "record.jsonl"
    slow = path.read_text().replace(
        f'"samples_per_second":{SHOWERS * 2 / TRAINING}',
        f'"samples_per_second":{SHOWERS / TRAINING}',
    )
    path.write_text(slow)
    assert 2 in compared()["curves"][0]["misfits"]
    shown = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*").stdout
    assert "The model does not describe the speed at n = " in shown


def test_what_makes_runs_less_comparable_is_noted(tmp_path, compared):
    write_run(tmp_path / "n1", 1, device="CPU", threads=1)
    write_run(tmp_path / "n4", 4, device="CPU", threads=1)
    path = tmp_path / "n4" / "record.jsonl"
    path.write_text(path.read_text().replace(f'"samples":{SHOWERS}', f'"samples":{SHOWERS // 2}'))
    cores, showers, offer = compared(f"--price-as={OFFER}")["notes"]
    assert cores.startswith("n4 used 4 threads, and its first machine has 2 cores")
    assert "different numbers of showers (n1 256,000, n4 128,000)" in showers
    assert f"on one node {OFFER}, for every n" in offer


def test_power8_is_replayed_as_published_and_with_shared_validation(cloudgan_here, tmp_path):
    page = tmp_path / "page.html"
    shown = cloudgan_here("compare", "--paper", "--scaling", f"--report={page}").stdout
    assert "11.9 times instead of 9.07" in shown
    rows = [line.split() for line in shown.splitlines() if "POWER8, 12 x P100" in line]
    assert [row[-1] for row in rows] == ["published", "validation"]  # computed: shared validation
    assert rows[0][-5:-1] == ["11.87", "0.989", "9.075", "0.7562"]
    assert "ideal" in page.read_text()


def test_the_report_has_the_published_curves_beside_the_runs(tmp_path, cloudgan_here):
    for n in (1, 2, 4):
        write_run(tmp_path / f"n{n}", n)
    page = tmp_path / "page.html"
    cloudgan_here("compare", "--scaling", f"{tmp_path}/n*", f"--report={page}")
    text = page.read_text()
    for part in ("POWER8", "arXiv:2111.04628, end to end", "Parts of the program time", "Quality"):
        assert part in text


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"network": "smoke"}, "runs of one network, but these have mini (n1), smoke (n2)"),
        ({"training": {"epochs": 5}}, "training.epochs: 4, 5"),
        ({"device": "CPU"}, "device: 'NVIDIA V100', 'CPU'"),
    ],
)
def test_runs_that_trained_something_else_are_refused(tmp_path, cloudgan_here, other, expected):
    write_run(tmp_path / "n1", 1)
    write_run(tmp_path / "n2", 2, **other)
    done = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*", exits=2)
    assert expected in done.stderr


def test_a_run_without_a_sibling_is_named(tmp_path, cloudgan_here):
    write_run(tmp_path / "n1", 1)
    write_run(tmp_path / "n2", 2)
    write_run(tmp_path / "n8", 8)
    path = tmp_path / "n8" / "record.jsonl"
    path.write_text(path.read_text().replace('"global_batch_size":512', '"global_batch_size":520'))
    said = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*", exits=2).stderr
    assert "n8 (n = 8) has no sibling: no run with n = 1 has its global batch of 520" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("runs/n*",), "no folder matches"),
        ((), "nothing to compare"),
        (("runs/n*", "--to-quality"), "two comparisons"),
    ],
)
def test_nothing_to_compare_is_refused(cloudgan_here, tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    assert expected in cloudgan_here("compare", "--scaling", *words, exits=2).stderr


def test_runs_of_one_size_are_refused(tmp_path, cloudgan_here):
    write_run(tmp_path / "n2", 2)
    write_run(tmp_path / "n2b", 2)
    said = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*", exits=2).stderr
    assert "all have n = 2" in said
