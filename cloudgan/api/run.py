"""A run: the value that `train` returns and `generate`, `validate` and `cost` take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cloudgan.core.errors import DataError
from cloudgan.reports.page import Graphic, Section, fragment
from cloudgan.reports.table import Table
from cloudgan.schema import record
from cloudgan.schema.run_folder import RunFolder

if TYPE_CHECKING:
    from cloudgan.reports.page import Block
    from cloudgan.schema.config import RunConfig
    from cloudgan.schema.record import RunRecord

Step = int | Literal["best"] | None
"""A checkpoint of a run: the number of its step, the best one that was validated, or the newest."""


@dataclass(frozen=True)
class Run:
    """A run on this machine's disk; a notebook shows its facts and its losses.

    Attributes:
        path: Folder of the run.
    """

    path: Path

    @cached_property
    def folder(self) -> RunFolder:
        """The names of the files of the run."""
        return RunFolder(self.path)

    @property
    def config(self) -> RunConfig:
        """The run's configuration (run.yaml).

        Raises:
            DataError: The folder holds no run.yaml.
        """
        config = self.folder.read_config()
        if config is None:
            raise DataError(f"{self.path}: no run.yaml; train the run first (`cloudgan train`)")
        return config

    @property
    def record(self) -> RunRecord:
        """The run's record (record.jsonl), read again at each access.

        Raises:
            DataError: The folder holds no record, or a line is damaged.
        """
        return record.read(self.folder.record_file)

    def _repr_html_(self) -> str:
        found = self.record
        blocks: tuple[Block, ...] = (_facts(self.path.name, found),)
        if found.epochs():
            blocks += (loss_graphic(found),)
        return fragment((Section(f"Run {self.path.name}", blocks),))


def open_run(run: Run | RunFolder | str | Path) -> Run:
    """Returns the run in a folder; the folder is not read.

    Args:
        run: A run, or the path of its folder, such as ``runs/mine``.

    Raises:
        ConfigError: The path is empty.
    """
    if isinstance(run, Run):
        return run
    return Run((run if isinstance(run, RunFolder) else RunFolder(run)).path)


def shown_run(path: str | Path) -> str:
    """Returns the name of a run in the folder runs, else its path: what commands take."""
    parts = Path(path).parts
    return parts[1] if len(parts) == 2 and parts[0] == "runs" else str(path)  # noqa: PLR2004


def loss_graphic(found: RunRecord) -> Graphic:
    """Draws the weighted losses of both networks, in training and on held-out showers."""
    from cloudgan.reports import drawing

    epochs = found.epochs()
    totals: dict[str, list[float | None]] = {}
    for name in epochs[0].losses:
        label = name.replace("_", ", ")
        totals[label] = [epoch.losses[name]["total"] for epoch in epochs]
        totals[f"{label}, held out"] = [
            epoch.held_out_losses[name]["total"] if epoch.held_out_losses else None
            for epoch in epochs
        ]
    chart = drawing.Chart("losses", "Weighted totals", "step", "loss", log_y=True)
    return Graphic(
        drawing.lines(chart, [float(epoch.step) for epoch in epochs], totals),
        "Mean over each epoch. The losses of a GAN do not fall to zero: the two networks balance each"
        " other.",
    )


def _facts(name: str, found: RunRecord) -> Table:
    started, stopped = found.started(), found.stopped()
    epochs = found.epochs()
    rows = (
        ("ended", stopped.reason if stopped else None),
        ("step", epochs[-1].step if epochs else None),
        ("epochs", len(epochs)),
        ("training showers", started.training_showers if started else None),
        ("steady epoch (s)", found.steady_epoch_seconds()),
        ("showers per second", found.samples_per_second()),
        ("program time (s)", found.program_seconds()),
    )
    return Table(("figure", "value"), rows, f"Run {name}", "lr")
