"""The command `plan`: what `deploy` would do."""

from __future__ import annotations

from cloudgan.api.job_file import check_new, save_job, with_job_file
from cloudgan.api.plan_result import PlanResult
from cloudgan.api.sweep import SweepPlan, make_sweep, plan_sweep
from cloudgan.core.command import command
from cloudgan.core.progress import Progress, Silent
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds
from cloudgan.launch.operations.launch_options import PlanOptions
from cloudgan.launch.operations.staging import known_wheels
from cloudgan.launch.operations.written_plan import write_plan
from cloudgan.launch.plan.launch_plan import make_launch_plan


@command
def plan(
    options: PlanOptions, *, progress: Progress | None = None, clouds: Clouds = BUILT_IN_CLOUDS
) -> PlanResult | SweepPlan:
    """Returns the plan of a run: every request in order, the forecast and the cost; sends no request.

    Args:
        options: What is launched, and where.
        progress: Receives what is written.
        clouds: The available clouds.

    Raises:
        ConfigError: A value is not valid.
        PlanError: No offer matches the request.
        BudgetError: The budget is too small.
    """
    options, progress = with_job_file(options), progress or Silent()
    if options.save:
        check_new(options.save)
    found: PlanResult | SweepPlan
    if options.seeds is not None:
        found = plan_sweep(make_sweep(options.seeds, options), clouds=clouds)
    else:
        made = make_launch_plan(options, known_wheels, clouds=clouds)
        found = PlanResult(plan=made)
        if options.output:
            write_plan(made, options.output)
            progress.say(f"written to {options.output}")
    if options.save:
        save_job(options, options.save)
        progress.say(f"written to {options.save}")
    return found
