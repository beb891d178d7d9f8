"""The arithmetic of benchmarks/gpu_step: turns, limits, prices and tables; nothing of JAX."""

from __future__ import annotations

import json

import pytest

from benchmarks.gpu_step.prices import EPOCH_SHOWERS, epoch_usd, spot_rows, usd_per_gpu_hour
from benchmarks.gpu_step.report import Difference, LeftOut, Report, Row
from benchmarks.gpu_step.timing import Ceilings, interleaved, limit_of
from cloudgan.money.catalog import load_catalog

CEILINGS = Ceilings({"float32": 50.0, "tf32": 400.0}, 4000.0)


def test_a_limit_is_that_of_arithmetic_or_of_memory_whichever_takes_longer():
    assert limit_of(CEILINGS, "float32", 50e12, 4e12) == (1.0, "arithmetic")
    assert limit_of(CEILINGS, "tf32", 50e12, 4e12) == (1.0, "memory")
    assert limit_of(CEILINGS, "tf32", 800e12, 4e12) == (2.0, "arithmetic")


@pytest.mark.parametrize(("flops", "moved_bytes"), [(None, 1.0), (1.0, None), (0.0, 1.0)])
def test_where_arithmetic_or_traffic_is_unknown_so_is_the_limit(flops, moved_bytes):
    assert limit_of(CEILINGS, "float32", flops, moved_bytes) is None


def test_the_price_of_a_gpu_is_its_share_of_the_node_that_is_cheapest_by_gpu():
    catalog = load_catalog()
    rows = spot_rows("NVIDIA H200", catalog)
    every = [row for row in catalog.find(market="spot") if row.accelerator == "H200"]
    assert usd_per_gpu_hour(rows[0]) == min(row.usd_per_hour / 8 for row in every)
    assert all(row.accelerator_count == 8 for row in rows)
    prices = [usd_per_gpu_hour(row) for row in rows]
    assert prices == sorted(prices)


def test_each_provider_that_rents_the_device_stands_once_and_no_other_device_does():
    rows = spot_rows("NVIDIA A100 80GB PCIe")
    assert {row.provider for row in rows} == {"aws", "azure", "gcp"}
    assert len(rows) == 3
    assert {(row.accelerator, row.market) for row in rows} == {("A100-80GB", "spot")}


@pytest.mark.parametrize("device", ["cpu", "NVIDIA GeForce GTX 1080", "NVIDIA H200 MIG 1g.18gb"])
def test_a_device_that_no_cloud_rents_has_no_price(device):
    assert spot_rows(device) == ()


def test_an_epoch_costs_its_seconds_at_the_price_of_one_gpu():
    (row, *_) = spot_rows("H200")
    an_hour = EPOCH_SHOWERS / 3600
    assert epoch_usd(an_hour, row) == pytest.approx(usd_per_gpu_hour(row))
    assert epoch_usd(10 * an_hour, row) == pytest.approx(usd_per_gpu_hour(row) / 10)


def test_variants_take_turns_and_each_is_first_in_its_round():
    order = []

    def run(name, seconds):
        def timed(count):
            order.append((name, count))
            return seconds * count

        return timed

    runs = {"slow": run("slow", 0.5), "quick": run("quick", 0.03)}
    found = interleaved(runs, rounds=3, seconds_a_turn=0.1, is_late=lambda: False)
    assert order[:2] == [("slow", 1), ("quick", 1)], "how often a turn runs is tried first"
    slow, quick = ("slow", 1), ("quick", 4)
    assert order[2:] == [slow, quick, quick, slow, slow, quick]
    assert found["quick"] == pytest.approx([0.03] * 3)


def test_when_the_time_is_up_the_rounds_so_far_count_and_one_is_always_run():
    runs = {"one": lambda count: 2.0 * count}
    answers = iter([False, True])
    calls = interleaved(runs, rounds=9, seconds_a_turn=1.0, is_late=lambda: next(answers))
    assert calls == {"one": [2.0, 2.0]}
    assert next(answers, "asked twice") == "asked twice"
    late = interleaved(runs, rounds=9, seconds_a_turn=1.0, is_late=lambda: True)
    assert late == {"one": [2.0]}
    assert interleaved({}, rounds=2, seconds_a_turn=1.0, is_late=lambda: False) == {}


def row(program, seconds, **changed):
    found = Row(program, "phases", "tf32", 128, (seconds, seconds), 9.0, 2e12, 4e9, None)
    return found._replace(**changed)


def report(*rows, device="NVIDIA H200"):
    made = Report({"device": device}, CEILINGS, spot_rows(device), list(rows))
    made.differences.append(Difference("phases", "tf32", 128, 1e-3, float("nan")))
    return made


def cells(markdown, program):
    lines = [line for line in markdown.splitlines() if line.startswith(f"| {program} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_table_of_steps_has_samples_a_second_the_ratio_and_the_price_of_an_epoch():
    slow = row("step", 0.5, conv_impl="published", precision="float32")
    shown = cells(report(slow, row("step", 0.1)).markdown(), "step")
    assert [line[-3:-1] for line in shown] == [["256.0", "1 (1 to 1)"], ["1280.0", "5 (5 to 5)"]]
    usd = EPOCH_SHOWERS / 1280 / 3600 * usd_per_gpu_hour(spot_rows("H200")[0])
    assert shown[1][-1] == f"{usd:.4f}"


def test_backward_is_what_a_gradient_takes_beyond_its_own_forward_pass():
    rows = [row("generator_forward", 0.1), row("generator_gradient", 0.35)]
    rows.append(row("generator_forward", 0.2, batch=64))
    shown = cells(report(*rows).markdown(), "generator_gradient")
    assert shown[0][-1] == "250.00"


def test_the_ratio_is_of_the_same_rounds():
    first = row("step", 1.0, conv_impl="published", rounds=(1.0, 4.0, 9.0))
    shown = cells(report(first, row("step", 1.0, rounds=(0.5, 2.0, 3.0))).markdown(), "step")
    assert shown[1][-2] == "2 (2 to 3)"


def test_an_epoch_is_priced_by_the_fastest_step_and_says_from_which_row():
    text = report(row("step", 0.1), row("step", 0.1, batch=256)).markdown()
    (first, *_) = spot_rows("H200")
    assert "the fastest step (phases, tf32, batch 256)" in text
    assert f"| {first.offer} |" in text
    assert f"| {first.source} | {first.date} |" in text


def test_on_a_device_without_price_the_cost_is_unknown_and_not_zero():
    text = report(row("step", 0.1), device="cpu").markdown()
    assert "What an epoch costs is unknown" in text
    assert cells(text, "step")[0][-1] == "unknown"


def test_what_is_unknown_is_shown_as_unknown():
    shown = cells(report(row("step", 0.1, flops=None, moved_bytes=None)).markdown(), "step")
    assert shown[0].count("unknown") == 4  # GFLOP, GB, share of the limit, temporary memory


def test_each_reason_to_leave_variants_out_is_shown_once_with_its_variants():
    made = report(row("step", 0.1))
    for precision in ("float32", "tf32"):
        reason = "out of memory with 1024 showers"
        made.left_out.append(LeftOut("step", "published", precision, 1024, reason))
    line = "| step | 1024 | published float32, published tf32 | out of memory with 1024 showers |"
    assert line in made.markdown()


def test_the_document_is_json_and_holds_shares_costs_and_the_rows_of_prices():
    document = json.loads(json.dumps(report(row("step", 0.1)).document()))
    (step,) = document["rows"]
    assert step["samples_per_second"] == 1280
    assert step["limit"] == {"seconds": 0.005, "bound": "arithmetic"}
    assert step["share_of_limit"] == pytest.approx(0.05)
    (first, *_) = spot_rows("H200")
    assert step["epoch_usd"][first.row_id] == pytest.approx(epoch_usd(1280, first))
    assert document["price_rows"][0]["usd_per_hour"] == first.usd_per_hour
    assert document["differences"][0]["update"] == 1e-3
    assert document["differences"][0]["loss"] is None, "JSON knows no nan"
