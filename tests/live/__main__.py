"""The paid test of a real account: `make live PROVIDER=gcp BUDGET=5`.

Two of the smallest GPU nodes train, lose a worker, are preempted, and run without a client. It takes up to three
hours, stops at the first failure, always deletes its resources, and writes runs/live-test-.../report.json.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import time
from collections.abc import Callable

from cloudgan import __version__
from cloudgan.cli.main import main
from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.clock import utc_moment, utc_now
from cloudgan.core.clouds import has_system_node
from cloudgan.core.documents import parse_json
from cloudgan.core.labels import RUN
from cloudgan.launch.backends.kubernetes.checks import list_nodes
from cloudgan.launch.backends.run_document import read_plan
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.planner import open_cloud
from cloudgan.launch.operations.targets import RUNS, RunLocator, account_target
from cloudgan.launch.plan.launch_plan import NAMESPACE, make_launch_plan
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.money.fees import load_fees
from cloudgan.schema import plan as plans
from cloudgan.schema.plan import Plan, Target
from live.harness import FILE_NAME, NODES, CommandResult, LiveTest, LiveTestError
from live.scenarios import scenarios

Program = Callable[[list[str]], None]


def run(words: list[str] | None = None) -> int:
    """Runs the test, or with --dry-run shows what it does and costs at most; returns the exit code."""
    given = _options().parse_args(words)
    account = RunLocator(**{name: getattr(given, name) for name in _ACCOUNT})
    test = _prepare(account, given)
    _show(test)
    if given.dry_run:
        return 0
    if test.most_usd() > given.budget:
        print(
            f"it can cost {test.most_usd():.2f} USD, more than --budget={given.budget:g}; give a smaller"
            " --accelerator, or fewer --unattended-minutes and --watch-minutes",
            file=sys.stderr,
        )
        return 6
    test.folder.mkdir(parents=True, exist_ok=True)
    path = test.folder / FILE_NAME
    test.command_runner = CommandRunner(account_target(account), main)
    test.say = lambda line: print(line, file=sys.stderr)
    test.save = lambda newest: write_atomic(path, json.dumps(newest, indent=2).encode())
    test.run()
    _show(test)
    if test.remaining:
        print(f"resources left: {', '.join(test.remaining)}; run `cloudgan doctor --delete`")
        return 4
    print(f"{'all scenarios passed, no resources left' if test.has_passed else 'failed'}; {path}")
    return 0 if test.has_passed else 1


_ACCOUNT = ("provider", "project", "profile", "subscription", "region")


def _options() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="make live", description=__doc__)
    found.add_argument("--provider", required=True, choices=("gcp", "aws", "azure"))
    for name in _ACCOUNT[1:]:
        found.add_argument(f"--{name}")
    found.add_argument("--budget", type=float, default=5.0, help="maximum cost in USD")
    found.add_argument("--accelerator", default="T4:1", help="of each of the two nodes")
    found.add_argument("--unattended-minutes", type=float, default=6.0)
    found.add_argument("--watch-minutes", type=float, default=10.0)
    found.add_argument("--dry-run", action="store_true", help="needs no login, spends nothing")
    return found


def _prepare(account: RunLocator, given: argparse.Namespace) -> LiveTest:
    """Prices the test by a plan of two nodes, without a login."""
    name = f"live-test-{utc_moment():%m%d-%H%M%S}"
    request = LaunchRequest(
        provider=given.provider,
        name=name,
        nodes=NODES,
        accelerator=given.accelerator,
        project=account.project,
        subscription=account.subscription,
        profile=account.profile,
        regions=(account.region,) if account.region else (),
        market="on_demand",
        run_keys={"training.epochs": 1, "training.max_steps": 1},
    )
    price = make_launch_plan(request, lambda *_: ()).price
    if price is None:
        raise SystemExit(f"the price of {given.accelerator} is unknown; give another --accelerator")
    fees_usd, unknown = _cluster_fees(given.provider, price.region)
    flags = account._replace(region=price.region)._asdict()
    test = LiveTest(
        name=name,
        provider=given.provider,
        account_flags=tuple(f"--{key}={value}" for key, value in flags.items() if value),
        accelerator=given.accelerator,
        folder=RUNS / name,
        usd_per_hour=price.hourly_usd(NODES) + fees_usd,
        unattended_minutes=given.unattended_minutes,
        watch_minutes=given.watch_minutes,
        facts={
            "account": account.project or account.subscription or account.profile,
            "region": price.region,
            "started_at": utc_now(),
            "cloudgan_version": __version__,
            "unpriced": unknown,
        },
    )
    test.scenarios = scenarios(test)
    return test


def _cluster_fees(provider: str, region: str) -> tuple[float, tuple[str, ...]]:
    """USD per hour of a cluster besides its nodes, and its parts without a known price."""
    fees = load_fees()
    parts = {"control plane of the cluster": fees.find("control_plane", provider, region)}
    if has_system_node(provider):
        parts["system node of the cluster"] = fees.find("system_node", provider, region)
    unknown = tuple(name for name, fee in parts.items() if fee is None)
    return sum(fee.usd for fee in parts.values() if fee), unknown


def _show(test: LiveTest) -> None:
    for number, one in enumerate(test.scenarios, start=1):
        limit = f"{one.max_minutes:g} min, {test.most_usd(one):.2f} USD"
        seen = f"{one.outcome}: {one.observed}" if one.observed else f"expects: {one.expects}"
        print(f"{number:2} {one.name} (at most {limit})\n   proves: {one.proves}\n   {seen}")
    unpriced = test.facts["unpriced"]
    least = "at least " if unpriced else ""
    unknown = f" (unknown: {', '.join(unpriced)})" if unpriced else ""
    print(
        f"two nodes with {test.accelerator} on {test.provider} in {test.facts['region']} and a cluster:"
        f" {least}{test.usd_per_hour:.2f} USD per hour{unknown}\nmaximum cost, if each scenario"
        f" takes its maximum time: {least}{test.most_usd():.2f} USD"
    )


class CommandRunner:
    """Runs commands in this process, by a `program` that raises SystemExit, and causes failures in the cluster."""

    def __init__(self, target: Target, program: Program) -> None:
        self._target, self._program = target, program
        self._cloud: CloudClient | None = None

    def run(self, *words: str) -> CommandResult:
        """Runs a command with --json and returns exit code and result."""
        printed = io.StringIO()
        code: object = 0
        with contextlib.redirect_stdout(printed):
            try:
                self._program([*words, "--json"])
            except SystemExit as ended:
                code = ended.code
        text = printed.getvalue()
        return CommandResult(
            int(str(code or 0)), parse_json(text, " ".join(words)) if text.strip() else {}
        )

    def evict(self, run: str, index: int, grace_seconds: int | None) -> None:
        """Evicts a worker's pod by the eviction API, as a node drain does."""
        plan = self._plan(run)
        api = self._account().cluster_api(plan.target)
        pods = f"/api/v1/namespaces/{plan.target.namespace or NAMESPACE}/pods"
        found = api.list(pods, f"{RUN}={run}")["items"] if api else []
        names = [
            one["metadata"]["name"]
            for one in found
            if one["metadata"]["name"].startswith(f"{run}-{index}-")
            and (one.get("status") or {}).get("phase") == "Running"
        ]
        if api is None or not names:
            raise LiveTestError(f"worker {index} of {run} has no running pod")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": names[0]},
            "deleteOptions": {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds},
        }
        api.create(f"{pods}/{names[0]}/eviction", body)

    def machines(self, run: str) -> int:
        """Returns the number of a run's nodes in its cluster; 0 if the cluster is deleted."""
        api = self._account().cluster_api(self._plan(run).target)
        return len(list_nodes(api, run)) if api else 0

    def list_resources(self, run: str) -> tuple[str, ...]:
        """Returns kind and name of a run's resources in the cloud, and what did not answer."""
        found = self._account().list_resources(run)
        unknown = (f"unknown: {one} did not answer" for one in found.silent)
        return (*(f"{one.kind} {one.name}" for one in found), *unknown)

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def _account(self) -> CloudClient:
        if self._cloud is None:
            self._cloud = open_cloud(self._target)
        return self._cloud

    @staticmethod
    def _plan(run: str) -> Plan:
        return read_plan(RUNS / run / plans.FILE_NAME, run)


if __name__ == "__main__":
    sys.exit(run())
