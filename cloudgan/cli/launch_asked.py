"""What a plan is made from, on any place: the data where the workers find them, limits, wheels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloudgan.cli.launch_config import spent_before, store_port
from cloudgan.cli.launch_showers import look_at, path_for_workers
from cloudgan.cli.memory_notes import memory_notes
from cloudgan.cli.place import RUNS
from cloudgan.core import settings
from cloudgan.core.errors import ConfigError
from cloudgan.core.held_back import check_can_validate
from cloudgan.planning.planning import Asked
from cloudgan.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloudgan.cli.launch_flags import LaunchFlags
    from cloudgan.cli.rent_flags import RentFlags
    from cloudgan.core.config import RunConfig
    from cloudgan.core.plan import Place, Wheel, Workers


def asked_of(
    flags: LaunchFlags,
    rent: RentFlags,
    *,
    config: RunConfig,
    place: Place,
    workers: Workers,
    store: str,
    wheels: Callable[[str | None], tuple[Wheel, ...]],
    **more: Any,
) -> Asked:
    """Returns what a plan is made from.

    Args:
        flags: What was asked.
        rent: Likewise, of what is rented.
        config: What is trained, with the data's own name.
        place: Where.
        workers: On what.
        store: Of the run.
        wheels: Finds what pods with such accelerators, without cloudgan in their image, must install.
        more: Other attributes of `Asked`, which go before those of the flags.

    Raises:
        ConfigError: The data cannot be where the workers are, or too few are held back.
        DataError: They are not what they should be.
    """
    folder = RunFolder(RUNS / config.name)
    moves = place.provider != "local"
    if moves and config.training.begin_with:
        raise ConfigError(
            f"training.begin_with: {config.training.begin_with} is a folder of this machine, which"
            " workers elsewhere do not see; fine-tune with `cloudgan train`"
        )
    showers = look_at(config.data.path, store, moves=moves)
    if showers.records is not None:
        check_can_validate(config, showers.records)
    data = config.data.model_copy(update={"path": path_for_workers(showers, folder, moves=moves)})
    given: dict[str, Any] = {
        "config": config.model_copy(update={"data": data}),
        "place": place,
        "workers": workers.model_copy(update={"pull_secret": rent.pull_secret}),
        "store": store,
        "store_port": store_port(store),
        "showers": showers,
        "owner": settings.user_name(),
        "max_hours": flags.max_hours,
        "gang_timeout_seconds": flags.gang_timeout_seconds,
        "budget_usd": flags.budget_usd,
        "spent_usd": spent_before(folder),
        "max_usd_per_hour": rent.max_usd_per_hour,
        "notes": memory_notes(config, workers),
        "wheels": wheels(workers.accelerator) if workers.image and not flags.image else (),
    }
    return Asked(**given | more)
