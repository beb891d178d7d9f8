"""`cloudgan plan`: what `deploy` would do, without doing anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cloudgan.cli.launch_flags import launch_flags
from cloudgan.cli.launch_plan import planned
from cloudgan.cli.output import show_json
from cloudgan.cli.pod_wheels import known_wheels
from cloudgan.cli.rent_flags import NOTHING_RENTED, RentFlags, rent_flags
from cloudgan.cli.shared_flags import with_flags
from cloudgan.cli.training_flags import training_flags
from cloudgan.core.errors import ConfigError
from cloudgan.core.whole_file import write_whole
from cloudgan.kubernetes.manifests import PLAN_PLACEHOLDER
from cloudgan.providers.clouds import BUILT_IN, Clouds, built_in

if TYPE_CHECKING:
    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.core.plan import Plan


@with_flags(training=training_flags, launch=launch_flags, rent=rent_flags, clouds=built_in)
def plan(
    *,
    output: str | None = None,
    paper: bool = False,
    json: bool = False,
    training: tuple[dict[str, Any], str | None] = ({}, None),
    launch: LaunchFlags | None = None,
    rent: RentFlags = NOTHING_RENTED,
    clouds: Clouds = BUILT_IN,
) -> None:
    """Shows what `deploy` with the same flags would make, how long it takes and what it costs.

    Speaks to no cluster and no cloud, needs no login, and spends nothing.

    Args:
        output: Folder that gets what `kubectl apply -f FOLDER` takes.
        paper: Show instead how the paper's own experiments could be run today, and for how much.
        json: Print the plan as JSON.
        training: What is trained, from the flags that commands share.
        launch: Where, likewise.
        rent: What is rented for it, likewise.
        clouds: Those that are known.
    """
    assert launch is not None  # noqa: S101  the decorator gives it
    if paper:
        from cloudgan.cli.paper_plans import show_paper_plans

        show_paper_plans(clouds, as_json=json)
        return
    from cloudgan.cli import plan_view

    made = planned(launch, rent, training, known_wheels, clouds=clouds)
    if output:
        _write(made, Path(output))
    if json:
        show_json(made.model_dump(mode="json"))
        return
    for line in plan_view.lines(made):
        print(line)
    if output:
        print(f"written to {output}")


def _write(made: Plan, folder: Path) -> None:
    if made.place.provider != "kubernetes":
        raise ConfigError("--output writes manifests, which --provider=kubernetes has")
    folder.mkdir(parents=True, exist_ok=True)
    for number, step in enumerate(made.steps):
        body = step.body
        if not isinstance(body, dict):
            continue
        data = body.get("data")
        if isinstance(data, dict) and data.get("plan.json") == PLAN_PLACEHOLDER:
            body = body | {"data": data | {"plan.json": made.model_dump_json()}}
        name = f"{number}-{str(body['kind']).lower()}.yaml"
        write_whole(folder / name, yaml.safe_dump(body, sort_keys=False).encode())
