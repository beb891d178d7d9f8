"""`cloudgan plan`: shows what `deploy` would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from cloudgan.api.job_file import with_job_file
from cloudgan.api.launch_options import PlanOptions
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import known_wheels
from cloudgan.api.sweep import make_sweep, parse_seeds, plan_sweep
from cloudgan.cli.views.plan_view import print_plan, print_sweep
from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds
from cloudgan.launch.kubernetes.manifests import (
    COMPONENT,
    PLAN_PLACEHOLDER,
    PORT_PROBE,
    filled_secret,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.schema.plan import Plan


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
        _write_manifests(made, folder)
    print_plan(made, as_json=json)
    if folder and not json:
        print(f"written to {folder}")


def _write_manifests(made: Plan, folder: Path) -> None:
    if made.target.provider != "kubernetes":
        raise ConfigError(
            f"--output writes Kubernetes manifests: give --provider=kubernetes, not"
            f" {made.target.provider}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(made.steps):
        body: Any = step.body
        if not body or body["metadata"]["labels"].get(COMPONENT) == PORT_PROBE:
            continue  # `deploy` alone reads the result of the port probe, and deletes it
        data = body.get("data")
        if isinstance(data, dict) and data.get("plan.json") == PLAN_PLACEHOLDER:
            body = body | {"data": data | {"plan.json": made.model_dump_json()}}
        mode = 0o666
        if body["kind"] == "Secret":  # `kubectl delete -f FOLDER` deletes it
            body, mode = filled_secret(body, None), 0o600
        name = f"{number}-{str(body['kind']).lower()}.yaml"
        with atomic_writer(folder / name, mode=mode) as file:
            file.write(yaml.safe_dump(body, sort_keys=False).encode())
