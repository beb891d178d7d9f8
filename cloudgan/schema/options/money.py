"""Options of the commands on money: offers, prices, cost, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import model_validator

from cloudgan.core import clouds
from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import ConfigError
from cloudgan.core.flags import FILE, Options, Text, argument, flag
from cloudgan.core.ranges import (
    MAX_BATCH,
    MAX_EPOCHS,
    MAX_SECONDS,
    MAX_SHOWERS,
    MAX_SIZE,
    MAX_USD,
    Range,
    parse_whole,
)
from cloudgan.schema.options.shared import PRICE_AS, PRICE_FILE, REPORT
from cloudgan.schema.presets import networks
from cloudgan.schema.price_row import Market


def _sizes(shown: str, text: str) -> tuple[int, ...]:
    return tuple(parse_whole(shown, word, Range(1, MAX_SIZE)) for word in text.split(","))


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
        cloudgan offers --epochs=60 --preset=mini --showers=20000
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
    market: Market | None = flag(None, "only this market", "Where", screen=True, words="both")
    epochs: int | None = flag(
        None,
        "length of the job in epochs; numbers of nodes by time and cost are shown",
        "Job",
        screen=True,
        ge=1,
        le=MAX_EPOCHS,
    )
    max_hours: float | None = flag(
        None, "deadline of the job", "Limits", screen=True, gt=0, le=MAX_SECONDS / HOUR_SECONDS
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
    preset: str = flag(
        "paper",
        "networks to train; {names}",
        "Job",
        screen=True,
        names=networks,
        placeholder="NAME",
    )
    showers: int | None = flag(
        None,
        "showers of an epoch",
        "Job",
        screen=True,
        ge=1,
        le=MAX_SHOWERS,
        words="those of --run, else the paper's 124,987",
    )
    price_file: Annotated[Path | None, FILE] = PRICE_FILE
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

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.run is not None and "preset" in self.model_fields_set:
            raise ConfigError("--run and --preset exclude each other: a run has its own networks")
        for name, value in (("max-hours", self.max_hours), ("budget-usd", self.budget_usd)):
            if value is not None and self.epochs is None:
                raise ConfigError(f"--{name} limits a job; give its length, such as --epochs=60")
        of_spot = ("losses_per_node_hour", "restart_seconds", "checkpoint_seconds")
        if self.epochs is None and (given := self.model_fields_set.intersection(of_spot)):
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in sorted(given))
            raise ConfigError(
                f"{flags}: the prices of an epoch have no preemptions; give the length of a job, such"
                " as --epochs=60"
            )
        if self.epochs is not None and self.carbon:
            raise ConfigError("--carbon ranks the emissions of one epoch; omit --epochs")
        return self


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
    provider: str | None = flag(None, "only this cloud: {names}", words="all", names=clouds.names)
    accelerator: str | None = flag(
        None, "only nodes with it; a name or a family such as a100; for show", placeholder="NAME"
    )
    region: str | None = flag(None, "only this region; for show", placeholder="R")
    market: Market | None = flag(None, "only this market; for show", words="both")
    output: Annotated[Path | None, FILE] = flag(
        None, "also write a nodes.csv for the package; for refresh", placeholder="FILE"
    )

    @model_validator(mode="after")
    def _of_the_action(self) -> Self:
        only = {
            "show": ("output",),
            "refresh": ("accelerator", "region", "market"),
        }
        for name in only[self.action]:
            if (value := getattr(self, name)) is not None:
                other = "refresh" if self.action == "show" else "show"
                raise ConfigError(f"--{name}={value} is only valid with `cloudgan prices {other}`")
        return self


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
    price_file: Annotated[Path | None, FILE] = PRICE_FILE
    fit: Annotated[Path | None, FILE] = flag(
        None,
        "measured times, instead of RUN; a CSV file with the columns n, seconds and, optionally, nodes and steps (of an epoch)",
        "Fit",
        placeholder="FILE",
    )
    predict: Annotated[tuple[int, ...], Text(_sizes, "N,N", joint=",")] = flag(
        (), "for so many accelerators; such as 32,64,128", "Fit", placeholder="N,N"
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
        "showers per second that can be read; limits a predicted epoch, give or take 6 %; with --showers and --batch, see `cloudgan bench input`",
        "Fit",
        gt=0,
        le=1e12,
    )
    billing_export: tuple[Path, ...] = flag(
        (),
        "what was billed; exports in FOCUS 1.x, such as bill.json,bill2.csv.gz, whose lines with this run's label count",
        "Bill",
        placeholder="FILE,...",
    )
    ci: Annotated[Path | None, FILE] = flag(
        None,
        "difference from an earlier result, in Markdown; a file of `cloudgan plan --json` or `cloudgan cost RUN --json`, for a comment on a pull request",
        "CI",
        placeholder="FILE",
    )
    budget_usd: float | None = flag(
        None, "exit with 6 if it costs more, or may; with --ci", "CI", gt=0, le=MAX_USD
    )
    allow_unknown: bool = flag(False, "what is unknown does not count; with --budget-usd", "CI")
    report: str | None = REPORT

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        """A run is priced or compared, or times are predicted from a CSV."""
        if (self.run is None) == (self.fit is None):
            both = "a run or --fit, not both" if self.run else "no run given"
            raise ConfigError(
                f"{both}: `cloudgan cost RUN` prices a run, such as runs/NAME, `cloudgan cost --fit=CSV"
                " --predict=32,64,128` predicts times"
            )
        if self.fit is not None and not self.predict:
            raise ConfigError(
                f"--fit={self.fit} needs the sizes to predict, such as --predict=32,64,128"
            )
        other = "--fit=CSV, without RUN" if self.fit is None else "RUN, not with --fit"
        of_fit, of_run = (
            ("predict", "showers", "batch", "feed"),
            ("price_as", "billing_export", "ci"),
        )
        for name in of_fit if self.fit is None else of_run:
            if getattr(self, name) not in (None, ()):
                raise ConfigError(f"{_given(self, name)} is only valid with {other}")
        if self.ci is not None and self.billing_export:
            raise ConfigError(f"{_given(self, 'billing_export')} is not valid with --ci")
        if self.budget_usd is not None and self.ci is None:
            raise ConfigError(
                f"--budget-usd={self.budget_usd:g} is only valid with --ci=BASE.json; `cloudgan deploy"
                " --budget-usd` limits a run"
            )
        if self.allow_unknown and self.budget_usd is None:
            raise ConfigError("--allow-unknown is only valid with --budget-usd")
        if self.price_file is not None and not self.price_as:
            raise ConfigError(
                f"--price-file={self.price_file} needs --price-as=OFFER, one of its nodes"
            )
        return self


def _given(options: Options, name: str) -> str:
    value = getattr(options, name)
    shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
    return f"--{name.replace('_', '-')}={shown}"


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
        placeholder="LIMIT",
    )
    price_as: str | None = PRICE_AS
    report: str | None = REPORT

    @model_validator(mode="after")
    def _one_comparison(self) -> Self:
        if self.runs and self.paper:
            raise ConfigError("--paper compares the paper's runs alone: omit the runs, or --paper")
        if not self.runs and not self.paper:
            raise ConfigError("nothing to compare: give runs, such as runs/*, or --paper")
        if self.to_quality and self.paper:
            raise ConfigError(
                "--to-quality needs your own runs: the paper's have no acceptance gates"
            )
        if self.until is not None and not self.to_quality:
            raise ConfigError(f"--until={self.until} needs --to-quality")
        if self.to_quality and self.scaling:
            raise ConfigError("--to-quality and --scaling are two comparisons: give one of them")
        return self
