"""`cloudgan cost`: what a run cost, and would cost elsewhere."""

from __future__ import annotations

from cloudgan.cli.output import show_json
from cloudgan.cli.pricing import price
from cloudgan.run_folder import RunFolder


def cost(run: str, *, offer: str | None = None, json: bool = False) -> None:
    """Prices a run in parts, and on a few real offers of three clouds; writes cost.json.

    What a laptop costs per hour nobody knows, so the run's own cost is unknown until you name an
    offer to price it as.

    Args:
        run: Folder of the run.
        offer: Price it as this node: cloud/node/region/market, such as
            gcp/n1-standard-8+1xT4/us-central1/spot.
        json: Print the result as JSON.
    """
    prices = price(RunFolder(run), offer=offer)
    if json:
        show_json(prices.as_json())
        return
    for part in prices.report.parts:
        seconds = "" if part.seconds is None else f"{part.seconds:10.1f} s"
        found = f"{part.usd:.4g} USD" if part.usd is not None else f"unknown: {part.why_unknown}"
        print(f"  {part.name:<40}{seconds:>12}  {found}")
    print("\n".join(prices.lines()))
