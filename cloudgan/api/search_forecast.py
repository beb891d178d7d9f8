"""Forecasts time and price of a search from the time of one trial: `cloudgan search --describe`."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloudgan.api.search import continued_search, machine_price, new_search
from cloudgan.api.search_result import read_search
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.local_path import local_path
from cloudgan.reports.table import Number, Table, number_text
from cloudgan.schema import record
from cloudgan.schema.run_folder import find_run_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class SearchForecast:
    """Time and price of the trials of a search that are not finished.

    A trial on a smaller share of the machine than the measured one takes as long as that (low) if the
    measured one did not use its share, and at most the ratio of the shares times as long (high).

    Attributes:
        trials: Of the whole search.
        finished: Ended trials.
        folds: Runs of a trial.
        blocks: Runs at the same time.
        trial_seconds: Of a measured trial, one fold after another.
        measured: What was measured.
        share_ratio: Share of the machine of the measured trial over that of a block, at least 1.
        usd_per_hour: Of this machine; None: no price is known.
    """

    trials: int
    finished: int
    folds: int
    blocks: int
    trial_seconds: float
    measured: str
    share_ratio: float
    usd_per_hour: float | None

    @property
    def hours(self) -> tuple[float, float]:
        """Low and high time; pruned and failed trials take less."""
        rounds = math.ceil((self.trials - self.finished) * self.folds / self.blocks)
        low = rounds * self.trial_seconds / self.folds / _HOUR_SECONDS
        return low, low * self.share_ratio

    @property
    def usd(self) -> tuple[float, float] | None:
        """Low and high price of the machine for that time; None: unknown."""
        if self.usd_per_hour is None:
            return None
        low, high = self.hours
        return low * self.usd_per_hour, high * self.usd_per_hour

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return vars(self) | {"hours": self.hours, "usd": self.usd}

    def table(self) -> Table:
        """Returns one row."""
        note = f"One trial: {self.measured}. Pruned and failed trials take less."
        if self.usd_per_hour is None:
            note += " --price-as=OFFER gives the price."
        columns = ("trials", "finished", "folds", "blocks", "trial s", "hours", "USD")
        row = (
            self.trials,
            self.finished,
            self.folds,
            self.blocks,
            self.trial_seconds,
            _range(self.hours),
            _range(self.usd) if self.usd else None,
        )
        return Table(columns, (row,), note)


def _range(values: tuple[float, float]) -> Number:
    low, high = map(number_text, values)
    return Number(values[1], low if low == high else f"{low} to {high}")


def forecast_search(
    space: str | Path,
    keys: Mapping[str, Any],
    *,
    config: str | None,
    run: str | None,
    settings: Mapping[str, Any],
    like: str | None,
) -> SearchForecast:
    """Forecasts a search; nothing is started and nothing is written.

    Args:
        space: As of `run_search`: a space, or the folder of a search that is forecast from its own trials.
        keys: As of `run_search`.
        config: As of `run_search`.
        run: As of `run_search`.
        settings: As of `run_search`; the price may also be given for the folder of a search.
        like: Run that trained alone on this machine as a trial will; None: trials of the search.

    Raises:
        ConfigError: An option is not valid, or no time of a trial is known.
        DataError: `like` has no record.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    price = machine_price(chosen.pop("price_as", None), chosen.pop("price_file", None))
    for name in ("max_hours", "budget_usd"):
        if name in chosen:
            flag = f"--{name.replace('_', '-')}={chosen[name]:g}"
            raise ConfigError(
                f"{flag} limits a search, and --describe starts none; omit one of them"
            )
    given = local_path(str(space))
    if given.is_dir():
        asked = continued_search(given, keys, config, run, chosen)
        asked = asked.model_copy(update=price)
    else:
        asked = new_search(given, keys, config=config, run=run, chosen={**chosen, **price})[1]
    from cloudgan.search.blocks import LocalBlocks
    from cloudgan.search.study import number_of_trials

    if asked.store:
        raise ConfigError(
            "--describe forecasts blocks of this machine; the blocks of a search with --store are the nodes of"
            " its deployments"
        )
    LocalBlocks.of_machine(asked.blocks)
    found = read_search(given) if given.is_dir() else None
    ended = [trial for trial in found.trials if trial.state != "running"] if found else []
    if like is not None:
        seconds, measured = _seconds_of_run(like) * asked.folds, like
        ratio = float(asked.blocks)
    else:
        times = [trial.seconds for trial in ended if trial.state == "complete" and trial.seconds]
        if not times:
            raise ConfigError(
                "--describe needs the time of one trial: give --like=RUN, a run on this machine with"
                " the same settings, or the folder of a search with finished trials"
            )
        seconds, measured = statistics.fmean(times), f"mean of {len(times)} finished trials"
        ratio = max(1.0, asked.blocks / _blocks_before(given))
    return SearchForecast(
        trials=max(number_of_trials(asked), len(ended)),
        finished=len(ended),
        folds=asked.folds,
        blocks=asked.blocks,
        trial_seconds=seconds,
        measured=measured,
        share_ratio=ratio,
        usd_per_hour=asked.usd_per_hour,
    )


def _blocks_before(folder: Path) -> int:
    return continued_search(folder, {}, None, None, {}).blocks


def _seconds_of_run(like: str) -> float:
    from cloudgan.search.objectives import spent_seconds

    seconds = spent_seconds(record.read(find_run_folder(like).record_file))
    if seconds is None:
        raise DataError(f"--like={like}: its record has no time; name a run that has trained")
    return seconds
