"""Exports the generator of a run: a folder with the model and its model card.

The card says what the generator was trained on, what was measured, and what it is valid for.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from cloudgan import __version__
from cloudgan.core.atomic_file import atomic_folder, write_atomic
from cloudgan.core.command import command
from cloudgan.core.document import Document
from cloudgan.core.documents import parse_json, read_bytes, read_json, validated, write_json
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.file_lock import locked_target
from cloudgan.core.hardware import Hardware, size_text
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress
from cloudgan.core.provenance import git_commit
from cloudgan.data.manifest import has_manifest, manifest_digest, read_manifest
from cloudgan.exports.layout import Tensor, Validity, inputs, output, validity
from cloudgan.money.carbon import COVERS
from cloudgan.money.cost_difference import Figure, figures_of_run
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.page import Bullets, Page, Paragraph, Section, fragment, page_markdown
from cloudgan.reports.result import Result, View
from cloudgan.reports.table import Table
from cloudgan.schema import record
from cloudgan.schema.cost_report import CostReport
from cloudgan.schema.options.showers import ExportOptions
from cloudgan.schema.run_folder import RunFolder, find_run_folder
from cloudgan.training.checkpoint import Checkpoint, find_checkpoint
from cloudgan.training.tensorflow_import import import_tensorflow, require_tensorflow
from cloudgan.validation.gates import Verdict
from cloudgan.validation.page import LIMITS_NOTE, checks_table, condensed

Format = Literal["onnx", "keras", "savedmodel"]
NAMES: dict[Format, str] = {
    "onnx": "generator.onnx",
    "keras": "generator.keras",
    "savedmodel": "saved_model",
}
"""Name of the model in the folder of the export."""
README, CARD = "README.md", "model_card.json"
_FIGURES = {"usd": "cost (USD)", "hours": "time (h)", "kwh": "energy (kWh)", "co2_kg": "CO2e (kg)"}


class ExportedFile(Document):
    """A file of the export."""

    name: str
    format: Format
    bytes: int = Field(ge=0)
    sha256: str | None = Field(description="None: a folder")
    details: dict[str, str] = Field(description="such as the operator set of ONNX")


class Training(Document):
    """How the weights were made."""

    run: str
    preset: str
    networks: str
    step: int = Field(ge=0)
    train_seconds: float = Field(ge=0)
    config_hash: str
    precision: str
    versions: dict[str, str]
    git_commit: str | None = Field(description="None: an installed package, or not recorded")
    hardware: Hardware | None = Field(description="None: the record has no start")


class DataFile(Document):
    """A file of training showers, as it was converted."""

    name: str
    records: int
    bytes: int


class TrainingData(Document):
    """The showers of the training."""

    path: str = Field(description="as given to train")
    training_showers: int
    held_out_fraction: float
    files: tuple[DataFile, ...] = Field(description="empty: the store is not on this machine")
    sha256: str | None = Field(description="of the manifest of the store; None: not here")


class Validated(Document):
    """The verdict of `cloudgan validate` on the exported step, or why there is none."""

    verdict: Verdict | None
    reference: str | None
    why_missing: str = ""


class TrainingCost(Document):
    """What the training cost, by cost.json; an unknown figure is null, with the reason."""

    priced_as: str | None = Field(description="row of the price catalog; None: unknown")
    figures: dict[str, Figure]


class ModelCard(Document):
    """`model_card.json`; README.md has the same in words."""

    schema_version: Literal[1] = 1
    cloudgan: str
    git_commit: str | None = Field(description="of the program that exported; None: installed")
    file: ExportedFile
    inputs: tuple[Tensor, ...]
    output: Tensor
    validity: Validity
    training: Training
    data: TrainingData
    validation: Validated
    cost: TrainingCost

    def page(self) -> Page:
        """Returns the card as text and tables."""
        return Page(
            title=f"{self.training.preset} generator of {self.training.run}",
            lead=(
                f"Step {self.training.step:,} of run {self.training.run}, exported as"
                f" {self.file.format} by cloudgan {self.cloudgan}. {_verdict_line(self.validation)}"
            ),
            sections=tuple(_sections(self)),
            footer=f"The same as data: {CARD}.",
        )


def model_card(checkpoint: Checkpoint, folder: RunFolder, file: ExportedFile) -> ModelCard:
    """Collects what is known of a checkpoint's run; unknown facts say why."""
    state = checkpoint.state
    preset, summary = state.config.model, state.summary
    started = record.read_if_whole(folder.record_file).started()
    return ModelCard(
        cloudgan=__version__,
        git_commit=git_commit(),
        file=file,
        inputs=inputs(preset),
        output=output(preset),
        validity=validity(preset, summary),
        training=Training(
            run=folder.path.name,
            preset=preset.preset,
            networks=preset.network_name,
            step=state.step,
            train_seconds=state.train_seconds,
            config_hash=state.config_hash,
            precision=state.numerics.precision,
            versions=started.versions if started else {},
            git_commit=started.git_commit if started else None,
            hardware=started.hardware if started else None,
        ),
        data=_data(checkpoint, folder),
        validation=_validation(state.step, folder),
        cost=_cost(folder),
    )


def _data(checkpoint: Checkpoint, folder: RunFolder) -> TrainingData:
    config, summary = checkpoint.state.config.data, checkpoint.state.summary
    named = Path(config.path)
    store = named if config.path and has_manifest(named) else folder.store
    files: tuple[DataFile, ...] = ()
    digest = None
    if has_manifest(store):
        manifest = read_manifest(store)
        files = tuple(
            DataFile(name=each.name, records=each.records, bytes=each.bytes)
            for each in manifest.sources
        )
        digest = manifest_digest(manifest)
    return TrainingData(
        path=config.path,
        training_showers=summary.count,
        held_out_fraction=config.held_out_fraction,
        files=files,
        sha256=digest,
    )


def _validation(step: int, folder: RunFolder) -> Validated:
    path = folder.verdict_file
    command = f"`cloudgan validate {folder.path}`"
    if not path.exists():
        return Validated(
            verdict=None, reference=None, why_missing=f"not validated; run {command}, then export"
        )
    found = parse_json(read_bytes(path), str(path))
    if not isinstance(found, dict) or "verdict" not in found:
        raise DataError(f"{path}: not a verdict of {command}; validate the run again")
    if found.get("step") != step:
        why = f"the last validation was of step {found.get('step')}; run {command} on this one"
        return Validated(verdict=None, reference=None, why_missing=why)
    verdict = validated(Verdict, found["verdict"], str(path))
    return Validated(verdict=verdict, reference=str(found.get("reference", "")) or None)


def _cost(folder: RunFolder) -> TrainingCost:
    if not folder.cost_file.exists():
        why = f"no cost.json; run `cloudgan cost {folder.path}`, then export"
        figures = {key: Figure.of(None, why) for key in _FIGURES}
        return TrainingCost(priced_as=None, figures=figures)
    report = read_json(folder.cost_file, CostReport)
    found = figures_of_run(report).figures
    return TrainingCost(priced_as=report.priced_as, figures={key: found[key] for key in _FIGURES})


def _verdict_line(validation: Validated) -> str:
    if validation.verdict is None:
        return f"Physics: unknown, {validation.why_missing}."
    against = f" against {validation.reference}" if validation.reference else ""
    seen = ". In sample: it was trained on these showers" if validation.verdict.in_sample else ""
    return f"Physics: {validation.verdict.grade}{against}{seen}."


def _sections(card: ModelCard) -> Iterator[Section]:
    yield Section("Inputs and output", (_tensors(card), _use(card.file)))
    yield Section("Ranges of validity", tuple(_ranges(card.validity, card.file.format)))
    checks = card.validation.verdict
    yield Section(
        "Physics",
        (Paragraph(_verdict_line(card.validation)),)
        if checks is None
        else (
            checks_table(condensed(checks), f"Generated over Monte Carlo. {LIMITS_NOTE}"),
            Bullets(checks.failures or ("No gate failed.",)),
        ),
    )
    yield Section("Training", (_facts(_training(card)),))
    yield Section("Training showers", (_facts(_showers(card)),))
    yield Section("Cost and carbon of the training", tuple(_cost_blocks(card.cost)))


def _cost_blocks(cost: TrainingCost) -> Iterator[Paragraph | Table]:
    rows = []
    for key, name in _FIGURES.items():
        figure = cost.figures[key]
        missing = f"without {', '.join(figure.unknown)}" if figure.unknown else ""
        rows.append((name, figure.cell(), figure.why_unknown or missing))
    yield Table(("figure", "value", "note"), tuple(rows), align="lrl")
    if cost.priced_as:
        yield Paragraph(
            f"The run is priced as {cost.priced_as}, and energy and carbon are those of that node: {COVERS}."
        )


def _tensors(card: ModelCard) -> Table:
    rows = tuple(
        (kind, each.name, "x".join(("batch", *map(str, each.shape))), each.unit, each.meaning)
        for kind, each in [*(("input", one) for one in card.inputs), ("output", card.output)]
    )
    return Table(("", "name", "shape", "unit", "meaning"), rows, "All are 32-bit floats.", "lllll")


def _use(file: ExportedFile) -> Paragraph:
    how = {
        "onnx": f"onnxruntime.InferenceSession({file.name!r}).run(None, inputs) returns the showers.",
        "keras": f"keras.saving.load_model({file.name!r})(inputs) returns the showers; cloudgan is not"
        " needed.",
        "savedmodel": f"tf.saved_model.load({file.name!r}).signatures['serving_default'](**inputs)"
        " returns the showers as ecal.",
    }
    return Paragraph(how[file.format])


def _ranges(valid: Validity, kind: Format) -> Iterator[Paragraph | Table]:
    low, high = valid.angle_rad
    which = "theta" if valid.theta_rad else "measured angle"
    rows: list[tuple[str, str]] = [
        ("primary", valid.particle or "unknown: the showers state none"),
        ("energy (GeV)", f"{valid.energy_gev[0]:.4g} to {valid.energy_gev[1]:.4g}"),
        (f"{which} (rad)", f"{low:.4g} to {high:.4g}"),
        (f"{which} (degrees)", f"{math.degrees(low):.4g} to {math.degrees(high):.4g}"),
        ("cells", "x".join(map(str, valid.cells))),
    ]
    yield Table(("quantity", "range"), tuple(rows))
    model = "An ONNX model" if kind == "onnx" else "This model"
    yield Paragraph(
        f"{model} cannot refuse other requests: it returns showers that were never compared with any Monte"
        " Carlo. The calling program has to check the ranges; `cloudgan generate` does."
    )


def _training(card: ModelCard) -> dict[str, str | None]:
    training = card.training
    return {
        "preset": training.preset,
        "step": f"{training.step:,}",
        "training time (s)": f"{training.train_seconds:.4g}",
        "precision": training.precision,
        "machine": training.hardware.describe() if training.hardware else None,
        "versions": ", ".join(f"{name} {each}" for name, each in training.versions.items()) or None,
        "commit": training.git_commit,
        "configuration": training.config_hash,
    }


def _showers(card: ModelCard) -> dict[str, str | None]:
    data = card.data
    files = ", ".join(f"{each.name} ({each.records:,} showers)" for each in data.files)
    return {
        "given as": data.path or None,
        "files": files or None,
        "training showers": f"{data.training_showers:,}",
        "held out": f"{data.held_out_fraction:.0%}",
        "SHA-256 of the manifest": data.sha256,
    }


def _facts(values: dict[str, Any]) -> Table:
    return Table(("fact", "value"), tuple(values.items()), align="ll")


def write_card(card: ModelCard, folder: Path) -> None:
    """Writes README.md and model_card.json into the folder of the export."""
    write_json(folder / CARD, card)
    write_atomic(folder / README, page_markdown(card.page()).encode())


class Export(Result):
    """An exported generator; a notebook shows its model card."""

    path: str = Field(description="folder of the export")
    model: str = Field(
        description="the file, or the folder of a SavedModel, that other programs load"
    )
    card: ModelCard

    def view(self) -> View:
        """Returns what other programs give it and get."""
        card = self.card
        verdict = card.validation.verdict
        grade = f"{verdict.grade}{', in sample' * bool(verdict.in_sample)}" if verdict else ""
        inputs = ", ".join(f"{one.name} {_shape(one.shape)}" for one in card.inputs)
        notes = (
            f"in: {inputs}",
            f"out: {card.output.name} {_shape(card.output.shape)} {card.output.unit}",
            f"physics: {grade or card.validation.why_missing}",
        )
        line = f"{self.model}: step {card.training.step:,}, {size_text(card.file.bytes)}"
        commands = ((f"{self.path}/README.md", "the model card"),)
        return View(line, notes=notes, commands=commands, done=True)

    def _repr_html_(self) -> str:
        page = self.card.page()
        return fragment((Section(page.title, ()), *page.sections))


def _shape(shape: Sequence[int | str | None]) -> str:
    """Such as ``(N, 51, 51, 25)``; of a number per shower ``(N)``."""
    return f"({', '.join(map(str, ('N', *shape)))})"


@command
def export(options: ExportOptions, *, progress: Progress | None = None) -> Export:
    """Exports the generator of a run for other programs, with a model card beside it.

    Args:
        options: The run, and where to.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: The folder exists.
        DataError: The run has no such checkpoint, or it is damaged.
        ModuleNotFoundError: An extra is not installed.
    """
    kind, overwrite = options.format, options.overwrite
    path = local_path(options.output)
    folder = find_run_folder(options.run)
    _check_target(path, kind, overwrite=overwrite)
    if kind == "onnx" and find_spec("tf2onnx") is None:  # the extra that has it has all
        raise ModuleNotFoundError("Keras writes ONNX with tf2onnx and TensorFlow", name="tf2onnx")
    require_tensorflow()
    progress = progress or usual_progress()
    checkpoint = find_checkpoint(folder, options.step, progress)
    progress.start(f"exporting ({kind})")
    with locked_target(path):
        _check_target(path, kind, overwrite=overwrite)  # another process wrote it meanwhile
        with atomic_folder(path, error_class=ConfigError) as beside:
            file = _write(kind, checkpoint, folder.path.name, beside)
            card = model_card(checkpoint, folder, file)
            write_card(card, beside)
    return Export(path=str(path), model=str(path / card.file.name), card=card)


def _check_target(path: Path, kind: Format, *, overwrite: bool) -> None:
    if path.suffix in {".onnx", ".keras"}:
        raise ConfigError(
            f"{path}: an export is a folder with {NAMES[kind]} and its model card; give a folder, such as"
            f" {path.with_suffix('')}"
        )
    if not path.exists() and not path.is_symlink():
        return
    if not overwrite:
        raise ConfigError(f"{path} exists; give another folder, or --overwrite")
    ours = {*NAMES.values(), README, CARD}
    if not path.is_dir() or path.is_symlink() or not {each.name for each in path.iterdir()} <= ours:
        raise ConfigError(
            f"{path} is not an export, so --overwrite does not replace it; give another folder"
        )


def _write(kind: Format, checkpoint: Checkpoint, run: str, folder: Path) -> ExportedFile:
    import_tensorflow()
    import keras

    from cloudgan.exports import shower_model as exports

    state = checkpoint.state
    preset, target = state.config.model, folder / NAMES[kind]
    network = exports.trained_network(checkpoint, plain=kind == "keras")
    if kind == "keras":
        network = exports.without_own_layers(network)
    model = exports.shower_model(preset, network, state.summary.angle_fit)
    details = {"keras": keras.__version__}
    digest = None
    if kind == "onnx":
        valid = validity(preset, state.summary)
        facts = {
            "cloudgan": __version__,
            "run": run,
            "preset": preset.preset,
            "step": str(state.step),
            "particle": valid.particle or "unknown",
            "energy_gev": "{!r}:{!r}".format(*valid.energy_gev),
            "theta_rad": "{!r}:{!r}".format(*valid.angle_rad),
        }
        exports.save_onnx(model, preset, facts, target)
        details |= {"operator_set": str(exports.OPSET), "tf2onnx": version("tf2onnx")}
    elif kind == "keras":
        model.save(target)
    else:
        exports.save_tensorflow(model, preset, target)
    if target.is_dir():
        size = sum(each.stat().st_size for each in target.rglob("*") if each.is_file())
    else:
        size = target.stat().st_size
        with target.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ExportedFile(name=target.name, format=kind, bytes=size, sha256=digest, details=details)
