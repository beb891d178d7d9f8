"""Prices that gpuhunt (MPL-2.0, https://github.com/dstackai/gpuhunt) collects: a second source."""

from __future__ import annotations

import importlib
import math
import re
from typing import TYPE_CHECKING, Any

from cloudgan.core import settings
from cloudgan.core.errors import CloudganError, ConfigError
from cloudgan.cost.verify import Second

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cloudgan.core.price_row import Market

_HOW = "prices verify needs gpuhunt: `pip install 'cloudgan[verify]'`"


def gpuhunt_prices(providers: Iterable[str]) -> tuple[Second, ...]:
    """Returns all that gpuhunt knows of some clouds; it downloads its catalogues for that.

    Raises:
        ConfigError: gpuhunt is not installed; says what to type.
        CloudganError: Its catalogues cannot be had.
    """
    try:
        gpuhunt: Any = importlib.import_module("gpuhunt")
    except ModuleNotFoundError as error:
        raise ConfigError(_HOW) from error
    try:
        catalog = gpuhunt.Catalog(auto_reload=False)
        if not settings.variable("GPUHUNT_CATALOG_DIR"):
            catalog.load()
        items = catalog.query(provider=list(providers))
    except Exception as error:
        raise CloudganError(f"gpuhunt has no prices ({error}); is there a network?") from error
    if not items:
        raise CloudganError("gpuhunt has no prices; is there a network?")
    return tuple(_seconds(items))


def _seconds(items: Iterable[Any]) -> Iterator[Second]:
    for item in items:
        if not math.isfinite(item.price) or item.price <= 0:
            continue
        market: Market = "spot" if item.spot else "on_demand"
        yield Second(item.provider, _node_type(item), _region(item), market, item.price)


def _node_type(item: Any) -> str:
    """Google attaches GPUs to N1 nodes; our names tell which."""
    if item.provider == "gcp" and item.instance_name.startswith("n1-"):
        return f"{item.instance_name}+{item.gpu_count}x{item.gpu_name}"
    return str(item.instance_name)


def _region(item: Any) -> str:
    return re.sub(r"-[a-z]$", "", item.location) if item.provider == "gcp" else str(item.location)
