"""Options of the commands on launches: plan, deploy, check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import model_validator

from cloudgan.core.clouds import CLOUDS
from cloudgan.core.errors import ConfigError
from cloudgan.core.flags import FILE, flag
from cloudgan.core.ranges import MAX_PROCESSES
from cloudgan.launch.plan.flags import NodeFlags
from cloudgan.launch.plan.request import LaunchRequest
from cloudgan.schema.options.shared import PRICE_AS, YES


class PlanOptions(LaunchRequest):
    """Shows what `deploy` would create, how long the run takes and what it costs.

    Runs offline, needs no login, and spends nothing.

    Examples:
        cloudgan plan --provider=gcp --accelerator=l4 --nodes=2 -- train showers.h5
        cloudgan plan --provider=cheapest --accelerator=l4 -- train showers.h5
        cloudgan plan job.yaml --budget-usd=20
    """

    output: Annotated[Path | None, FILE] = flag(
        None,
        "write manifests or scripts there; for `kubectl apply -f FOLDER`, or for Slurm",
        "Output",
        placeholder="FOLDER",
    )
    save: Annotated[Path | None, FILE] = flag(
        None, "write a job.yaml that plans the same, such as job.yaml", "Output", screen=True
    )

    @model_validator(mode="after")
    def _of_one_run(self) -> Self:
        if self.output and self.seeds is not None:
            raise ConfigError("--output writes the manifests of one run: give --seed, not --seeds")
        return self


class DeployOptions(LaunchRequest):
    """Starts a job on a cloud, a cluster or this machine, follows it, fetches results.

    Plan and price are shown, and confirmation is asked for, before anything is created. Rerun the command to follow the
    run, to resume it, or to print the result of a finished run. Ctrl-C leaves the run running: `cloudgan status`,
    `logs`, `cancel` and `down` work from any machine.

    Without capacity, --fallback selects other offers; with --market=auto, on-demand nodes replace spot nodes. Each try is
    an attempt in launch.json.

    Examples:
        cloudgan deploy --provider=gcp --accelerator=l4 --nodes=2 -- train showers.h5
        cloudgan deploy --provider=slurm --store=/data --nodes=4 -- evolve showers.h5
        cloudgan deploy job.yaml --budget-usd=20
    """

    dry_run: bool = flag(False, "show the plan and stop; as `cloudgan plan`", "Run", screen=True)
    detach: bool = flag(
        False, "do not follow the run; return once it is started", "Run", screen=True
    )
    yes: bool = YES
    allow_stale_price: bool = flag(
        False,
        "accept an old price; with --yes, one that is undated or older than 90 days and that the cloud does not refresh",
        "Price",
    )

    @model_validator(mode="after")
    def _is_followed(self) -> Self:
        if self.detach and self.seeds is not None:
            raise ConfigError(
                "--detach and --seeds: this machine starts each run when the one before has ended; omit"
                " --detach, or deploy each --seed on its own"
            )
        return self


class CheckOptions(NodeFlags):
    """Is my login ready? Checks login, APIs, permissions and quota of each cloud.

    Creates nothing and spends nothing. With --accelerator it checks quota in the cheapest region and
    market, or those of --region and --market. Exits with 2 if something is missing: in the cloud of
    --provider, else in every cloud.

    Examples:
        cloudgan check
        cloudgan check --provider=gcp --accelerator=l4 --nodes=2
    """

    provider: str | None = flag(
        None,
        "{names}",
        "Where",
        screen=True,
        words="all",
        names=lambda: dict.fromkeys(CLOUDS, ""),
        placeholder="NAME",
    )
    accelerator: str | None = flag(
        None,
        "also the quota of it; NAME or NAME:COUNT per node, such as v100:8",
        "Where",
        screen=True,
        placeholder="A[:N]",
    )
    nodes: int = flag(1, "for so many nodes", "Where", screen=True, ge=1, le=MAX_PROCESSES)
    price_as: str | None = PRICE_AS
    reservation: str | None = flag(
        None,
        "reservation to check; as its cloud names it, see docs/clouds.md",
        "Where",
        screen=True,
    )

    @model_validator(mode="after")
    def _in_one_cloud(self) -> Self:
        if self.provider is None and (self.regions or self.zone):
            raise ConfigError(
                f"--region and --zone are in one cloud: add --provider={', '.join(CLOUDS)}"
            )
        if self.reservation and (self.provider is None or self.accelerator is None):
            raise ConfigError(
                "--reservation is of one node type in one cloud: give --provider and --accelerator"
            )
        return self
