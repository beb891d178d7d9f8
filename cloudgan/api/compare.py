"""The command `compare`: runs side by side, their scaling, their cost to a quality, or those of the paper."""

from __future__ import annotations

import glob
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath

from pydantic import Field

from cloudgan.api.cost import price, read_launch, read_verdict
from cloudgan.api.run import Run, open_run
from cloudgan.api.scaling_comparison import compare_scaling, published_scaling
from cloudgan.core.command import command
from cloudgan.core.durations import duration_text
from cloudgan.core.errors import ConfigError
from cloudgan.money.catalog import load_catalog
from cloudgan.money.comparison import Comparison, OfRuns, summarize
from cloudgan.money.fees import load_fees
from cloudgan.money.paper_replay import replay
from cloudgan.money.quality_cost import cost_until, end_of_step
from cloudgan.reports.page import Page, Section
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Cell, Table
from cloudgan.schema.config import RunConfig
from cloudgan.schema.cost_report import at_least
from cloudgan.schema.launch import Launch
from cloudgan.schema.options.money import CompareOptions
from cloudgan.schema.price_row import PriceRow
from cloudgan.schema.quality import Outcome, QualityRow, RunToQuality, Spread
from cloudgan.schema.record import RunRecord, Stopped, Validated
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.stop_criterion import StopCriterion, parse_stop_criterion


@command
def compare(options: CompareOptions) -> Result:
    """Compares runs.

    Raises:
        ConfigError: The runs cannot be compared, or there is none.
        DataError: A folder holds no record.
        UnknownNameError: No offer or metric has this name.
    """
    offer = options.price_as
    if options.paper:
        return published_scaling() if options.scaling else replay(load_catalog())
    named = [open_run(path) for path in _folders(options.runs)]
    # With none, the first one says what it lacks.
    runs = [run for run in named if run.folder.record_file.exists()] or named
    left_out = tuple(run.folder.path.resolve().name for run in named if run not in runs)
    if options.scaling:
        scaling = compare_scaling(runs, price_as=offer)
        return scaling.model_copy(update={"left_out": left_out})
    if options.to_quality:
        quality = cost_to_quality(runs, until=options.until, price_as=offer)
        return quality.model_copy(update={"left_out": left_out})
    records = [run.record for run in runs]
    configs = [run.folder.read_config() for run in runs]
    networks = [config.model.network_name if config else None for config in configs]
    return Comparison(
        runs=tuple(
            summarize(
                own,
                price(run.folder, offer=offer).report,
                # Runs of the same network can recommend a larger batch.
                [other for other, name in zip(records, networks, strict=True) if name == network],
            )
            for run, own, network in zip(runs, records, networks, strict=True)
        ),
        left_out=left_out,
    )


def _folders(named: Sequence[str]) -> list[str]:
    """Returns folders of runs: what the shell expanded, comma lists, or quoted globs."""
    paths: list[str] = []
    for part in (word for name in named for word in name.split(",")):
        # Path.glob takes no absolute pattern.
        found = sorted(glob.glob(part)) if glob.has_magic(part) else [part]  # noqa: PTH207
        several = len(found) > 1 or len(named) > 1
        paths += [
            path
            for path in found
            if not several or RunFolder(path).record_file.exists() or not Path(path).exists()
        ]
    if not paths:
        raise ConfigError(f"{', '.join(named)}: no folder matches that holds a run (record.jsonl)")
    return list(dict.fromkeys(paths))


GATES = "acceptance gates"


class QualityComparison(OfRuns):
    """Rows of runs that differ in their seeds only."""

    goal: str = Field(description="what the runs had to meet")
    rows: tuple[QualityRow, ...] = Field(description="one for each configuration and machine")

    def view(self) -> View:
        """Returns a row per configuration; with -v one per run."""
        runs = [run for row in self.rows for run in row.runs]
        met = sum(run.outcome == "met" for run in runs)
        reasons = {run.detail for run in runs if run.outcome == "not judged"}
        reasons |= {run.why_unknown for run in runs if run.why_unknown}
        table = Table.of(
            (
                {
                    "configuration": f"{row.networks or 'unknown'} {row.configuration}",
                    **_seeds_and_met(row),
                    "training": _spread(row.train_seconds, duration_text),
                    "whole run": _spread(row.program_seconds, duration_text),
                    "USD": _usd_spread(row),
                }
                for row in self.rows
            ),
            align="lrlrrr",
        )
        return View(
            f"{met} of {len(runs)} runs met {self.goal}",
            table,
            notes=(
                "median (lowest to highest) until the goal was first met",
                *self._prices(),
                *sorted(reasons),
                "-v shows the runs",
            ),
            warnings=self.left_out_warnings(),
            basis=self._tables(),
        )

    def _tables(self) -> tuple[Table, Table]:
        """Returns a row per configuration, and a row per run."""
        return (
            Table.of(
                (
                    {
                        "configuration": f"{row.networks or 'unknown'} {row.configuration}"
                        + (f" gates {row.gates}" if row.gates else ""),
                        "machine": _machine(row),
                        **_seeds_and_met(row),
                        "train s": _spread(row.train_seconds),
                        "wall s": _spread(row.program_seconds),
                        "USD": _usd_spread(row),
                    }
                    for row in self.rows
                ),
                f"Until {self.goal} first met: median (lowest to highest) over the judged runs; a run that"
                " never met it counts as infinite. " + " ".join(self._prices()),
            ),
            Table.of(
                (_run_cells(run) for row in self.rows for run in row.runs),
                "Runs. wall: all processes from start to the goal, without waiting for nodes.",
            ),
        )

    def _prices(self) -> tuple[str, ...]:
        offers = {row.priced_as for row in self.rows if row.priced_as and not row.billed}
        return tuple(
            f"USD: this machine's time at the price of {offer}, not measured there"
            for offer in sorted(offers)
        )

    def page(self) -> Page:
        """Returns the tables as a page."""
        return Page("Time and cost to quality", sections=(Section(self.goal, self._tables()),))


def cost_to_quality(
    runs: Sequence[Run], *, until: str | None = None, price_as: str | None = None
) -> QualityComparison:
    """Returns time and cost of runs until they first met a goal, over seeds.

    Args:
        runs: The runs.
        until: A stop criterion, such as ``metric<0.15``, on the validations of the record. Default: the
            acceptance gates, which verdict.json judges for one checkpoint.
        price_as: Offer that prices runs on your own machine; see `cost`.

    Raises:
        ConfigError: `until` is not a stop criterion.
        DataError: A folder holds no record, or a file is damaged.
        UnknownNameError: No offer or metric has this name.
    """
    criterion = parse_stop_criterion(until) if until is not None else None
    row = load_catalog().row(price_as) if price_as else None
    goal = str(criterion) if criterion else GATES
    groups: dict[tuple[str, ...], list[QualityRow]] = {}
    for run in runs:
        key, one = _row(run, goal, criterion, row)
        groups.setdefault(key, []).append(one)
    rows = []
    for group in groups.values():
        digests = sorted({one.gates for one in group} - {""}) or [""]
        for digest in digests:
            # A run without a verdict stays in a row, with its outcome.
            allowed = {digest, ""} if digest == digests[0] else {digest}
            alike = [one for one in group if one.gates in allowed]
            its = tuple(run for one in alike for run in one.runs)
            rows.append(alike[0].model_copy(update={"gates": digest, "runs": its} | _spreads(its)))
    return QualityComparison(goal=goal, rows=tuple(rows))


def _row(
    run: Run, goal: str, criterion: StopCriterion | None, price: PriceRow | None
) -> tuple[tuple[str, ...], QualityRow]:
    """Returns what runs of one row have in common, and the row of one run."""
    record, config, launch = run.record, run.folder.read_config(), read_launch(run.folder)
    name, gates = run.folder.path.resolve().name, ""
    line: Validated | Stopped | None
    if criterion:
        outcome, detail, step, line = _by_validations(record, criterion)
    else:
        gates, outcome, detail, step, line = _by_verdict(run, record)
    seed = config.training.seed if config else None
    found = RunToQuality(run=name, seed=seed, outcome=outcome, detail=detail, step=step)
    if line:
        found = cost_until(found, record, line, row=price, launch=launch, fees=load_fees())
    elif outcome == "met":
        why = f"the record has no time at which step {step} was complete"
        found = found.model_copy(update={"why_unknown": why})
    started, (offer, billed) = record.started(), _offer(launch, price)
    numerics = started.numerics if started else None
    row = QualityRow(
        goal=goal,
        gates=gates,
        configuration=_digest(config, name) if config else f"of {name}, which has no run.yaml",
        networks=config.model.network_name if config else None,
        training_showers=started.training_showers if started else None,
        machine=started.hardware.describe() if started else "unknown",
        replicas=numerics.replicas if numerics else None,
        global_batch_size=numerics.global_batch_size if numerics else None,
        priced_as=offer,
        billed=billed,
        cloudgan=started.versions.get("cloudgan") if started else None,
        runs=(found,),
        **_spreads((found,)),
    )
    where = (started.hardware, started.numerics) if started else ()
    key = (row.configuration, offer or "", str(billed), *(one.model_dump_json() for one in where))
    return key, row


def _spreads(runs: Iterable[RunToQuality]) -> dict[str, Spread]:
    judged = [run for run in runs if run.outcome != "not judged"]
    return {
        name: Spread.of(
            math.inf if run.outcome == "never met" else getattr(run, name) for run in judged
        )
        for name in ("train_seconds", "program_seconds", "usd")
    }


def _by_validations(
    record: RunRecord, criterion: StopCriterion
) -> tuple[Outcome, str, int | None, Validated | None]:
    """Returns outcome, detail, step and line by the validations of the record."""
    found = record.validations()
    if not found:
        return "not judged", "no epoch was validated; see train --validate-every", None, None
    line = next((each for each in found if criterion.holds(each.metrics)), None)
    if line:
        value = line.metrics[criterion.name]
        return "met", f"{criterion.name} {value:.4g} after epoch {line.epoch + 1}", line.step, line
    best = math.nan
    for each in found:
        value = each.metrics.get(criterion.name, math.nan)
        best = value if criterion.is_better(value, best) else best
    shown = "unknown" if math.isnan(best) else f"{best:.4g}"
    ended = "" if record.stopped() else ", and the record has no end"
    detail = f"best {criterion.name} {shown} until step {found[-1].step}"
    return "never met", detail + ended, None, None


def _by_verdict(
    run: Run, record: RunRecord
) -> tuple[str, Outcome, str, int | None, Validated | Stopped | None]:
    """Returns digest of the gates, outcome, detail, step and line by verdict.json."""
    verdict = read_verdict(run.folder)
    if verdict is None:
        return "", "not judged", "no verdict.json; run `cloudgan validate`", None, None
    where = "an unknown step" if verdict.step is None else f"step {verdict.step}"
    detail = f"the gates judged {where} only"
    if not verdict.passed:
        return verdict.gates, "never met", detail, None, None
    line = None if verdict.step is None else end_of_step(record, verdict.step)
    return verdict.gates, "met", detail, verdict.step, line


def _offer(launch: Launch | None, row: PriceRow | None) -> tuple[str | None, bool]:
    """Returns the offer of the last billed attempt and True, else that of `row` and False."""
    billed = [one for one in (launch.attempts if launch else ()) if one.is_billed]
    if not billed:
        return (row.offer if row else None), False
    last = billed[-1]
    return f"{last.provider}/{last.node_type}/{last.region}/{last.market}", True


def _digest(config: RunConfig, run: str) -> str:
    """Returns sixteen hexadecimal digits of the configuration without what differs between seeds."""
    keys = config.model_dump(mode="json", exclude={"name": True, "checkpoint": {"url"}})
    del keys["training"]["seed"]
    path = PurePath(config.data.path)
    if path.parent.name == run:  # a demo simulates into its own folder
        keys["data"]["path"] = f"RUN/{path.name}"
    return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()[:16]


def _machine(row: QualityRow) -> str:
    replicas = row.replicas or 1
    batch = row.global_batch_size // replicas if row.global_batch_size else "unknown"
    return f"{replicas} x batch {batch}, {row.machine}"


def _seeds_and_met(row: QualityRow) -> dict[str, Cell]:
    judged = len(row.runs) - row.count("not judged")
    rest = f", {row.count('not judged')} not judged" if row.count("not judged") else ""
    seeds = len({run.seed for run in row.runs})
    return {"seeds": seeds, "met": f"{row.count('met')} of {judged}{rest}"}


def _run_cells(run: RunToQuality) -> dict[str, Cell]:
    met, usd = run.outcome == "met", "unknown"
    if run.usd is not None:
        usd = at_least(run.usd, run.usd_unknown)
    return {
        "run": run.run,
        "seed": run.seed,
        "goal": run.outcome,
        "step": run.step if met else "",
        "train s": run.train_seconds if met else "",
        "wall s": run.program_seconds if met else "",
        "USD": usd if met else "",
        "detail": "; ".join(filter(None, (run.detail, run.why_unknown))),
    }


def _spread(found: Spread, text_of: Callable[[float], str] = "{:.4g}".format) -> str:
    if found.why in {"unknown", "not judged"}:
        return found.why
    low, median, high = (
        "never" if value is None else text_of(value)
        for value in (found.low, found.median, found.high)
    )
    if text_of is duration_text and low == high:
        return median
    return f"{median} ({low} to {high})"


def _usd_spread(row: QualityRow) -> str:
    is_part = any(run.usd_unknown for run in row.runs) and row.usd.median is not None
    return f"{'at least ' if is_part else ''}{_spread(row.usd)}"
