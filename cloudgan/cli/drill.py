"""`cloudgan drill`: the paid self-test that somebody with an account runs once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan import __version__
from cloudgan.cli.account_flags import EVERY_CLOUD, account_flags
from cloudgan.cli.confirmation import confirm
from cloudgan.cli.output import show_json, shown_after
from cloudgan.cli.shared_flags import with_flags
from cloudgan.core.clock import utc_moment, utc_now
from cloudgan.core.errors import BudgetError, CloudganError, ConfigError, LeftBehindError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloudgan.auditing.drill import Exercise, Setting
    from cloudgan.auditing.drill_report import DrillReport
    from cloudgan.cli.launch_flags import Where
    from cloudgan.reports.table import Table

_PLANNED = ("", "exercise", "proves", "expects", "minutes", "USD")


@with_flags(account=account_flags)
def drill(
    *,
    budget_usd: float = 5.0,
    accelerator: str = "T4:1",
    alone_minutes: float = 6.0,
    watch_minutes: float = 10.0,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
    account: Where = EVERY_CLOUD,
) -> None:
    """Runs ten exercises on your account that no test without one can, and writes what it saw.

    Two of the smallest GPU nodes train, lose a peer, are taken back and are left alone; then all is
    removed. It takes up to three hours and ends at the first exercise that fails; whatever happens,
    what it made is removed. The report is in runs/drill-.../report.json.

    Args:
        budget_usd: Most that it may cost; it does not begin where that may not do.
        accelerator: Of each of the two nodes.
        alone_minutes: For how long the run that nobody watches computes.
        watch_minutes: For how long its nodes must stay away.
        dry_run: Show the exercises and the most they can cost, and stop; needs no login.
        yes: Do not ask.
        json: Print the report as JSON.
        account: Which, from the flags that commands share.
    """
    if account.provider is None:
        raise ConfigError("on which cloud? Give --provider=gcp, aws or azure")
    if budget_usd <= 0:
        raise ConfigError(f"--budget_usd={budget_usd:g} must be above zero")
    if accelerator.casefold().startswith("tpu"):
        raise ConfigError(f"--accelerator={accelerator}: the exercises rent GPUs, such as T4:1")
    from cloudgan.auditing.drill_exercises import exercises

    setting, unknown = _setting(account, accelerator, alone_minutes, watch_minutes)
    steps = exercises(setting)
    report = _report(setting, account, steps, unknown)
    if dry_run or not json:
        _show(report, as_json=json)
    if dry_run:
        return
    if report.most_usd > budget_usd:
        raise BudgetError(
            f"the drill may cost {report.most_usd:.2f} USD, more than --budget_usd={budget_usd:g};"
            " a smaller --accelerator or fewer --alone_minutes and --watch_minutes may do"
        )
    question = f"Spend up to {report.most_usd:.2f} USD on {account.provider}?"
    confirm(question, yes=yes)
    done = _run(setting, account, steps, report)
    _end(done, setting, json=json)


def _setting(
    account: Where, accelerator: str, alone_minutes: float, watch_minutes: float
) -> tuple[Setting, tuple[str, ...]]:
    """What was asked, at its price; and what has none."""
    from cloudgan.auditing.drill import NODES, Setting
    from cloudgan.cli.launch_flags import launch_flags
    from cloudgan.cli.launch_plan import planned
    from cloudgan.cli.place import RUNS
    from cloudgan.cli.rent_flags import rent_flags

    provider = account.provider
    name = f"drill-{utc_moment():%m%d-%H%M%S}"
    flags = launch_flags(provider=provider, name=name, nodes=NODES, accelerator=accelerator)  # type: ignore[arg-type]
    own = {key: getattr(account, key) for key in ("project", "profile", "subscription", "region")}
    plan = planned(flags, rent_flags(**own, spot="never"), ({}, None), lambda _: ())
    if plan.price is None:
        raise ConfigError(f"nobody knows what {accelerator} costs on {provider}; take another one")
    around, unknown = _around(plan.price.provider, plan.price.region)
    given = own | {"provider": provider, "region": plan.price.region}
    setting = Setting(
        name=name,
        provider=str(provider),
        where=tuple(f"--{key}={value}" for key, value in given.items() if value),
        accelerator=accelerator,
        folder=RUNS / name,
        usd_per_hour=NODES * plan.price.usd_per_hour + around,
        alone_minutes=alone_minutes,
        watch_minutes=watch_minutes,
    )
    return setting, unknown


def _around(provider: str, region: str) -> tuple[float, tuple[str, ...]]:
    """What a cluster costs per hour beside its nodes, and what of it nobody knows."""
    from cloudgan.cost.fees import load_fees

    fees = load_fees()
    plane = fees.find("control_plane", provider, region)
    node = fees.find("system_node", provider, region)
    names = {"the cluster's control plane": plane, "the cluster's own node": node}
    unknown = tuple(name for name, fee in names.items() if fee is None)
    return sum(fee.usd for fee in names.values() if fee), unknown


def _report(
    setting: Setting, account: Where, steps: tuple[Exercise, ...], unknown: tuple[str, ...]
) -> DrillReport:
    from cloudgan.auditing.drill_report import DrillReport

    return DrillReport(
        drill=setting.name,
        provider=setting.provider,
        account=account.project or account.subscription or account.profile,
        region=next(
            (w.partition("=")[2] for w in setting.where if w.startswith("--region=")), None
        ),
        accelerator=setting.accelerator,
        began=utc_now(),
        cloudgan=__version__,
        usd_per_hour=setting.usd_per_hour,
        not_in_the_price=unknown,
        exercises=tuple(step.report(setting.usd_per_hour) for step in steps),
    )


def _run(
    setting: Setting, account: Where, steps: tuple[Exercise, ...], report: DrillReport
) -> DrillReport:
    from cloudgan.auditing.drill import Drill, Ground
    from cloudgan.auditing.drill_report import FILE_NAME
    from cloudgan.cli.drill_hands import TypingHands
    from cloudgan.cli.main import main
    from cloudgan.cli.progress import Bars
    from cloudgan.cli.rented_place import account_place
    from cloudgan.core.json_file import write_json

    setting.folder.mkdir(parents=True, exist_ok=True)
    hands = TypingHands(account_place(account), main)
    with Bars() as bars:
        return Drill(
            Ground(setting, hands),
            steps,
            report,
            say=bars.say,
            keep=lambda newest: write_json(setting.folder / FILE_NAME, newest),
        ).run()


def _end(report: DrillReport, setting: Setting, *, json: bool) -> None:
    from cloudgan.auditing.drill_report import FILE_NAME

    _show(report, as_json=json)
    path = setting.folder / FILE_NAME
    error: CloudganError | None = None
    if report.left:
        error = LeftBehindError(f"still there: {', '.join(report.left)}; cloudgan doctor --delete")
    elif not report.has_passed:
        failed = next((one for one in report.exercises if one.outcome != "passed"), None)
        why = f"{failed.name}: {failed.saw or failed.outcome}" if failed else "it was broken off"
        error = CloudganError(f"the drill failed at: {why}. The report is {path}")
    if error:
        raise shown_after(error, as_json=json)
    if not json:
        print(f"all passed, nothing is left; the report is {path}")


def _show(report: DrillReport, *, as_json: bool) -> None:
    if as_json:
        show_json(report.model_dump(mode="json") | {"most_usd": report.most_usd})
        return
    from cloudgan.cli.table_view import show_table

    show_table(_table(report))
    for line in _lines(report):
        print(line)


def _lines(report: DrillReport) -> Iterator[str]:
    least = "at least " if report.not_in_the_price else ""
    unknown = f" (without {', '.join(report.not_in_the_price)})" if report.not_in_the_price else ""
    yield (
        f"two nodes with {report.accelerator} on {report.provider} in {report.region} and a cluster:"
        f" {least}{report.usd_per_hour:.2f} USD per hour{unknown}"
    )
    yield f"if each step takes as long as it may: {least}{report.most_usd:.2f} USD"


def _table(report: DrillReport) -> Table:
    from cloudgan.reports.table import Mark, Number, Table

    marks = {"passed": True, "failed": False, "not run": None}
    began = any(one.outcome != "not run" for one in report.exercises)
    heads = ("", "exercise", "outcome", "saw") if began else _PLANNED
    rows = tuple(
        (number, one.name, Mark(marks[one.outcome], one.outcome), one.saw)
        if began
        else (
            number,
            one.name,
            one.proves,
            one.expects,
            Number(one.most_minutes, f"{one.most_minutes:g}"),
            Number(one.most_usd, f"{one.most_usd:.2f}"),
        )
        for number, one in enumerate(report.exercises, start=1)
    )
    return Table(heads, rows)
