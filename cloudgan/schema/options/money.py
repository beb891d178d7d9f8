"""Options of the commands on money: offers, prices, cost, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import model_validator

from cloudgan.core.clouds import CloudName
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


def _sizes(shown: str, text: str) -> tuple[int, ...]:
    return tuple(parse_whole(shown, word, Range(1, MAX_SIZE)) for word in text.split(","))


class OffersOptions(Options):
    """Recommends an offer: by the cost of an epoch, or with --epochs of a whole job, as `plan` does.

    The verdict is first; at most eight rows follow: cheapest, fastest, best within the limits and
    safest, measured and modelled. Exit code 5: nothing fits, and the smallest change that would.
    Throughput is that of measured runs: the paper's, or with --run your own. Without a measurement
    it is an interval between the limits of memory bandwidth and arithmetic, and its lower bound
    ranks.
    """

    accelerator: str | None = flag(None, "such as h100 or A100-80GB")
    provider: str | None = flag(None, "the cloud", words="every cloud")
    region: str | None = flag(None, "such as us-central1")
    market: Literal["on_demand", "spot"] | None = flag(None, "on_demand or spot", words="both")
    epochs: int | None = flag(
        None,
        "epochs of a job; shows the best offers and numbers of nodes by time and cost",
        ge=1,
        le=MAX_EPOCHS,
    )
    max_hours: float | None = flag(None, "deadline of the job", gt=0, le=MAX_SECONDS / 3600)
    budget_usd: float | None = flag(None, "maximum cost of the job", gt=0, le=MAX_USD)
    run: str | None = flag(
        None, "folder of a run whose throughput and network are used, such as runs/NAME"
    )
    price_file: Annotated[Path | None, FILE] = PRICE_FILE
    measured: bool = flag(False, "only accelerators with a measured throughput of this network")
    carbon: bool = flag(False, "show the emissions of an epoch, the lowest first")
    all: bool = flag(
        False, "show every offer, or the cheapest option of each configuration of a job"
    )
    losses_per_node_hour: float | None = flag(
        None,
        "preemptions of a spot node per hour",
        ge=0,
        le=3600,
        words="of public traces of its cloud and accelerator, else 1/24",
    )
    restart_seconds: float = flag(
        600.0, "time from a preemption until training continues", ge=0, le=MAX_SECONDS
    )
    checkpoint_seconds: float = flag(10.0, "time to save a checkpoint", ge=0, le=MAX_SECONDS)
    report: str | None = REPORT

    @model_validator(mode="after")
    def _limits_a_job(self) -> Self:
        for name, value in (("max-hours", self.max_hours), ("budget-usd", self.budget_usd)):
            if value is not None and self.epochs is None:
                raise ConfigError(f"--{name} limits a job; give its length, such as --epochs=60")
        return self


class PricesOptions(Options):
    """Shows prices with their age, or refreshes them from the clouds.

    refresh downloads the price lists of AWS, Azure and Google into your data folder (CLOUDGAN_DATA);
    the package is unchanged. The lists of AWS and Azure need no login; Google needs an API key in
    CLOUDGAN_GCP_API_KEY, AWS spot prices need a login.
    """

    action: Literal["show", "refresh"] = argument("show or refresh", "show")
    provider: CloudName | None = flag(None, "one cloud", words="all")
    accelerator: str | None = flag(
        None, "for show: nodes with this accelerator, a name or a family such as a100"
    )
    region: str | None = flag(None, "for show: this region only")
    market: Literal["on_demand", "spot"] | None = flag(
        None, "for show: nodes on_demand or spot only"
    )
    output: Annotated[Path | None, FILE] = flag(
        None, "for refresh: write a new nodes.csv of the package to this file as well"
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
    """Prices a run by item and on other offers, and writes cost.json; or predicts times from a CSV.

    A run on cloud nodes has the prices of its launch. A run on your own machine has no price per hour:
    its cost is unknown until --price-as names an offer.
    """

    run: str | None = argument(
        "folder of the run; with --ci, also a file of `cloudgan plan --json`", None
    )
    price_as: str | None = PRICE_AS
    price_file: Annotated[Path | None, FILE] = PRICE_FILE
    fit: Annotated[Path | None, FILE] = flag(
        None,
        "instead of a run: CSV file of timings with the columns n, seconds and, optionally, nodes and steps (of an epoch)",
    )
    predict: Annotated[tuple[int, ...], Text(_sizes, "N,N", joint=",")] = flag(
        (), "numbers of accelerators whose times are predicted, such as 32,64,128; with --fit"
    )
    showers: int | None = flag(
        None,
        "showers of an epoch, which give the steps together with --batch; with --fit",
        ge=1,
        le=MAX_SHOWERS,
    )
    batch: int | None = flag(
        None, "showers per accelerator and step; with --fit", ge=1, le=MAX_BATCH
    )
    feed: float | None = flag(
        None,
        "showers per second that the input can supply (see `cloudgan bench input`): no predicted epoch is faster than they are read; with --fit, --showers and --batch",
        gt=0,
        le=1e12,
    )
    billing_export: tuple[Path, ...] = flag(
        (),
        "billing exports of the run's cloud in FOCUS 1.x, such as bill.json,bill2.csv.gz; only lines with this run's label count",
    )
    ci: Annotated[Path | None, FILE] = flag(
        None,
        "file of an earlier `cloudgan plan --json` or `cloudgan cost RUN --json`: print the difference in Markdown, for a comment on a pull request",
    )
    budget_usd: float | None = flag(
        None, "exit with 6 if the run or plan costs more; with --ci", gt=0, le=MAX_USD
    )
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
    """Shows runs side by side, or the paper's runs at the prices of 2020/21 and of today."""

    runs: tuple[str, ...] = argument(
        "runs, by name or folder, as a shell expands runs/*",
        (),
        is_repeated=True,
        placeholder="RUN",
    )
    paper: bool = flag(
        False, "instead: the runs of arXiv:2111.04628, recomputed from their published times"
    )
    to_quality: bool = flag(
        False,
        "time and cost until the acceptance gates of `cloudgan validate` were first passed, with the spread over seeds",
    )
    scaling: bool = flag(
        False,
        "speed-up and efficiency over the number of workers, training only and end to end, of runs that differ in it only, with Amdahl's serial share; POWER8 and the paper beside them; with --paper: these two only",
    )
    until: str | None = flag(
        None,
        'with --to-quality: instead of the gates, a condition on the validations of `cloudgan train --validate-every`, such as "metric<0.15"',
    )
    price_as: str | None = PRICE_AS
    report: str | None = REPORT

    @model_validator(mode="after")
    def _one_comparison(self) -> Self:
        if bool(self.runs) == self.paper:
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
