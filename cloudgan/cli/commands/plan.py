"""`cloudgan plan`: shows what `deploy` would do."""

from __future__ import annotations

from cloudgan.api.job_file import with_job_file
from cloudgan.api.launch_options import PlanOptions
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import known_wheels
from cloudgan.api.sweep import make_sweep, parse_seeds, plan_sweep
from cloudgan.api.written_plan import write_plan
from cloudgan.cli.views.plan_view import print_plan, print_sweep
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds


@command
def plan(options: PlanOptions, *, as_json: bool = False, clouds: Clouds = BUILT_IN_CLOUDS) -> None:
    """Runs the command."""
    options = with_job_file(options)
    training, output, json = options.training, options.output, as_json
    if options.seeds is not None:
        if output:
            raise ConfigError("--output writes the manifests of one run: give --seed, not --seeds")
        sweep = make_sweep(parse_seeds(options.seeds, training), options, options, training)
        print_sweep(plan_sweep(sweep, clouds=clouds), as_json=json)
        return
    folder = local_path(output, source="--output") if output else None
    made = make_launch_plan(options, options, training, known_wheels, clouds=clouds)
    if folder:
        write_plan(made, folder)
    print_plan(made, as_json=json)
    if folder and not json:
        print(f"written to {folder}")
