"""The paid live test: its price and scenarios, and the commands that it runs on a cloud."""

from __future__ import annotations

import contextlib
import io
import time
from typing import TYPE_CHECKING

from cloudgan import __version__
from cloudgan.api.launch_request import LaunchRequest, ProvisioningRequest
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.targets import NAMESPACE, RUNS, account_target
from cloudgan.core.clock import utc_moment, utc_now
from cloudgan.core.clouds import has_system_node
from cloudgan.core.documents import parse_json, write_json
from cloudgan.core.errors import BudgetError, ConfigError
from cloudgan.core.labels import RUN
from cloudgan.cost.prices.fees import load_fees
from cloudgan.launch.clouds.planner import open_cloud
from cloudgan.launch.ops.live_test import (
    FILE_NAME,
    NODES,
    CommandResult,
    LiveTest,
    LiveTestContext,
    LiveTestError,
    LiveTestOptions,
    LiveTestReport,
)
from cloudgan.launch.ops.live_test_scenarios import scenarios
from cloudgan.launch.provisioning.nodes import list_nodes
from cloudgan.schema import plan as plans
from cloudgan.schema.run_document import read_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cloudgan.api.targets import RunLocator
    from cloudgan.launch.clouds.client import CloudClient
    from cloudgan.schema.plan import Plan, Target

    Program = Callable[[list[str]], None]


class PreparedLiveTest:
    """A live test with its price, before it has run.

    Args:
        account: Account and region.
        accelerator: Accelerator of each of the two nodes.
        unattended_minutes: Training time of the run without a client.
        watch_minutes: Time during which its nodes must stay deleted.

    Raises:
        ConfigError: The accelerator is a TPU, or has no price.

    Attributes:
        report: The report, with all scenarios not run.
    """

    def __init__(
        self,
        account: RunLocator,
        accelerator: str,
        *,
        unattended_minutes: float,
        watch_minutes: float,
    ) -> None:
        if accelerator.casefold().startswith("tpu"):
            raise ConfigError(
                f"--accelerator={accelerator}: the live test needs GPUs, such as T4:1"
            )
        self._account = account
        provider = str(account.provider)
        name = f"live-test-{utc_moment():%m%d-%H%M%S}"
        request = LaunchRequest(provider=provider, name=name, nodes=NODES, accelerator=accelerator)
        provisioning = ProvisioningRequest(
            account=account.project or account.subscription,
            profile=account.profile,
            regions=(account.region,) if account.region else (),
            market="on_demand",
        )
        training = (
            {"training.epochs": 1, "training.max_steps": 1},
            None,
        )  # the plan prices an hour
        plan = make_launch_plan(request, provisioning, training, lambda *_: ())
        if plan.price is None:
            raise ConfigError(
                f"the price of {accelerator} on {provider} is unknown; give another --accelerator"
            )
        fees_usd, unknown = _cluster_fees(provider, plan.price.region)
        given = account._replace(region=plan.price.region)._asdict()
        self._settings = LiveTestOptions(
            name=name,
            provider=provider,
            account_flags=tuple(f"--{key}={value}" for key, value in given.items() if value),
            accelerator=accelerator,
            folder=RUNS / name,
            usd_per_hour=plan.price.hourly_usd(NODES) + fees_usd,
            unattended_minutes=unattended_minutes,
            watch_minutes=watch_minutes,
        )
        self._scenarios = scenarios(self._settings)
        self.report = LiveTestReport(
            name=name,
            provider=provider,
            account=account.project or account.subscription or account.profile,
            region=plan.price.region,
            accelerator=accelerator,
            started_at=utc_now(),
            cloudgan_version=__version__,
            usd_per_hour=self._settings.usd_per_hour,
            unpriced=unknown,
            scenarios=tuple(step.report(self._settings.usd_per_hour) for step in self._scenarios),
        )

    @property
    def report_file(self) -> Path:
        """Path of the report."""
        return self._settings.folder / FILE_NAME

    def check_budget(self, budget_usd: float) -> None:
        """Returns if the test cannot exceed the budget.

        Raises:
            BudgetError: It can.
        """
        if self.report.max_usd > budget_usd:
            raise BudgetError(
                f"the live test can cost {self.report.max_usd:.2f} USD, more than"
                f" --budget-usd={budget_usd:g}; give a smaller --accelerator, or fewer"
                " --unattended-minutes and --watch-minutes"
            )

    def run(self, program: Program, say: Callable[[str], None]) -> LiveTestReport:
        """Runs all scenarios, deletes everything, and writes and returns the report.

        Args:
            program: Runs a command line and raises SystemExit, as `cloudgan` does.
            say: Receives each event.
        """
        self._settings.folder.mkdir(parents=True, exist_ok=True)
        runner = InProcessCommandRunner(account_target(self._account), program)
        return LiveTest(
            LiveTestContext(self._settings, runner),
            self._scenarios,
            self.report,
            say=say,
            save=lambda newest: write_json(self.report_file, newest),
        ).run()


def _cluster_fees(provider: str, region: str) -> tuple[float, tuple[str, ...]]:
    """USD per hour of a cluster besides its nodes, and its parts without a known price."""
    fees = load_fees()
    parts = {"control plane of the cluster": fees.find("control_plane", provider, region)}
    if has_system_node(provider):
        parts["system node of the cluster"] = fees.find("system_node", provider, region)
    unknown = tuple(name for name, fee in parts.items() if fee is None)
    return sum(fee.usd for fee in parts.values() if fee), unknown


class InProcessCommandRunner:
    """A `CommandRunner` that runs commands in this process and causes failures in the cluster.

    Args:
        target: Target of the account.
        program: Runs a command line and raises SystemExit, as `cloudgan` does.
    """

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
        """Evicts a worker's pod by the eviction API, as a node drain does.

        Raises:
            LiveTestError: The worker has no running pod.
        """
        plan = self._plan(run)
        api = self._account().cluster_api(plan)
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
        api = self._account().cluster_api(self._plan(run))
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
