"""Results of `check`, `doctor` and `setup`: one line per permission, one row per resource."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import Field

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import CloudganError, CredentialsError, ResourcesLeftError
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Mark, Number, Table, usd_text
from cloudgan.schema.cost_report import Totals
from cloudgan.schema.plan import Step
from cloudgan.schema.resource import Finding

_SIGNS = {"ok": "✓", "missing": "✗", "unknown": "?"}
_MARKS = {"expected": True, "orphaned": False, "deleting": False, "unknown": None}
_STATES = {"expected": "needed", "deleting": "in deletion"}
_MOST_REASONS = 5


class PreflightReport(NamedTuple):
    """Findings of one cloud, the login first."""

    provider: str
    findings: tuple[Finding, ...]

    @property
    def is_ready(self) -> bool:
        """Whether no finding is missing."""
        return all(one.status != "missing" for one in self.findings)


class AccountCheck(Result):
    """Login, permissions and quota of the accounts in the clouds."""

    provider: str | None = Field(description="the only one that was checked; None: all")
    clouds: tuple[PreflightReport, ...]

    @property
    def is_ready(self) -> bool:
        """Whether nothing is missing in one of the clouds."""
        return any(one.is_ready for one in self.clouds)

    def as_json(self) -> dict[str, Any]:
        """Returns the findings by cloud."""
        clouds = {
            one.provider: {
                "ready": one.is_ready,
                "findings": [finding._asdict() for finding in one.findings],
            }
            for one in self.clouds
        }
        return {"schema_version": self.schema_version, "ready": self.is_ready, "clouds": clouds}

    def view(self) -> View:
        """Returns a line per ready cloud, and one per finding that is not ok, with what mends it."""
        lines, fine = [], []
        for one in self.clouds:
            title = f"{CLOUDS[one.provider].title:<5}"
            good = [finding for finding in one.findings if finding.status == "ok"]
            if one.is_ready:
                lines.append(f"✓ {title} ready: {good[0].message if good else ''}".rstrip(": "))
            lines += [_finding(title, bad) for bad in one.findings if bad.status != "ok"]
            fine += [_finding(title, finding) for finding in good]
        return View("\n".join(lines), basis=tuple(fine))

    def problem(self) -> CloudganError | None:
        """Returns the error that no cloud is ready."""
        if self.is_ready:
            return None
        subject = f"{self.provider} is not" if self.provider else "no cloud is"
        return CredentialsError(f"{subject} ready: mend what has the sign ✗")


def _finding(title: str, finding: Finding) -> str:
    return f"{_SIGNS[finding.status]} {title} {finding.subject}: {finding.message}"


class AccountInventory(Result):
    """Resources and run folders in the accounts, the runs that need them, and their cost."""

    clouds: dict[str, str | None] = Field(description="account by cloud")
    unavailable: dict[str, str] = Field(description="reason by cloud that could not be queried")
    silent: dict[str, tuple[str, ...]] = Field(description="what did not answer, by cloud")
    resources: tuple[dict[str, Any], ...]
    orphaned: int
    usd_per_day: Totals
    usd_per_day_orphaned: Totals
    folders: tuple[dict[str, Any], ...]
    usd_per_month_of_folders: Totals
    notes: tuple[str, ...]
    deleted: tuple[str, ...] | None = Field(default=None, description="None: nothing was to be")

    def as_json(self) -> dict[str, Any]:
        """Returns all fields; those of a deletion only after one."""
        return self.model_dump(mode="json", exclude={"deleted"} if self.deleted is None else None)

    def view(self) -> View:
        """Returns a row per resource, the folders, and what is not known."""
        lines = [
            f"{name}: {_count(self._in(name), 'resource')} of cloudgan in"
            f" {f'the part of {account} that answered' if name in self.silent else account}"
            for name, account in self.clouds.items()
        ]
        lines += [f"{name} could not be queried: {why}" for name, why in self.unavailable.items()]
        notes, folders = [], self.folders
        if self.resources:
            notes.append(f"total: {_sum(self.usd_per_day)} per day")
        reasons = [
            f"{one['kind']} {one['name']}: {one['reason']}"
            for one in self.resources
            if one["status"] != "expected"
        ]
        notes += reasons[:_MOST_REASONS]
        if folders:
            month = _sum(self.usd_per_month_of_folders)
            names = ", ".join(one["run"] for one in folders)
            notes.append(f"run folders: {month} per month: {names}")
        notes += [f"not checked: {note}" for note in self.notes]
        return View(
            line="\n".join(lines),
            table=self._table() if self.resources else None,
            notes=tuple(notes),
            basis=(*reasons, *(_folder_line(one) for one in folders)),
        )

    def _in(self, cloud: str) -> int:
        return sum(one["provider"] == cloud for one in self.resources)

    def _table(self) -> Table:
        rows = tuple(
            (
                f"{one['kind']} {one['name']}",
                Number(one["usd_per_day"], _usd(one["usd_per_day"])),
                Mark(_MARKS[one["status"]], _STATES.get(one["status"], one["status"])),
                one["remove"],
                one["region"],
            )
            for one in self.resources
        )
        return Table(("resource", "USD/day", "state", "deleted by", "region"), rows, align="lrlll")

    def problem(self) -> CloudganError | None:
        """Returns the error of orphaned resources, silent parts, or no cloud."""
        if not self.clouds and not self.silent:
            return CredentialsError(
                "no cloud could be queried; `cloudgan check` shows what each one needs"
            )
        found = []
        if self.orphaned:
            usd = _sum(self.usd_per_day_orphaned)
            hint = "; `cloudgan doctor --delete` deletes them" if self.deleted is None else ""
            found = [f"{_count(self.orphaned, 'orphaned resource')}, {usd} per day{hint}"]
        found += [
            f"{name}: no answer from {', '.join(places)}; resources may be there: try again later"
            for name, places in self.silent.items()
        ]
        return ResourcesLeftError(". ".join(found)) if found else None


def _folder_line(one: dict[str, Any]) -> str:
    size = "unknown size" if one["bytes"] is None else f"{one['bytes'] / 2**20:.1f} MiB"
    usd = _usd(one["usd_per_month"]) or "unknown"
    return f"run folder {one['run']}, {one['state']}, {size}, {usd} USD/month: {one['remove']}"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _usd(usd: float | None) -> str:
    return "" if usd is None else usd_text(usd)


def _sum(sums: Totals) -> str:
    """Such as ``1.20 USD, plus cloudgan/gan (unknown)``."""
    unknown = f"{', '.join(sums.unknown)} (unknown)"
    if sums.unknown and not sums.known_usd:
        return unknown
    return f"{sums.known_usd:.2f} USD{f', plus {unknown}' if sums.unknown else ''}"


class SetupPlan(Result):
    """What `setup` creates in a region of an account, if it is missing."""

    provider: str
    account: str | None
    region: str | None
    steps: tuple[Step, ...]
    created: tuple[str, ...] | None = Field(default=None, description="None: not yet done")

    def place(self) -> str:
        """Returns such as ``gcp lab-1, us-central1``."""
        return f"{self.provider} {self.account}, {self.region}"

    def as_json(self) -> dict[str, Any]:
        """Returns the steps, or what was created."""
        key = "created" if self.created is None else "steps"
        return self.model_dump(mode="json", exclude={key})

    def view(self) -> View:
        """Returns what is needed once; the requests are the basis."""
        if self.created is not None:
            existing = len(self.steps) - len(self.created)
            line = f"{self.place()} is ready: {len(self.created)} created, {existing} existed"
            return View(line, done=True, basis=self.created)
        return View(
            f"Once in {self.place()}, if missing:",
            notes=(*(f"  {step.ensure}" for step in self.steps), "-v shows the requests"),
            basis=tuple(f"{step.ensure}: {step.operation}" for step in self.steps),
        )


class Teardown(Result):
    """What `setup --teardown` deletes and keeps."""

    resources: tuple[str, ...] = Field(description="that no run owns")
    deleted: tuple[str, ...]
    kept: tuple[str, ...] = Field(description="buckets")

    def view(self) -> View:
        """Returns what was or would be deleted, and what stays."""
        kept = tuple(
            f"bucket {one} is kept with its contents; --purge deletes it" for one in self.kept
        )
        if not self.resources:
            return View("no resource without a run exists", notes=kept)
        if self.deleted:
            return View(f"{len(self.deleted)} deleted", notes=kept, done=True)
        return View("\n".join(f"would delete: {one}" for one in self.resources), notes=kept)
