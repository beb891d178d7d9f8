"""The command `deploy`: plans, asks, starts a run and follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from pydantic import Field

from cloudgan.api.plan import SweepPlan
from cloudgan.api.search import CrossValidation, coordinate, coordinate_folds
from cloudgan.api.sweep import Sweep, SweepResult
from cloudgan.core.command import command
from cloudgan.core.durations import duration_text
from cloudgan.core.errors import ConfigError, ConfirmationError, DataError
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.operations.deployment import deploy_run
from cloudgan.launch.operations.launch_options import (
    DeployOptions,
    with_job_file,
)
from cloudgan.launch.operations.launched_run import where_of
from cloudgan.launch.operations.plan_result import PlanResult
from cloudgan.launch.operations.staging import known_wheels
from cloudgan.launch.operations.targets import run_folder
from cloudgan.launch.plan.launch_plan import make_launch_plan
from cloudgan.launch.plan.request import job_options
from cloudgan.launch.plan.showers import NO_SHOWERS, simulated_data
from cloudgan.money.billing import launch_cost
from cloudgan.money.price_file import named_row
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import usd_text
from cloudgan.schema.cost_report import least
from cloudgan.schema.options.training import CrossvalidateOptions, SearchOptions
from cloudgan.schema.plan import Plan
from cloudgan.search.result import Search


class DeployResult(Result):
    """A run that was started, or that ended well; None is unknown, or does not apply to its task."""

    plan: Plan = Field(exclude=True, description="of the last attempt")
    run: str
    state: Literal["started", "finished"]
    where: str
    folder: str = Field(description="on this machine")
    seconds: float | None = Field(None, description="while its nodes ran, all attempts")
    usd: float | None = Field(None, description="of all attempts")
    usd_unknown: tuple[str, ...] = Field((), description="what usd lacks")
    record: str | None = Field(None, description="of a training")
    checkpoints: str | None = Field(None, description="of a training")
    report: str | None = Field(None, description="page of a grid")
    showers: int | None = Field(None, description="of a simulation")
    data: str | None = Field(None, description="where the simulated showers are")
    search: str | None = Field(None, description="whose trials it trained")

    def view(self) -> View:
        """Returns where the run is and what it cost, and the commands that go on."""
        time = f" in {duration_text(self.seconds)}" if self.seconds else ""
        usd = f", {least(self.usd_unknown)}{usd_text(self.usd)} USD" if self.usd is not None else ""
        notes = [f"page {self.report}"] if self.report else []
        notes += [f"{self.showers:,} showers in {self.data}"] if self.showers else []
        return View(
            f"{self.run} {self.state} on {self.where}{time}{usd}",
            notes=tuple(notes),
            commands=tuple(self._commands()),
            done=True,
        )

    def _commands(self) -> Iterator[tuple[str, str]]:
        if self.state == "started":
            yield f"cloudgan status {self.run}", "state, progress and cost"
            yield f"cloudgan logs {self.run} --follow", "what its workers print"
            return
        if self.data:
            yield f"cloudgan train {self.data}", "trains with them"
        elif self.report:
            file = f"generated{'.npz' if self.plan.showers.source == NO_SHOWERS else '.h5'}"
            yield f"cloudgan generate {self.run} {file} --cell=mixture", "writes samples"
        elif self.record:
            yield f"cloudgan generate {self.run} generated.h5", "writes showers"
        yield f"cloudgan cost {self.run}", "shows what the cost is made of"
        yield f"cloudgan down {self.run}", "deletes its resources"


@command
def deploy(
    options: DeployOptions,
    *,
    confirm: Callable[[str], None] | None = None,
    show: Callable[[Result], None] = lambda _: None,
    progress: Progress | None = None,
) -> DeployResult | SweepResult | PlanResult | SweepPlan | Search | CrossValidation:
    """Plans a run, starts it, follows it to its end and fetches its results.

    Args:
        options: What is launched, and where.
        confirm: Called with a question before anything is created; raises ConfirmationError to stop. Default:
            nothing is asked, and an outdated price stops it.
        show: Called with the final plan before that question.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: A value is not valid; nothing was started.
        ConfirmationError: The answer was no, or the price is outdated; nothing was started.
        PlanError: No offer matches the request, or quota is missing.
        CapacityError: There is no capacity; created nodes were deleted.
        BudgetError: The budget is too small.
        LaunchError: A cloud refused a request midway; names the `down` command.
    """
    options, progress = with_job_file(options), progress or Silent()

    def approve(found: PlanResult | SweepPlan) -> None:
        show(found)
        if found.plan.target.provider == "local":
            return
        is_asked = confirm is not None and not options.yes
        if found.price_warning and not (is_asked or options.allow_stale_price):
            raise ConfirmationError(
                f"{found.price_warning}. With such a price --yes needs --allow-stale-price;"
                " `cloudgan prices refresh` fetches a current one. Nothing was started"
            )
        if confirm:
            confirm(found.question())

    if options.seeds is not None:
        sweep = Sweep(options.seeds, options, progress=progress, approve=approve)
        return sweep.plan() if options.dry_run else sweep.run()
    if options.dry_run:
        made = make_launch_plan(options, known_wheels)
        return PlanResult(plan=made)
    launch = partial(
        deploy_run,
        options,
        lambda plan, warning: approve(PlanResult(plan=plan, price_warning=warning)),
        progress=progress,
    )
    if options.command[:1] in {("search",), ("crossvalidate",)}:
        make_launch_plan(options, known_wheels)  # refuses early
        return _coordinated(options, launch, progress)
    plan, _ = launch(detach=options.detach)
    return _result(plan, options)


def _coordinated(
    options: DeployOptions, launch: Callable[..., object], progress: Progress
) -> Search | CrossValidation:
    """Publishes a search whose blocks are the nodes of the launch; follows both to their end."""
    if options.detach:
        raise ConfigError(
            "--detach: this machine follows the search until it ends, and fetches its trials; omit it. Ctrl-C leaves"
            " the nodes searching, and the same command follows them again"
        )
    job, store = job_options(options.command), options.store or ""
    start = partial(launch, detach=True)
    found: Search | CrossValidation
    if isinstance(job, SearchOptions):
        found = coordinate(job, store, start, progress)
    elif isinstance(job, CrossvalidateOptions):
        found = coordinate_folds(job, store, start, progress)
    else:
        raise TypeError(options.command)
    launch()
    return found


def _result(plan: Plan, options: DeployOptions) -> DeployResult:
    folder, config = run_folder(plan), plan.config
    found = DeployResult(
        plan=plan,
        run=plan.run,
        state="started" if options.detach else "finished",
        where=where_of(plan),
        folder=str(folder.path),
    )
    if options.detach:
        return found
    facts: dict[str, Any] = {}
    with suppress(DataError):  # another machine followed it
        spent = launch_cost(folder, named_row(options.price_as, options.price_file))
        facts = {"seconds": spent.seconds, "usd": spent.usd, "usd_unknown": spent.unknown}
    made: dict[str, dict[str, Any]] = {
        "simulate": {"showers": config.simulation.showers, "data": simulated_data(plan)},
        "join": {"search": config.join},
        "evolve": {"report": str(folder.path / "evolution.html")},
        "train": {"record": str(folder.record_file), "checkpoints": str(folder.checkpoints)},
    }
    facts |= made[config.job]
    return found.model_copy(update=facts)
