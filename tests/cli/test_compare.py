"""`compare`: runs beside each other, their scaling, their way to a quality, and the paper's runs."""

import csv
import json
import re

import pytest

from cloudgan.money.catalog import load_catalog
from cloudgan.money.paper_replay import replay
from cloudgan.schema.quality import QualityRow
from cloudgan.schema.run_folder import RunFolder
from records import epoch, numerics, started, stopped, validated, write_run

OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
HOURLY = load_catalog().row(OFFER).usd_per_hour


def three_epochs(folder, *, epoch_seconds, global_batch_size=64, **config):
    """A run of three epochs, the first of which traced as long as it trained."""
    end = 4 * epoch_seconds + 14
    return write_run(
        folder,
        started(
            numerics=numerics(replicas=2, global_batch_size=global_batch_size),
            versions={"cloudgan": "1"},
            strategy="mirrored",
        ),
        epoch(
            0,
            2 * epoch_seconds,
            trace_seconds=epoch_seconds,
            samples_per_second=640 / epoch_seconds,
        ),
        epoch(1, epoch_seconds),
        epoch(2, epoch_seconds),
        stopped(30, end, train_seconds=end - 14),
        **config,
    )


@pytest.fixture
def runs(tmp_path):
    three_epochs(tmp_path / "slow", epoch_seconds=20)
    three_epochs(tmp_path / "fast", epoch_seconds=10)
    (tmp_path / "no-run").mkdir()
    return tmp_path


def test_runs_are_compared_and_folders_without_a_record_skipped(runs, cloudgan_here):
    said = cloudgan_here("compare", f"{runs}/*", "--json").json()["runs"]
    assert [one["run"] for one in said] == ["fast", "slow"]
    assert [one["steady_epoch_seconds"] for one in said] == [10, 20]
    assert [one["showers_per_second"] for one in said] == [64, 32]
    assert {one["priced_as"] for one in said} == {None}
    assert all("compute" in one["total"] or "unknown" in one["total"] for one in said)


def test_an_epoch_that_was_cut_short_is_not_counted(tmp_path, cloudgan_here):
    cut = epoch(1, 3, steps=4, complete=False)
    write_run(tmp_path / "cut", started(), epoch(0), cut, stopped(14, 20, "max_steps"))
    rest = epoch(1, 3, steps=6, complete=False, step=20)
    write_run(tmp_path / "whole", started(), epoch(0), cut, started(), rest, stopped(20, 40))
    said = cloudgan_here("compare", f"{tmp_path}/*", "--json").json()["runs"]
    assert [(one["run"], one["epochs"]) for one in said] == [("cut", 1), ("whole", 2)]


def test_runs_priced_as_one_offer_cost_in_proportion_to_their_time(runs, cloudgan_here):
    both = f"{runs}/slow,{runs}/fast"
    slow, fast = cloudgan_here("compare", both, f"--price-as={OFFER}", "--json").json()["runs"]
    assert (slow["run"], fast["run"]) == ("slow", "fast")
    assert slow["known_usd"] / fast["known_usd"] == pytest.approx((80 + 14) / (40 + 14))


def test_the_csv_report_has_the_rows_of_the_table(runs, cloudgan_here, tmp_path):
    done = cloudgan_here("compare", f"{runs}/*", f"--report={tmp_path}/runs.csv")
    table = [line for line in done.stdout.splitlines() if line.startswith(("fast", "slow"))]
    assert [line.split()[-1] for line in table] == ["unknown", "unknown"]
    assert max(map(len, table)) <= 80
    rows = list(csv.DictReader((tmp_path / "runs.csv").read_text().splitlines()))
    assert [(row["run"], float(row["s/epoch"])) for row in rows] == [("fast", 10), ("slow", 20)]


def test_only_a_faster_run_of_the_same_network_recommends_a_larger_batch(tmp_path, cloudgan_here):
    three_epochs(tmp_path / "small", epoch_seconds=20)
    three_epochs(tmp_path / "large", epoch_seconds=10, global_batch_size=256)
    done = cloudgan_here("compare", f"{tmp_path}/*", f"--report={tmp_path}/page.html")
    said = " ".join(done.stdout.split())
    assert "recommendation for small: the batch per replica is small: 32 showers per second" in said
    assert "--batch=128" in said
    assert "recommendation for large: the batch" not in said
    assert "the batch per replica is small" in (tmp_path / "page.html").read_text()
    write_run(tmp_path / "large", model={"preset": "mini"})
    assert "the batch per replica is small" not in cloudgan_here("compare", f"{tmp_path}/*").stdout


def test_the_papers_costs_follow_from_its_published_times(cloudgan_here):
    said = cloudgan_here("compare", "--paper", "--json").json()
    assert "Recomputed from the published run times" in said["statement"]
    (two,) = (
        run["usd_per_epoch"]
        for run in said["runs"]
        if (run["accelerator"], run["accelerators"], run["options"]) == ("V100", 2, "prefetch")
        and run["batch_per_replica"] in (96, 128)
    )
    assert two["on_demand_2021"] == pytest.approx(2.84, rel=0.01)
    assert two["preemptible_2021"] == pytest.approx(0.813, rel=0.01)
    assert set(two) == {"on_demand_2021", "preemptible_2021", "on_demand", "spot"}


def test_the_speed_up_of_a_published_run_says_over_which_run_it_is():
    found = replay(load_catalog())
    view = found.view()
    first, row = (
        next(r for r in view.table.rows if r[0] == name) for name in ("2 V100", "32 V100")
    )
    (before,) = (run for run in found.runs if run.accelerators == 2 and run.options == "prefetch")
    assert row[3] == pytest.approx(before.steady_epoch_seconds / row[2], rel=1e-3)
    assert first[2] < before.steady_epoch_seconds, (
        "the row above is another run, without prefetching"
    )
    assert "speed-up: over the smallest run with this batch and input, which -v shows" in view.notes


def test_the_papers_fastest_runs_are_a_row_per_size_and_the_report_has_all(cloudgan_here, tmp_path):
    said = cloudgan_here("compare", "--paper", f"--report={tmp_path}/paper.html").stdout
    table = [line for line in said.splitlines() if re.match(r"\d+ (V100|TPU-v\d) ", line)]
    assert len(table) == 11
    assert max(map(len, table)) <= 80
    assert "-v shows all 31 runs" in said
    times, costs = replay(load_catalog()).view().basis[1:3]
    assert len(times.rows) == len(costs.rows) == 31
    page = (tmp_path / "paper.html").read_text()
    assert "<h1>The paper, replayed</h1>" in page
    assert "one TPU-v3 device against 8 V100" in page
    assert "extrapolated" in page or "foretells" in page
    assert "10.1051/epjconf" in page or "2111.04628" in page


# --scaling

SHOWERS, BATCH, EPOCHS = 64_000, 64, 4
TRAINING, FIXED = 400.0, 40.0
"""Seconds of an epoch with one worker, and of the whole program with any number of workers."""


def scaled(folder, n, *, strong=False, ends=True, network="mini", epochs=EPOCHS, **on):
    """A run whose epochs scale without loss; start-up, validation and checkpoints do not shrink."""
    batch = BATCH if strong else BATCH * n
    training = {"epochs": epochs, "validate_every": 1, "global_batch_size": batch, "seed": n}
    if n > 1:
        training |= {"workers": n, "strategy": "multiworker"}
    on = {"device": "NVIDIA V100", "replicas": n, "workers": n, "global_batch_size": batch} | on
    each, steps = TRAINING / n, SHOWERS // batch
    lines = [
        started(
            training_showers=SHOWERS,
            numerics=numerics(**on),
            versions={"cloudgan": "1"},
            strategy="multiworker",
            startup_seconds=FIXED / 4,
        )
    ]
    for number in range(EPOCHS):
        step = steps * (number + 1)
        trained = {"step": step, "steps": steps, "samples": SHOWERS}
        trained |= {"samples_per_second": SHOWERS / each}
        trained |= {"validation_seconds": FIXED / 8, "checkpoint_seconds": FIXED / 16}
        metric = 0.4 / (number + 1) + 0.01 * n
        lines += [
            validated(number, metric, step=step, program_seconds=step),
            epoch(number, each, **trained),
        ]
    if ends:
        whole = FIXED + EPOCHS * each
        lines.append(stopped(step, whole, train_seconds=whole - FIXED))
    write_run(folder, *lines, name=folder.name, model={"preset": network}, training=training)


@pytest.fixture
def compared(tmp_path, cloudgan_here):
    return lambda *words: cloudgan_here(
        "compare", "--scaling", f"{tmp_path}/n*", "--json", *words
    ).json()


@pytest.fixture
def scaling_screen(tmp_path, cloudgan_here):
    return lambda: cloudgan_here("compare", "--scaling", f"{tmp_path}/n*").stdout


def edit_record(folder, old, new):
    path = folder / "record.jsonl"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def serial(n):
    """Amdahl's law for the programs of `scaled`."""
    return (FIXED + EPOCHS * TRAINING) / (FIXED + EPOCHS * TRAINING / n)


def test_both_speed_ups_are_shown_and_amdahls_serial_share_is_found(tmp_path, compared):
    for n in (1, 2, 4, 8):
        scaled(tmp_path / f"n{n}", n)
    found = compared()
    (curve,) = found["curves"]
    assert (curve["kind"], found["networks"], curve["misfits"]) == ("weak", "mini", [])
    for size in curve["sizes"]:
        n = size["n"]
        assert size["training"] == pytest.approx(
            size["training"] | {"speed_up": n, "efficiency": 1}
        )
        assert size["end_to_end"]["speed_up"] == pytest.approx(serial(n))
        assert size["end_to_end"]["efficiency"] == pytest.approx(serial(n) / n)
    share = curve["end_to_end_share"]
    true = FIXED / (FIXED + EPOCHS * TRAINING)
    assert share["low"] < true < share["high"]
    assert share["share"] == pytest.approx(true, rel=0.2)
    assert curve["training_share"]["high"] < 0.005


def test_larger_sizes_are_predicted_and_marked_and_the_report_has_the_published_curves(
    tmp_path, compared, cloudgan_here
):
    for n in (1, 2, 4):
        scaled(tmp_path / f"n{n}", n)
    modelled = {one["n"]: one for one in compared()["curves"][0]["modelled"]}
    kinds = dict.fromkeys((1, 2, 4), "modelled") | dict.fromkeys((8, 12, 16), "predicted")
    assert {n: one["kind"] for n, one in modelled.items()} == kinds
    ahead = modelled[16]["end_to_end"]
    assert ahead["low"] < serial(16) < ahead["high"]
    page = tmp_path / "page.html"
    shown = cloudgan_here("compare", "--scaling", f"{tmp_path}/n*", f"--report={page}").stdout
    assert (shown.count("  predicted\n"), shown.count("  measured\n")) == (3, 3)
    for part in ("POWER8", "arXiv:2111.04628, end to end", "Parts of the program time", "Quality"):
        assert part in page.read_text()


def test_parts_quality_and_cost_are_shown_for_each_run(tmp_path, compared):
    for n in (1, 2):
        scaled(tmp_path / f"n{n}", n)
    one, two = compared(f"--price-as={OFFER}")["runs"]
    assert one["seconds"]["steady epochs"] == pytest.approx(3 * TRAINING)
    assert two["seconds"]["first epoch"] == pytest.approx(TRAINING / 2)
    assert two["seconds"]["validation"] == pytest.approx(FIXED / 2)
    assert sum(two["seconds"].values()) == pytest.approx(FIXED + 2 * TRAINING)
    assert (two["quality_name"], two["quality"]) == ("metric", pytest.approx(0.12))
    assert one["usd"] == pytest.approx((FIXED + 4 * TRAINING) / 3600 * HOURLY)


def test_one_global_batch_is_strong_scaling(tmp_path, compared):
    scaled(tmp_path / "n1", 1)
    scaled(tmp_path / "n2", 2)
    scaled(tmp_path / "n2-strong", 2, strong=True)
    strong, weak = compared()["curves"]
    assert (strong["kind"], weak["kind"]) == ("strong", "weak")
    assert [size["runs"] for size in strong["sizes"]] == [["n1"], ["n2-strong"]]
    assert [size["global_batch_size"] for size in weak["sizes"]] == [BATCH, 2 * BATCH]
    assert "at least 3 different n; found 2" in weak["why_not_fitted"]


def test_processes_that_share_cores_are_measured_by_the_threads_that_they_use(tmp_path, compared):
    for n, threads in ((1, 4), (2, 2), (4, 1)):
        scaled(tmp_path / f"n{n}", n, device="CPU", threads=threads)
    (curve,) = compared()["curves"]
    assert [size["training"]["efficiency"] for size in curve["sizes"]] == [1, 2, 4]
    assert "do not have equal devices" in curve["why_not_fitted"]


def test_a_run_without_an_end_has_neither_speed_up(tmp_path, compared, scaling_screen):
    for n in (1, 2, 4):
        scaled(tmp_path / f"n{n}", n, ends=n != 4)
    sizes = {size["n"]: size for size in compared()["curves"][0]["sizes"]}
    assert sizes[4]["training"] is sizes[4]["end_to_end"] is None
    assert "did not record its end" in sizes[4]["why_unknown"]
    assert sizes[2]["training"]["speed_up"] == pytest.approx(2)
    assert "did not record its end" in " ".join(scaling_screen().split())


def test_sizes_that_amdahl_s_law_does_not_describe_are_named(tmp_path, compared, scaling_screen):
    for n in (1, 2, 4, 8):
        scaled(tmp_path / f"n{n}", n)
    rate = '"samples_per_second":'
    edit_record(tmp_path / "n2", f"{rate}{SHOWERS * 2 / TRAINING}", f"{rate}{SHOWERS / TRAINING}")
    assert 2 in compared()["curves"][0]["misfits"]
    assert "The model does not describe the speed at n = " in scaling_screen()


def test_what_makes_runs_less_comparable_is_noted(tmp_path, compared):
    for n in (1, 4):
        scaled(tmp_path / f"n{n}", n, device="CPU", threads=1)
    edit_record(tmp_path / "n4", f'"samples":{SHOWERS}', f'"samples":{SHOWERS // 2}')
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
    assert rows[1][-7:-3] == ["11.87", "0.989", "11.87", "0.9893"]
    assert "ideal" in page.read_text()


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"network": "smoke"}, "runs of one network, but these have mini (n1), smoke (n2)"),
        ({"epochs": 5}, "training.epochs: 4, 5"),
        ({"device": "CPU"}, "device: 'NVIDIA V100', 'CPU'"),
    ],
)
def test_runs_that_trained_something_else_are_refused(tmp_path, cloudgan_here, other, expected):
    scaled(tmp_path / "n1", 1)
    scaled(tmp_path / "n2", 2, **other)
    assert expected in cloudgan_here("compare", "--scaling", f"{tmp_path}/n*", exits=2).stderr


def test_runs_without_a_sibling_of_another_size_are_refused(tmp_path, cloudgan_here):
    scaled(tmp_path / "n2", 2)
    scaled(tmp_path / "n2b", 2)
    flags = ("compare", "--scaling", f"{tmp_path}/n*")
    assert "all have n = 2" in cloudgan_here(*flags, exits=2).stderr
    scaled(tmp_path / "n1", 1)
    scaled(tmp_path / "n8", 8)
    edit_record(tmp_path / "n8", '"global_batch_size":512', '"global_batch_size":520')
    said = cloudgan_here(*flags, exits=2).stderr
    assert "n8 (n = 8) has no sibling: no run with n = 1 has its global batch of 520" in said


# --to-quality


def judged(folder, *metrics, seed=1, passed=None, ends=True, limit=0.05, epochs=60):
    """A run with an epoch of 10 s per metric, validated after each, that starts in 5 s and ends after 60 s."""
    lines = [started(versions={"cloudgan": "1"})]
    for number, metric in enumerate(metrics):
        lines += [validated(number, metric), epoch(number, validation_seconds=1)]
    last = 10 * len(metrics)
    run = write_run(
        folder,
        *lines,
        *[stopped(last, 60, train_seconds=30)] * ends,
        model={"preset": "mini"},
        name=folder.name,
        data={"path": f"runs/{folder.name}/showers.h5"},
        training={"seed": seed, "validate_every": 1, "epochs": epochs},
    )
    if passed is not None:
        check = {"measure": {"name": "response"}, "good": 0.02, "acceptable": limit}
        verdict = {"step": last, "verdict": {"passed": passed, "checks": [check]}}
        run.verdict_file.write_text(json.dumps(verdict))


@pytest.fixture
def rows(tmp_path, cloudgan_here):
    def compared(*words):
        said = cloudgan_here("compare", "--to-quality", f"{tmp_path}/*", *words, "--json").json()
        return [QualityRow.model_validate(row) for row in said["rows"]]

    return compared


def test_seeds_of_one_configuration_are_one_row_with_median_and_range(tmp_path, rows):
    for name, seed, metrics in (
        ("a", 1, (0.3, 0.1, 0.05)),
        ("b", 2, (0.1, 0.3, 0.3)),
        ("c", 3, (0.3, 0.3, 0.1)),
    ):
        judged(tmp_path / name, *metrics, seed=seed)
    (row,) = rows("--until=metric<0.15", f"--price-as={OFFER}")
    assert [(run.seed, run.step) for run in row.runs] == [(1, 20), (2, 10), (3, 30)]
    assert (row.train_seconds.low, row.train_seconds.median, row.train_seconds.high) == (10, 20, 30)
    assert [run.program_seconds for run in row.runs] == [29, 17, 41]
    assert row.usd.median == pytest.approx(29 / 3600 * HOURLY)
    assert (row.goal, row.gates, row.priced_as, row.billed) == ("metric<0.15", "", OFFER, False)
    judged(tmp_path / "d", 0.1, epochs=7)
    assert len(rows("--until=metric<0.15")) == 2, "another configuration is another row"


def test_a_run_that_never_met_the_goal_counts_as_infinite_and_an_unknown_cost_stays_unknown(
    tmp_path, rows, cloudgan_here
):
    judged(tmp_path / "a", 0.3, 0.1)
    judged(tmp_path / "b", 0.3, 0.2, seed=2)
    (row,) = rows("--until=metric<0.15")
    assert [run.outcome for run in row.runs] == ["met", "never met"]
    assert "best metric 0.2 until step 20" in row.runs[1].detail
    assert (row.train_seconds.low, row.train_seconds.median) == (20, None)
    assert row.train_seconds.why == "never met"
    said = cloudgan_here("compare", "--to-quality", f"{tmp_path}/*", "--until=metric<0.15").stdout
    assert "1 of 2" in said
    assert "never" in said
    assert max(map(len, said.splitlines())) <= 120
    assert row.runs[0].usd is None
    assert "--price-as" in row.runs[0].why_unknown
    alone = cloudgan_here(
        "compare", "--to-quality", tmp_path / "a", "--until=metric<0.15", "--json"
    )
    (row,) = (QualityRow.model_validate(one) for one in alone.json()["rows"])
    assert (row.usd.median, row.usd.why) == (None, "unknown")


def test_the_verdict_on_the_last_checkpoint_decides_without_a_condition(tmp_path, rows):
    judged(tmp_path / "a", 0.3, 0.1, passed=True)
    judged(tmp_path / "b", 0.3, seed=2, passed=False)
    judged(tmp_path / "c", 0.3, seed=3)
    (row,) = rows()
    assert [run.outcome for run in row.runs] == ["met", "never met", "not judged"]
    assert [run.program_seconds for run in row.runs] == [29, None, None]
    assert "step 20 only" in row.runs[0].detail
    assert "cloudgan validate" in row.runs[2].detail
    assert len(row.gates) == 8


def test_runs_judged_by_other_gates_are_not_in_one_row(tmp_path, rows):
    judged(tmp_path / "a", 0.1, passed=True)
    judged(tmp_path / "b", 0.1, seed=2, passed=True, limit=0.5)
    assert sorted(run.run for row in rows() for run in row.runs) == ["a", "b"]
    assert len({row.gates for row in rows()}) == 2


def test_a_step_without_a_recorded_time_has_no_time(tmp_path, rows):
    judged(tmp_path / "a", 0.1, passed=True, ends=False)
    path = RunFolder(tmp_path / "a").verdict_file
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step": 5}))
    (row,) = rows(f"--price-as={OFFER}")
    assert row.runs[0].outcome == "met"
    assert "no time at which step 5 was complete" in row.runs[0].why_unknown
    assert row.train_seconds.why == "unknown"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "--paper"),
        ("runs --paper", "--paper"),
        ("nowhere/*", "no folder matches that holds a run"),
        ("nowhere", "nowhere"),
        ("--paper --report=page.docx", ".html"),
        ("--scaling runs/n*", "no folder matches"),
        ("--scaling", "nothing to compare"),
        ("--scaling runs/n* --to-quality", "two comparisons"),
        ("--to-quality", "nothing to compare"),
        ("--to-quality --paper", "acceptance gates"),
        ("runs/a --until=metric<1", "--to-quality"),
        ("runs/a --to-quality --until=metrik<1", "metric"),
        ("runs/a --to-quality --until=metric", "expected a name"),
        ("runs/damaged --to-quality", "verdict.json"),
    ],
)
def test_what_cannot_be_compared_is_refused(cloudgan_here, tmp_path, monkeypatch, line, expected):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "damaged"):
        judged(tmp_path / "runs" / name, 0.1)
    damaged = {"verdict": {"passed": True, "checks": [{}]}}
    (tmp_path / "runs/damaged/verdict.json").write_text(json.dumps(damaged))
    assert expected in cloudgan_here("compare", *line.split(), exits=2).stderr


# Runs that never trained


@pytest.mark.parametrize("flags", [[], ["--to-quality"], ["--scaling"]], ids=str)
def test_a_named_run_that_never_trained_is_left_out_with_a_warning(
    tmp_path, monkeypatch, cloudgan_here, flags
):
    monkeypatch.chdir(tmp_path)
    scaled(tmp_path / "runs/first", 1)
    scaled(tmp_path / "runs/second", 2)
    write_run(tmp_path / "runs/planned", model={"preset": "mini"})
    write_run(tmp_path / "runs/other", model={"preset": "mini"})
    named = ["first", "planned", "second", "other"]
    said = cloudgan_here("compare", *named, *flags)
    assert "warning: never trained, and so left out: planned, other" in said.stdout
    found = cloudgan_here("compare", *named, *flags, "--json").json()
    assert found["left_out"] == ["planned", "other"]
    assert all(name in str(found) for name in ("first", "second"))


def test_runs_of_which_none_has_trained_are_refused(tmp_path, monkeypatch, cloudgan_here):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs/planned", model={"preset": "mini"})
    said = cloudgan_here("compare", "planned", exits=2).stderr
    assert "no run record" in said
    assert "cloudgan train" in said
