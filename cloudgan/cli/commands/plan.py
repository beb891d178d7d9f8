"""`cloudgan plan`: shows what `deploy` would do."""

from __future__ import annotations

from cloudgan.api.job_file import with_job_file
from cloudgan.api.launch_options import PlanOptions
from cloudgan.api.plan_result import PlanResult
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import known_wheels
from cloudgan.api.sweep import make_sweep, parse_seeds, plan_sweep
from cloudgan.api.written_plan import write_plan
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds
from cloudgan.reports.result import Result


@command
def plan(options: PlanOptions, *, progress: Progress, clouds: Clouds = BUILT_IN_CLOUDS) -> Result:
    """Returns the plan; sends no request."""
    options = with_job_file(options)
    training = options.training
    if options.seeds is not None:
        if options.output:
            raise ConfigError("--output writes the manifests of one run: give --seed, not --seeds")
        sweep = make_sweep(parse_seeds(options.seeds, training), options, options, training)
        return plan_sweep(sweep, clouds=clouds)
    folder = local_path(options.output, source="--output") if options.output else None
    made = make_launch_plan(options, options, training, known_wheels, clouds=clouds)
    if folder:
        write_plan(made, folder)
        progress.say(f"written to {folder}")
    return PlanResult(plan=made)
