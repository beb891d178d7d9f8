"""`cloudgan init`: writes a commented job.yaml, space.yaml or run.yaml, or drafts dataset.yaml from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from cloudgan.core.atomic_file import write_atomic
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.flags import Options, argument
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.shared import OVERWRITE

_TEXTS = {
    "job": """\
# A launch: cloudgan deploy job.yaml (flags override the keys; the schema: cloudgan schema job.yaml)
name: shower-mini
provider: gcp              # gcp, aws, azure, cheapest, kubernetes, slurm or local
accelerator: l4            # NAME[:COUNT]; cloudgan offers lists them
nodes: 1                   # or auto
market: auto               # spot where it is cheaper
limits: {budget_usd: 20, max_hours: 6, fallback: same}
# env: {RUN_TAG: first}    # variables of the workers
# secrets: [WANDB_API_KEY] # values are those of your environment; in no file and no log
data: showers.h5
run: train --preset=mini --epochs=20 --validate-every=1
# run: evolve --grid=2x2 --preset=mini
# run: simulate --showers=100000
""",
    "space": """\
# The space of a search: cloudgan search space.yaml showers.h5 --preset=mini
# By key of run.yaml: a range (low, high; log: equal steps are equal factors), or choices.
model.learning_rate: {low: 0.0001, high: 0.01, log: true}
training.batch_per_replica: {choices: [16, 32, 64]}
""",
    "run": """\
# A training: cloudgan train --config=run.yaml (flags override the keys; the schema: cloudgan schema run.yaml)
name: mine
data:
  path: showers.h5
  held_out_fraction: 0.1   # for losses and validation; a verdict needs some hundreds
model:
  preset: mini             # smoke, mini, fixed25 or paper
training:
  epochs: 20
  validate_every: 1        # epochs
""",
}
_NEXT = {
    "job": "cloudgan plan {}",
    "space": "cloudgan search {} showers.h5 --preset=mini",
    "run": "cloudgan train --config={}",
    "dataset": "cloudgan convert --verify {1} --binning={0}",
}


class InitOptions(Options):
    """Writes a commented file to start from: job, space, run or dataset.yaml.

    An existing file is kept, unless --overwrite is given.

    Examples:
        cloudgan init job
        cloudgan init space mine.yaml
    """

    kind: Literal["job", "space", "run", "dataset"] = argument(
        "job (deploy), space (search), run (train) or dataset (other showers)"
    )
    output: str | None = argument(
        "file to write; with dataset the HDF5 file that dataset.yaml is drafted from",
        None,
        words="KIND.yaml",
    )
    overwrite: bool = OVERWRITE


class WrittenFile(Result):
    """A file to start from."""

    path: str
    kind: str
    data: str | None = None
    note: str | None = Field(None, description="what its reader must know")

    def view(self) -> View:
        """Returns the command that takes it."""
        return View(
            f"{self.path} written",
            notes=(self.note,) if self.note else (),
            commands=((_NEXT[self.kind].format(self.path, self.data), ""),),
            done=True,
        )


@command
def init(options: InitOptions) -> WrittenFile:
    """Writes the file; an existing one is kept unless --overwrite is given."""
    if options.kind != "dataset":
        path = Path(options.output or f"{options.kind}.yaml")
        if path.suffix not in (".yaml", ".yml"):  # such as a file of showers
            raise ConfigError(
                f"{path} is no name of a YAML file: give {path.stem or options.kind}.yaml"
            )
        _refuse_existing(path, options, "another name")
        text, note = _TEXTS[options.kind], ""
    elif not options.output:
        raise ConfigError("init dataset needs the file: cloudgan init dataset FILE.h5")
    else:
        path, source = Path("dataset.yaml"), Path(options.output)
        if source.exists():  # otherwise `draft` says what is missing
            _refuse_existing(path, options, "rename it")
        from cloudgan.data.draft import draft

        text, note = draft(source)
    write_atomic(path, text.encode())
    data = options.output if options.kind == "dataset" else None
    return WrittenFile(path=str(path), kind=options.kind, data=data, note=note or None)


def _refuse_existing(path: Path, options: InitOptions, otherwise: str) -> None:
    if path.exists() and not options.overwrite:
        raise ConfigError(f"{path} exists; give --overwrite, or {otherwise}")
