"""`cloudgan plan`: shows what `deploy` would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from cloudgan.api.grid_options import grid_keys
from cloudgan.api.launch_request import NOTHING_PROVISIONED, LaunchRequest
from cloudgan.api.plan_result import PlanResult
from cloudgan.api.planning import make_launch_plan
from cloudgan.api.pod_software import known_wheels
from cloudgan.api.sweep import make_sweep, parse_seeds, plan_sweep
from cloudgan.cli.options.grid_flags import grid_flags
from cloudgan.cli.options.launch_flags import launch_flags, provisioning_flags
from cloudgan.cli.options.shared_flags import with_flags
from cloudgan.cli.options.simulation_flags import simulation_flags
from cloudgan.cli.options.training_flags import training_flags
from cloudgan.cli.views.output import print_view
from cloudgan.core.atomic_file import atomic_writer
from cloudgan.core.errors import ConfigError
from cloudgan.core.local_path import local_path
from cloudgan.launch.clouds.planner import BUILT_IN_CLOUDS, Clouds, built_in_clouds
from cloudgan.launch.kubernetes.manifests import (
    COMPONENT,
    PLAN_PLACEHOLDER,
    PORT_PROBE,
    filled_secret,
)

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.api.launch_request import ProvisioningRequest
    from cloudgan.schema.plan import Plan


@with_flags(
    training=training_flags,
    simulation=simulation_flags,
    grid=grid_flags,
    launch=launch_flags,
    provisioning=provisioning_flags,
    clouds=built_in_clouds,
)
def plan(
    *,
    seeds: str | None = None,
    output: str | None = None,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
    simulation: dict[str, Any] = {},  # noqa: B006  not changed
    grid: dict[str, Any] = {},  # noqa: B006  not changed
    launch: LaunchRequest = LaunchRequest(),  # noqa: B008  frozen
    provisioning: ProvisioningRequest = NOTHING_PROVISIONED,
    clouds: Clouds = BUILT_IN_CLOUDS,
) -> None:
    """Shows what `deploy` would create, how long the run takes and what it costs.

    Runs offline, needs no login, and spends nothing.

    Args:
        seeds: One run per seed instead, such as 1,2,3; see `cloudgan deploy`.
        output: Folder for the manifests, for `kubectl apply -f FOLDER`.
        json: Print the plan as JSON.
        training: What is trained; from the shared flags.
        simulation: What is simulated; from the shared flags.
        grid: Which cells evolve instead; from the shared flags.
        launch: Where it is launched; from the shared flags.
        provisioning: Which nodes are created; from the shared flags.
        clouds: The available clouds.
    """
    training = training[0] | simulation | grid_keys(grid), training[1]
    if seeds is not None:
        if output:
            raise ConfigError("--output writes the manifests of one run: give --seed, not --seeds")
        sweep = make_sweep(parse_seeds(seeds, training), launch, provisioning, training)
        print_view(plan_sweep(sweep, clouds=clouds), as_json=json)
        return
    folder = local_path(output, source="--output") if output else None
    made = make_launch_plan(launch, provisioning, training, known_wheels, clouds=clouds)
    if folder:
        _write_manifests(made, folder)
    print_view(PlanResult(plan=made), as_json=json)
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
