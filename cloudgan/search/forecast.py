"""Forecasts time and price of a search from the time of one trial: `cloudgan search --describe`."""

from __future__ import annotations

import math
import statistics

from pydantic import Field

from cloudgan.core.durations import HOUR_SECONDS
from cloudgan.core.errors import ConfigError, DataError, number_text
from cloudgan.core.local_path import local_path
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Number, Table
from cloudgan.schema import record
from cloudgan.schema.run_folder import find_run_folder
from cloudgan.schema.search import SearchConfig
from cloudgan.search.blocks import blocks_of_machine
from cloudgan.search.folder import check_extra
from cloudgan.search.objectives import spent_seconds


class SearchForecast(Result):
    """Time and price of the trials of a search that are not finished.

    A trial on a smaller share of the machine than the measured one takes as long as that (low) if the
    measured one did not use its share, and at most the ratio of the shares times as long (high).
    """

    trials: int = Field(description="of the whole search")
    finished: int = Field(description="ended trials")
    folds: int = Field(description="runs of a trial")
    blocks: int = Field(description="runs at the same time")
    trial_seconds: float = Field(description="of a measured trial, one fold after another")
    measured: str = Field(description="what was measured")
    hours: tuple[float, float] = Field(description="low and high; pruned trials take less")
    usd_per_hour: float | None = Field(description="of this machine")
    usd: tuple[float, float] | None = Field(description="price of the machine for that time")

    def view(self) -> View:
        """Returns one row."""
        notes = [f"one trial: {self.measured}; pruned and failed trials take less"]
        if self.usd_per_hour is None:
            notes.append("--price-as=OFFER gives the price")
        columns = ("trials", "finished", "folds", "blocks", "trial s", "hours", "USD")
        usd = _range(self.usd) if self.usd else None
        row = (self.trials, self.finished, self.folds, self.blocks, self.trial_seconds)
        return View(
            f"{self.trials - self.finished} trials would take {_range(self.hours).text} hours",
            Table(columns, ((*row, _range(self.hours), usd),)),
            notes=tuple(notes),
        )


def _range(values: tuple[float, float]) -> Number:
    low, high = map(number_text, values)
    return Number(values[1], low if low == high else f"{low} to {high}")


def forecast(space: str, asked: SearchConfig, like: str | None) -> SearchForecast:
    """Forecasts a search; nothing is started and nothing is written.

    `space` is a space, or the folder of a search that is forecast from its own trials; `like` a run that
    trained alone on this machine as a trial will, None: trials of the search.
    """
    if asked.store:
        raise ConfigError(
            "--describe forecasts blocks of this machine; the blocks of a search with --store are the nodes of"
            " its deployments"
        )
    blocks_of_machine(asked.blocks)
    check_extra()
    from cloudgan.search.reading import search_result  # noqa: PLC0415  after that check
    from cloudgan.search.study import number_of_trials, read_study  # noqa: PLC0415

    there = read_study(space) if local_path(space).is_dir() else None
    found = search_result(*there).trials if there else ()
    ended = [trial for trial in found if trial.state != "unfinished"]
    if like is not None:
        spent = spent_seconds(record.read(find_run_folder(like).record_file))
        if spent is None:
            raise DataError(f"--like={like}: its record has no time; name a run that has trained")
        seconds, measured = spent * asked.folds, like
        ratio = float(asked.blocks)
    else:
        times = [trial.seconds for trial in ended if trial.state == "complete" and trial.seconds]
        if not times:
            raise ConfigError(
                "--describe needs the time of one trial: give --like=RUN, a run on this machine with"
                " the same settings, or the folder of a search with finished trials"
            )
        seconds, measured = statistics.fmean(times), f"mean of {len(times)} finished trials"
        ratio = max(1.0, asked.blocks / (there[1].blocks if there else 1))
    trials = max(number_of_trials(asked), len(ended))
    rounds = math.ceil((trials - len(ended)) * asked.folds / asked.blocks)
    low = rounds * seconds / asked.folds
    least, most = asked.usd(low), asked.usd(low * ratio)
    return SearchForecast(
        trials=trials,
        finished=len(ended),
        folds=asked.folds,
        blocks=asked.blocks,
        trial_seconds=seconds,
        measured=measured,
        hours=(low / HOUR_SECONDS, low * ratio / HOUR_SECONDS),
        usd_per_hour=asked.usd_per_hour,
        usd=None if least is None or most is None else (least, most),
    )
