"""What the cost model says of a job before it runs, with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloudgan.core.plan import Forecast
from cloudgan.cost.estimate import usd

if TYPE_CHECKING:
    from cloudgan.core.plan import Workers
    from cloudgan.core.price_row import PriceRow
    from cloudgan.cost.elsewhere import Speeds


def forecast(
    epochs: int,
    workers: Workers,
    speeds: Speeds,
    price: PriceRow | None,
    *,
    whole: bool = True,
) -> Forecast:
    """Returns time and cost of `epochs`; unknown stays unknown, with the reason.

    Args:
        epochs: Of the job.
        workers: Nodes, and accelerators in each.
        speeds: Of the network, from measured runs.
        price: Of one node; None: nobody said.
        whole: Whether nothing ends the training before its last epoch.
    """
    name = price.accelerator if price else workers.accelerator
    count = workers.accelerators_per_node * workers.nodes
    if not name or not count:
        return Forecast(epochs=epochs, why_unknown="no run on such processors was measured")
    epoch = speeds.epoch(name, count)
    if epoch is None:
        return Forecast(epochs=epochs, why_unknown=speeds.why_unknown(name))
    known = Forecast(
        epochs=epochs,
        epoch_seconds=epoch.seconds,
        low_epoch_seconds=epoch.low_seconds,
        high_epoch_seconds=epoch.high_seconds,
        grade=epoch.grade,
        basis=epoch.basis,
        why_unknown="--max_steps, --max_seconds or --until ends it, not its epochs",
    )
    if not whole:
        return known
    low, high = epoch.job_seconds(epochs)
    total = {
        "low_seconds": low,
        "high_seconds": high,
        "low_usd": usd(low, price, workers.nodes) if price else None,
        "high_usd": usd(high, price, workers.nodes) if price else None,
        "why_unknown": "" if price else "what these nodes cost: name it with --as=OFFER",
    }
    return known.model_copy(update=total)
