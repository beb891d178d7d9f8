"""The cost of a run as text and as JSON."""

import csv
import datetime as dt
import json
import re

import pytest

from cloudgan.api.cost import cost
from cloudgan.core import machines
from cloudgan.money.catalog import load_catalog
from cloudgan.reports.table import markdown
from cloudgan.schema import launch
from cloudgan.schema import plan as plans
from cloudgan.schema.launch import Attempt, Launch, Node
from records import epoch, numerics, started, stopped, write_run

OFFER = "gcp/n1-standard-8+1xV100/us-central1/spot"
PRICE = load_catalog().row(OFFER)
RETIRED = {one.node_type for one in machines.table().values() if one.retired}
UP = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


@pytest.fixture
def write(tmp_path):
    """Writes a record of these lines, or of three epochs, the first of which took twice as long."""

    def run(*lines, device="CPU", preset=None):
        config = {"data": {"path": "x"}, "model": {"preset": preset}} if preset else {}
        usual = (
            started(numerics=numerics(device=device), training_showers=124_987),
            *(epoch(0, 20), epoch(1), epoch(2), stopped(30, 60)),
        )
        return write_run(tmp_path / "mine", *(lines or usual), **config).path

    return run


def launched(run, **given):
    """Writes one attempt on a node of the offer, with its price, into launch.json."""
    usual = {name: getattr(PRICE, name) for name in ("provider", "region", "node_type", "market")}
    attempt = Attempt(**usual | {"price_rows": (PRICE,), "end_reason": "finished"} | given)
    log = Launch(run="mine", config_hash="abc", attempts=(attempt,))
    launch.write(run / "launch.json", log)


@pytest.fixture
def said(cloudgan_here):
    """What `cloudgan cost ... --json` says."""

    def ask(*words):
        return cloudgan_here("cost", *words, "--json").json()

    return ask


def test_a_run_without_a_price_is_one_line_with_an_example(write, cloudgan_here, tmp_path):
    done = cloudgan_here("cost", write())
    line = r"mine: no price for this machine; its time costs (0\.\d+) USD as \S+ on \w+: --price-as=\S+\n"
    found = re.fullmatch(line, done.stdout)
    again = cloudgan_here("cost", tmp_path / "mine", done.stdout.split()[-1])
    assert found
    assert f"mine: at least {found[1]} USD" in again.stdout, "the example works"


def test_a_priced_run_has_its_largest_items_and_the_unknown_ones_by_name(write, cloudgan_here):
    said = cloudgan_here("cost", write(), f"--price-as={OFFER}").stdout.splitlines()
    assert re.match(r"mine: at least 0\.020 USD, \d unknown items$", said[0])
    assert any(re.match("  unknown: .*cluster.*egress", line) for line in said)
    amounts = [float(line.split()[-1]) for line in said if re.search(r" 0\.\d+ *$", line)]
    assert amounts == sorted(amounts, reverse=True)
    assert sum(amounts) == pytest.approx(60 * 1.193 / 3600, abs=0.001)
    assert len(said) < 23
    assert f"  as {OFFER}" in said


def basis(run):
    """The tables and lines with -v, as text."""
    return "\n".join(
        part if isinstance(part, str) else markdown(part) for part in cost(run).view().basis
    )


def test_offers_of_three_clouds_are_priced_as_an_upper_bound(write):
    said = basis(write())
    assert "an upper bound, not measured there" in said
    assert all(cloud in said for cloud in ("GCP", "AWS", "Azure"))
    cells = [[cell.strip() for cell in line.split("|")] for line in said.splitlines()]
    ages = {tuple(row[1:3]): row[-2] for row in cells if row[-2:-1] and "days ago" in row[-2]}
    assert ages["AWS", "g4dn.xlarge"].startswith("≤"), "this date is the earliest possible one"
    assert ages["AWS", "g6.xlarge"].split()[0].isdecimal()
    assert not {node for _, node in ages} & RETIRED


@pytest.mark.parametrize("date", ["2026-11-20", "unknown"])
def test_a_node_of_your_price_file_prices_the_run(write, said, tmp_path, date):
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"{{date: {date}, nodes: [{{offer: lab/cpu/room-1, usd_per_hour: 3.6}}]}}")
    found = said(write(), f"--price-file={prices}", "--price-as=lab/cpu/room-1/on_demand")
    assert found["totals"]["known_usd"] == pytest.approx(60 * 0.001)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("usd_per_hour: -3", "line 4, column 5: nodes.0.usd_per_hour is -3"),
        ("usd_per_hour: 3 EUR", "line 4, column 5: nodes.0.usd_per_hour is '3 EUR'"),
        (
            "eur_per_hour: 3",
            "line 3, column 5: nodes.0.usd_per_hour: Field required; line 4, column 5",
        ),
        ("usd_per_month: 3", "line 4, column 5: nodes.0.usd_per_month: Extra inputs"),
        ("usd_per_hour: 3\n    date: 1.11.2026", "line 5, column 5: nodes.0.date is '1.11.2026'"),
    ],
)
def test_a_wrong_unit_currency_or_date_of_a_price_file_has_line_and_column(
    write, cloudgan_here, tmp_path, line, place
):
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"date: 2026-11-20\nnodes:\n  - offer: lab/cpu/room-1\n    {line}\n")
    flags = (f"--price-file={prices}", "--price-as=lab/cpu/room-1/on_demand")
    assert place in cloudgan_here("cost", write(), *flags, exits=2).stderr


def test_an_offer_prices_the_run_and_each_item_names_its_seconds_and_row(write, said):
    run = write()
    found = said(run, f"--price-as={OFFER}")
    assert OFFER in found["priced_as"]
    known = [part for part in found["line_items"] if part["usd"] is not None]
    for part in known:
        assert part["usd"] == pytest.approx(part["seconds"] * 1.193 / 3600, rel=0.01), part["name"]
        assert part["price_row"] == f"node/{OFFER}/current"
    assert sum(part["seconds"] for part in known) == 60
    assert found["totals"]["known_usd"] == pytest.approx(60 * 1.193 / 3600, rel=0.01)
    assert set(found["totals"]["unknown"]) >= {"egress", "storage", "cluster"}
    assert found["unit_costs"]["per_epoch"]["usd"] == pytest.approx(10 * 1.193 / 3600, rel=0.01)
    assert json.loads((run / "cost.json").read_text()) == found


def test_a_run_on_cloud_nodes_keeps_the_prices_of_its_launch(write, said, cloudgan_here):
    run = write()
    node = Node(name="n", started_at=UP, terminated_at=UP + dt.timedelta(seconds=360))
    launched(run, nodes=(node,), price_rows=(PRICE.model_copy(update={"usd_per_hour": 10.0}),))
    found = said(run)
    assert found["totals"]["known_usd"] == pytest.approx(1.0)
    assert found["durations"]["billed_seconds"] == 360
    assert found["billed_attempts"][0]["billed_node_seconds"] == 360
    other = "aws/g4dn.xlarge/us-east-1/on_demand"
    done = cloudgan_here("cost", run, f"--price-as={other}")
    assert "keep their prices" in done.stdout
    itself = cloudgan_here("cost", run, f"--ci={run / 'cost.json'}", "--json").json()
    energy = itself["new"]["figures"]["kwh"]["value"]
    assert energy == pytest.approx(300 * 360 / 3.6e6), "one V100 of 300 W, as long as its node"
    assert set(itself["difference"].values()) == {0}
    assert json.loads((run / "cost.json").read_text())["totals"] == found["totals"]


@pytest.mark.parametrize(("passed", "known"), [(True, True), (False, False), (None, False)])
def test_an_accepted_model_has_a_cost_only_if_its_verdict_passed(write, said, passed, known):
    run = write()
    if passed is not None:
        (run / "verdict.json").write_text(json.dumps({"verdict": {"passed": passed}}))
    figure = said(run, f"--price-as={OFFER}")["unit_costs"]["per_accepted_model"]
    assert (figure["usd"] is not None) is known
    assert bool(figure["why_unknown"]) is not known


def test_a_damaged_verdict_is_refused(write, cloudgan_here):
    run = write()
    (run / "verdict.json").write_text("[]")
    assert "verdict" in cloudgan_here("cost", run, exits=2).stderr


def test_the_papers_network_is_estimated_from_the_papers_runs(write, said, cloudgan_here):
    lines = (started(), epoch(0, 9000), epoch(1, 8000), stopped(20, 17_100))
    run = write(*lines, preset="paper")
    found = said(run)
    assert found["priced_offers"] == []
    there = found["offer_estimates"]
    assert len(there) > 100
    assert {"measured", "modelled"} == {one["grade"] for one in there if one["grade"]}
    named = {one["row"]["node_type"] for one in there}
    assert not named & RETIRED
    for one in there:
        assert one["expected_seconds"] is not None or one["grade"] != "measured"
        assert (one["high_usd"] is None) == bool(one["why_not"])
    assert "modelled" in basis(run)


def test_a_repeated_line_counts_once_with_a_warning(write, said, cloudgan_here):
    lines = (started(), epoch(0, 20), epoch(1, 10), epoch(1, 10), stopped(20, 45))
    run = write(*lines)
    found = said(run, f"--price-as={OFFER}")
    steady = next(part for part in found["line_items"] if part["name"] == "steady epochs")
    assert steady["seconds"] == 10
    assert any("counts once" in warning for warning in found["warnings"])
    assert "warning: " in cloudgan_here("cost", run).stdout


def test_a_run_dominated_by_its_start_gets_a_recommendation_with_a_flag(
    write, cloudgan_here, tmp_path
):
    lines = (started(), epoch(0, 30), epoch(1, 3), stopped(20, 45))
    slow = lines[1].model_copy(update={"trace_seconds": 27, "samples_per_second": 213})
    run = write(lines[0], slow, *lines[2:])
    page = tmp_path / "cost.html"
    done = cloudgan_here("cost", run, f"--price-as={OFFER}", f"--report={page}")
    assert "recommendation: the first epoch dominates: start-up and tracing took" in done.stdout
    assert "--epochs=" in done.stdout
    assert "Recommendations" in page.read_text()


@pytest.mark.parametrize("ending", ["html", "md", "csv"])
def test_the_report_has_items_and_offers(write, cloudgan_here, tmp_path, ending):
    path = tmp_path / f"cost.{ending}"
    cloudgan_here("cost", write(), f"--price-as={OFFER}", f"--report={path}")
    page = path.read_text()
    assert "steady epochs" in page
    assert "price row" in page
    assert "unknown" in page
    if ending == "html":
        chart = page.split("Cost by item", 1)[1].split("</svg>", 1)[0]
        assert "0.01988" in chart, "the sum of the bars"


def test_another_currency_is_refused(write, cloudgan_here):
    run = write()
    launched(run)
    log = run / "launch.json"
    log.write_text(log.read_text().replace('"usd_per_hour"', '"currency": "EUR", "usd_per_hour"'))
    assert "currency" in cloudgan_here("cost", run, exits=2).stderr


@pytest.fixture
def timings(tmp_path):
    path = tmp_path / "timings.csv"
    path.write_text("n,seconds\n2,1784.4\n4,900.5\n8,456.6\n16,229.7\n")
    return path


def test_larger_sizes_are_predicted_from_timings(timings, said):
    found = said(f"--fit={timings}", "--predict=32,64,128")
    assert [one["n"] for one in found["predictions"]] == [32, 64, 128]
    for one in found["predictions"]:
        assert 0 <= one["low_seconds"] <= one["seconds"] <= one["high_seconds"]
    assert found["predictions"][2]["extrapolation"].startswith("extrapolated 8x")
    assert said(f"--fit={timings}", "--predict=32")["predictions"] == found["predictions"][:1]


def test_predicted_seconds_are_those_of_the_result_and_not_whole_minutes(
    timings, cloudgan_here, said
):
    flags = (f"--fit={timings}", "--predict=1,32")
    smaller, larger = said(*flags)["predictions"]
    shown = cloudgan_here("cost", *flags).stdout
    assert shown.startswith("Predicted times, from 4 measured sizes of 2 to 16\n"), (
        "smaller ones too"
    )
    assert 100 < larger["seconds"] < 120
    for one in (smaller, larger):
        interval = f"{one['low_seconds']:,.4g} to {one['high_seconds']:,.4g}"
        assert re.search(rf" {one['n']} +{one['seconds']:,.4g} +{interval} ", shown), shown


def test_a_prediction_has_a_page_and_a_table(timings, cloudgan_here, tmp_path):
    flags = (f"--fit={timings}", "--predict=32,64")
    done = cloudgan_here("cost", *flags, f"--report={tmp_path}/fit.html")
    assert "extrapolated 2x" in done.stdout
    page = (tmp_path / "fit.html").read_text()
    assert "Time against accelerators" in page
    assert "90 % band" in page
    cloudgan_here("cost", *flags, f"--report={tmp_path}/fit.csv")
    with (tmp_path / "fit.csv").open(newline="") as file:
        assert [row["n"] for row in csv.DictReader(file)] == ["2", "4", "8", "16", "32", "64"]


def test_a_run_on_cloud_nodes_shows_forecast_measurement_and_bill(
    write, said, cloudgan_here, plan_of, tmp_path
):
    run = write()
    plan = plan_of(name="mine", price=PRICE)
    ahead = plan.forecast.model_copy(
        update={"epochs": 3, "epoch_seconds": 10, "low_epoch_seconds": 9, "high_epoch_seconds": 11}
        | {"low_seconds": 30, "high_seconds": 50, "low_usd": 0.01, "high_usd": 0.02}
    )
    plans.write(run / "plan.json", plan.model_copy(update={"forecast": ahead}))
    hour = UP + dt.timedelta(hours=1)
    node = Node(name="a", started_at=UP, last_seen_at=UP, terminated_at=hour)
    launched(run, nodes=(node,), uploaded_gib=0.0)
    bill = tmp_path / "bill.csv"
    bill.write_text(
        "BilledCost,ChargeCategory,BillingCurrency,ServiceCategory,ChargePeriodEnd,Tags\n"
        '1.0,Usage,USD,Compute,2026-11-21T13:00:00Z,"{""cloudgan-run"": ""mine""}"\n'
        '7.0,Usage,USD,Compute,2026-11-21T14:00:00Z,"{""cloudgan-run"": ""other""}"\n'
    )
    found = said(run, f"--billing-export={bill}")
    assert [one["metric"] for one in found["forecast_vs_actual"]] == [
        "seconds per epoch",
        "seconds of all epochs",
        "USD",
    ]
    assert found["forecast_vs_actual"][2]["billed"] == found["bill"]["billed_usd"] == 1.0
    assert found["bill"]["lines"] == 1
    assert json.loads((run / "cost.json").read_text()) == found
    assert any("not observed in between" in line for line in found["warnings"])
    (egress,) = (part for part in found["line_items"] if part["name"] == "egress")
    assert egress["quantity"] == pytest.approx((run / "record.jsonl").stat().st_size / 2**30)
    shown = cloudgan_here(
        "cost", run, f"--billing-export={bill}", f"--report={tmp_path / 'r.md'}"
    ).stdout
    assert "billed 1.00 USD in 1 line of 2; more with -v" in shown
    assert "forecast 0.010 to 0.020 USD" in shown
    assert "Forecast, measured, billed" in (tmp_path / "r.md").read_text()


def test_a_launched_run_that_never_trained_costs_what_its_nodes_cost(write, cloudgan_here):
    run = write()
    (run / "record.jsonl").unlink()
    hour = UP + dt.timedelta(hours=1)
    node = Node(name="a", started_at=UP, last_seen_at=UP, terminated_at=hour)
    launched(run, nodes=(node,), end_reason="failed: no GPU")
    done = cloudgan_here("cost", run, "-v")
    assert done.stdout.startswith(f"mine: at least {PRICE.usd_per_hour:.2f} USD, ")
    assert "; 1 nodes" not in done.stdout
    assert "the record is empty: what its processes did is unknown" in done.stdout
    (run / "launch.json").unlink()
    assert "is not the folder of a run" in cloudgan_here("cost", run, exits=2).stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("1.0,USD,mine", "0.5,USD,mine"), "billed 1.50 USD in 2 lines of 2;"),
        (("1.0,EUR,mine",), "billed 1.00 EUR in 1 line of 1;"),
        (("1.0,EUR,mine", "0.5,USD,mine"), "billed 0.50 USD and 1.00 EUR in 2 lines of 2;"),
        (("1.0,USD,other",), "billed is unknown: of 1 line none has the label of this run;"),
    ],
)
def test_a_bill_is_shown_with_each_currency_and_unknown_without_a_line(
    write, cloudgan_here, tmp_path, lines, said
):
    cells = (line.split(",") for line in lines)
    bill = tmp_path / "bill.csv"
    bill.write_text(
        "BilledCost,BillingCurrency,Tags,ChargeCategory,ServiceCategory\n"
        + "".join(
            f'{usd},{currency},"{{""cloudgan-run"": ""{run}""}}",Usage,Compute\n'
            for usd, currency, run in cells
        )
    )
    run = write()
    for price in ((), (f"--price-as={OFFER}",)):
        shown = cloudgan_here("cost", run, f"--billing-export={bill}", *price).stdout
        assert f"  {said} more with -v" in shown.splitlines()


def test_an_invalid_billing_export_is_refused_before_anything_is_written(
    write, cloudgan_here, tmp_path
):
    run = write()
    bill = tmp_path / "bill.csv"
    bill.write_text("a,b\n1,2\n")
    error = cloudgan_here("cost", run, f"--billing-export={bill}", exits=2).stderr
    assert "has no BilledCost among the columns a, b" in error
    assert not (run / "cost.json").exists()
    assert (
        "the file does not exist"
        in cloudgan_here("cost", run, "--billing-export=gone.csv", exits=2).stderr
    )
    of_a_fit = ("cost", f"--billing-export={bill}", "--fit=x.csv", "--predict=2")
    assert "only valid with RUN" in cloudgan_here(*of_a_fit, exits=2).stderr


def saved(cloudgan_here, path, *words):
    path.write_text(cloudgan_here("cost", *words, "--json").stdout)
    return path


def priced_plan(plan_of, name, price, nodes=1, epoch_seconds=600.0):
    """A plan with a forecast; its whole cost is not known, as on existing nodes."""
    plan = plan_of(name=name, price=price)
    high = None if price is None else 10 * epoch_seconds
    usd = None if price is None else price.cost_usd(high, nodes)
    ahead = plan.forecast.model_copy(
        update={"epochs": 10, "epoch_seconds": epoch_seconds, "low_epoch_seconds": epoch_seconds}
        | {"high_epoch_seconds": epoch_seconds, "low_seconds": high, "high_seconds": high}
        | {"low_usd": usd, "high_usd": usd}
    )
    workers = plan.workers.model_copy(update={"nodes": nodes})
    return plan.model_copy(update={"forecast": ahead, "workers": workers})


def test_two_plans_have_a_difference_in_markdown_and_a_budget(plan_of, cloudgan_here, tmp_path):
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    plans.write(base, priced_plan(plan_of, "gan", PRICE))
    plans.write(new, priced_plan(plan_of, "gan", PRICE, nodes=2, epoch_seconds=400.0))
    done = cloudgan_here("cost", new, f"--ci={base}").stdout
    usd, hours, epoch, kwh, co2 = (
        [cell.strip() for cell in line.split("|")[2:5]]
        for line in done.splitlines()
        if line.startswith("|") and not line.startswith(("|  ", "| --"))
    )
    assert done.startswith("# Cost of gan\n")
    per_hour = PRICE.usd_per_hour
    assert float(usd[0]) == pytest.approx(per_hour * 6000 / 3600, rel=1e-3)
    assert float(usd[1]) == pytest.approx(per_hour * 8000 / 3600, rel=1e-3)
    assert usd[2].endswith("(+33.3%)")
    assert usd[2].startswith("+0.6")
    assert hours == ["1.667", "1.111", "-0.5556 (-33.3%)"]
    assert float(epoch[1]) == pytest.approx(per_hour * 800 / 3600, rel=1e-3)
    assert kwh[:2] == ["0.5", "0.6667"], "one V100 of 300 W for 6000 s, two for 4000 s"
    assert co2[:2] == ["0.216", "0.288"], "at 431.95 g/kWh"
    cloudgan_here("cost", new, f"--ci={base}", "--budget-usd=3")
    over = cloudgan_here("cost", new, f"--ci={base}", "--budget-usd=2", exits=6)
    assert over.stdout.count("more than --budget-usd=2") == over.stderr.count("--budget-usd=2") == 1
    found = cloudgan_here("cost", new, f"--ci={base}", "--budget-usd=2", "--json", exits=6).json()
    assert found["is_over_budget"] is True
    assert found["difference"]["hours"] == pytest.approx(-2000 / 3600)


def test_a_run_is_compared_with_an_earlier_cost_and_unknown_stays_unknown(
    write, cloudgan_here, plan_of, tmp_path
):
    run = write()
    priced = saved(cloudgan_here, tmp_path / "priced.json", run, f"--price-as={OFFER}")
    own = saved(cloudgan_here, tmp_path / "own.json", run)
    same = cloudgan_here("cost", run, f"--price-as={OFFER}", f"--ci={priced}", "--json").stdout
    found = json.loads(same)
    assert found["difference"]["usd"] == 0
    assert "egress" in found["new"]["figures"]["usd"]["unknown"]
    assert found["new"]["figures"]["kwh"]["value"] == pytest.approx(300 * 60 / 3.6e6)
    shown = cloudgan_here("cost", run, f"--price-as={OFFER}", f"--ci={priced}").stdout
    assert re.search(
        r"^- now, cost \(USD\): without .*egress.*, which are unknown$", shown, re.MULTILINE
    )
    assert re.search(r"^\| cost \(USD\) .*at least .* 0 \(\+0\.0%\) \|$", shown, re.MULTILINE)
    limit = ("--price-as=" + OFFER, f"--ci={priced}", "--budget-usd=1")
    may_exceed = cloudgan_here("cost", run, *limit, exits=6).stderr
    assert "at least" in may_exceed
    assert "egress, which are unknown and may exceed --budget-usd=1" in " ".join(may_exceed.split())
    unsure = cloudgan_here("cost", run, *limit, "--json", exits=6).json()
    assert unsure["is_over_budget"] is None
    cloudgan_here("cost", run, *limit, "--allow-unknown")
    cloudgan_here("cost", run, limit[0], limit[1], "--budget-usd=0.001", "--allow-unknown", exits=6)
    unpriced = cloudgan_here("cost", run, f"--ci={priced}", "--budget-usd=1", exits=2)
    assert "unknown |" in unpriced.stdout
    assert "--price-as=OFFER" in unpriced.stderr
    against = cloudgan_here("cost", priced, f"--ci={own}", "--json").json()
    assert against["difference"]["usd"] is None
    assert against["difference"]["hours"] == 0
    plan = tmp_path / "plan.json"
    plans.write(plan, priced_plan(plan_of, "gan", PRICE))
    mixed = cloudgan_here("cost", run, f"--price-as={OFFER}", f"--ci={plan}", "--json").json()
    assert mixed["difference"]["usd"] is None, "the run has unknown items, the forecast has none"


@pytest.mark.parametrize(
    ("content", "words", "expected"),
    [
        ("{", (), "not JSON"),
        ("[]", (), "neither the cost of a run nor a plan"),
        ('{"error": "no price", "exit_code": 2}', (), "cloudgan plan --json > FILE"),
        ('{"line_items": [{"usd": NaN}]}', (), "base.json"),
        ('{"line_items": [], "totals": {"known_usd": -1}}', (), "totals"),
        ('{"spec_hash": 1}', (), "spec_hash"),
        (None, (), "cannot be read"),
        ("{}", ("--budget-usd=-1",), "--budget-usd"),
        ("{}", ("--billing-export=x.csv",), "not valid with --ci"),
    ],
)
def test_a_bad_base_is_refused_and_writes_nothing(content, words, expected, write, cloudgan_here):
    run = write()
    base = run / "base.json"
    if content is not None:
        base.write_text(content)
    done = cloudgan_here("cost", run, f"--ci={base}", *words, exits=2)
    assert expected in done.stderr
    assert not (run / "cost.json").exists()
    assert "only valid with --ci" in cloudgan_here("cost", run, "--budget-usd=1", exits=2).stderr
    alone = cloudgan_here("cost", run, "--allow-unknown", exits=2).stderr
    assert "only valid with --budget-usd" in alone
