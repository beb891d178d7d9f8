"""A refresh: each cloud for itself, so that one that fails or is locked leaves the others alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from cloudgan.core.errors import CloudganError, CredentialsError, DataError
from cloudgan.cost.catalog import Catalog, merged
from cloudgan.cost.refresh.quote import Refusal, sift
from cloudgan.cost.refreshed import read_refreshed, write_refreshed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from cloudgan.core.price_row import Market
    from cloudgan.cost.refresh.quote import Quote


@dataclass(frozen=True)
class Part:
    """One list of a cloud's prices, such as its list prices or its spot prices."""

    name: str
    read: Callable[[], Iterable[Quote]]
    markets: tuple[Market, ...] = ("on_demand", "spot")


@dataclass(frozen=True)
class Outcome:
    """What became of one cloud.

    Attributes:
        provider: Such as ``aws``.
        state: Of ``skipped`` and ``failed`` the old prices are as they were.
        rows: How many prices were written.
        refused: Prices that cannot be, with which and why.
        told: Sentences on what was left out.
    """

    provider: str
    state: Literal["refreshed", "skipped", "failed"]
    rows: int = 0
    refused: tuple[Refusal, ...] = ()
    told: tuple[str, ...] = ()


def refresh(provider: str, parts: Iterable[Part], folder: Path) -> Outcome:
    """Reads the parts of one cloud and swaps its file, if any of its prices can be believed.

    A part without a login is left out; a part that fails fails the cloud. What an older refresh
    knew and this one does not stays, with its own date.
    """
    quotes: list[Quote] = []
    left_out: list[str] = []
    read = 0
    try:
        for part in parts:
            try:
                quotes += part.read()
                read += 1
            except CredentialsError as error:
                left_out.append(f"{part.name}: skipped, {error}")
        if not read:
            return Outcome(provider, "skipped", told=tuple(left_out))
        sifted = sift(quotes)
        if not sifted.rows:
            why = f"none of {len(quotes)} prices can be used; those from before stay"
            return Outcome(provider, "failed", 0, sifted.refused, (*left_out, why))
        kept = merged(_before(provider, folder), Catalog(sifted.rows))
        write_refreshed(folder, provider, kept.rows)
    except CloudganError as error:
        why = f"{error}; the prices from before stay"
        return Outcome(provider, "failed", told=(*left_out, why))
    return Outcome(provider, "refreshed", len(sifted.rows), sifted.refused, tuple(left_out))


def _before(provider: str, folder: Path) -> Catalog:
    try:
        rows = tuple(row for _, row in read_refreshed(folder) if row.provider == provider)
    except DataError:  # a broken file is what a refresh is to mend
        return Catalog(())
    return Catalog(rows)
