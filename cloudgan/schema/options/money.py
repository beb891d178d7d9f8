"""Options of the commands on money: offers, prices, cost, compare."""

from __future__ import annotations

from typing import Literal

from cloudgan.core.clouds import CloudName
from cloudgan.core.flags import Options, argument, flag
from cloudgan.core.ranges import MAX_BATCH, MAX_SECONDS, MAX_SHOWERS, MAX_USD
from cloudgan.schema.options.shared import PRICE_AS, PRICE_FILE, REPORT


class OffersOptions(Options):
    """Recommends nodes to rent, by the cost of an epoch or of a whole job.

    With --epochs it is a whole job, as `plan` counts it. The verdict is first; at most eight rows follow: cheapest, fastest, best within the limits and
    safest, measured and modelled. Exit code 5: nothing fits, and the smallest change that would.
    Throughput is that of measured runs: the paper's, or with --run your own. Without a measurement
    it is an interval between the limits of memory bandwidth and arithmetic, and its lower bound
    ranks.

    Examples:
        cloudgan offers --accelerator=h100
        cloudgan offers --epochs=60 --max-hours=2
        cloudgan offers --epochs=60 --run=mine --market=spot
    """

    accelerator: str | None = flag(
        None,
        "only this accelerator; such as h100 or A100-80GB",
        "Where",
        screen=True,
        placeholder="NAME",
    )
    provider: str | None = flag(
        None, "only this cloud; aws, azure or gcp", "Where", screen=True, placeholder="NAME"
    )
    region: str | None = flag(
        None, "only this region; such as us-central1", "Where", screen=True, placeholder="R"
    )
    market: Literal["on_demand", "spot"] | None = flag(
        None, "only this market", "Where", screen=True, words="both"
    )
    epochs: int | None = flag(
        None,
        "length of the job in epochs; numbers of nodes by time and cost are shown",
        "Job",
        screen=True,
        ge=1,
        le=10**6,
    )
    max_hours: float | None = flag(
        None, "deadline of the job", "Limits", screen=True, gt=0, le=MAX_SECONDS / 3600
    )
    budget_usd: float | None = flag(
        None, "maximum cost of the job", "Limits", screen=True, gt=0, le=MAX_USD
    )
    run: str | None = flag(
        None,
        "your run, whose throughput and network count",
        "Job",
        screen=True,
        words="the paper's",
        placeholder="RUN",
    )
    price_file: str | None = PRICE_FILE
    measured: bool = flag(
        False, "only accelerators that were measured; with this network", "Show", screen=True
    )
    carbon: bool = flag(False, "emissions of an epoch, the lowest first", "Show", screen=True)
    all: bool = flag(
        False,
        "every offer; of a job the cheapest option of each configuration",
        "Show",
        screen=True,
    )
    losses_per_node_hour: float | None = flag(
        None,
        "preemptions of a spot node per hour",
        "Spot",
        screen=True,
        ge=0,
        le=3600,
        words="of public traces of its cloud and accelerator, else 1/24",
    )
    restart_seconds: float = flag(
        600.0, "seconds from a preemption until training continues", "Spot", ge=0, le=MAX_SECONDS
    )
    checkpoint_seconds: float = flag(
        10.0, "seconds to save a checkpoint", "Spot", ge=0, le=MAX_SECONDS
    )
    report: str | None = REPORT


class PricesOptions(Options):
    """Shows prices with their age, or refreshes them from the clouds.

    refresh downloads the price lists of AWS, Azure and Google into your data folder (CLOUDGAN_DATA);
    the package is unchanged. The lists of AWS and Azure need no login; Google needs an API key in
    CLOUDGAN_GCP_API_KEY, AWS spot prices need a login.

    Examples:
        cloudgan prices --accelerator=l4
        cloudgan prices refresh --provider=azure
    """

    action: Literal["show", "refresh"] = argument("show, or refresh: download the newest", "show")
    provider: CloudName | None = flag(None, "only this cloud", words="all")
    accelerator: str | None = flag(
        None, "only nodes with it; a name or a family such as a100; for show", placeholder="NAME"
    )
    region: str | None = flag(None, "only this region; for show", placeholder="R")
    market: Literal["on_demand", "spot"] | None = flag(
        None, "only this market; for show", words="both"
    )
    output: str | None = flag(
        None, "also write a nodes.csv for the package; for refresh", placeholder="FILE"
    )


class CostOptions(Options):
    """Says what a run cost, item by item, and what it would cost elsewhere.

    Writes cost.json beside it. A run on cloud nodes has the prices of its launch. A run on your own machine has no price per hour:
    its cost is unknown until --price-as names an offer. With --fit, times on more accelerators are predicted from a CSV
    file of measured ones.

    Examples:
        cloudgan cost mine
        cloudgan cost mine --price-as=gcp/g2-standard-4/us-central1/spot
        cloudgan cost --fit=times.csv --predict=32,64,128
    """

    run: str | None = argument(
        "a run, by name or folder; with --ci, also a file of `cloudgan plan --json`", None
    )
    price_as: str | None = PRICE_AS
    price_file: str | None = PRICE_FILE
    fit: str | None = flag(
        None,
        "measured times, instead of RUN; a CSV file with the columns n, seconds and, optionally, nodes and steps (of an epoch)",
        "Fit",
        placeholder="FILE",
    )
    predict: str | None = flag(
        None, "for so many accelerators; such as 32,64,128", "Fit", placeholder="N,N"
    )
    showers: int | None = flag(
        None,
        "showers of an epoch; with --batch they give its steps",
        "Fit",
        ge=1,
        le=MAX_SHOWERS,
    )
    batch: int | None = flag(None, "showers per accelerator and step", "Fit", ge=1, le=MAX_BATCH)
    feed: float | None = flag(
        None,
        "showers per second that can be read; no predicted epoch is faster; with --showers and --batch, see `cloudgan bench input`",
        "Fit",
        gt=0,
        le=1e12,
    )
    billing_export: str | None = flag(
        None,
        "what was billed; exports in FOCUS 1.x, such as bill.json,bill2.csv.gz, whose lines with this run's label count",
        "Bill",
        placeholder="FILE,...",
    )
    ci: str | None = flag(
        None,
        "difference from an earlier result, in Markdown; a file of `cloudgan plan --json` or `cloudgan cost RUN --json`, for a comment on a pull request",
        "CI",
        placeholder="FILE",
    )
    budget_usd: float | None = flag(
        None, "exit with 6 if it costs more; with --ci", "CI", gt=0, le=MAX_USD
    )
    report: str | None = REPORT


class CompareOptions(Options):
    """Shows runs side by side, or the paper's runs at prices of 2020/21 and today.

    Examples:
        cloudgan compare runs/*
        cloudgan compare runs/* --to-quality
        cloudgan compare --paper
    """

    runs: tuple[str, ...] = argument(
        "runs, by name or folder; as a shell expands runs/*",
        (),
        is_repeated=True,
        placeholder="RUN",
    )
    paper: bool = flag(False, "the runs of arXiv:2111.04628; recomputed from their published times")
    to_quality: bool = flag(
        False,
        "time and cost until all gates were passed; those of `cloudgan validate`, with the spread over seeds",
    )
    scaling: bool = flag(
        False,
        "speed-up over the number of workers; and efficiency, training only and end to end, of runs that differ in it only, with Amdahl's serial share; POWER8 and the paper beside them; with --paper: these two only",
    )
    until: str | None = flag(
        None,
        'another condition than the gates; such as "metric<0.15", on the validations of `cloudgan train --validate-every`; with --to-quality',
    )
    price_as: str | None = PRICE_AS
    report: str | None = REPORT
