"""Exports the generator of a run: a folder with the model and its model card."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field

from cloudgan import __version__
from cloudgan.api.model_card import ExportedFile, Format, ModelCard, model_card, write_card
from cloudgan.api.run import open_run
from cloudgan.core.atomic_file import atomic_folder
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.file_lock import locked_target
from cloudgan.core.hardware import size_text
from cloudgan.core.local_path import local_path
from cloudgan.core.progress import Progress
from cloudgan.exports.layout import validity
from cloudgan.reports.notebook_progress import usual_progress
from cloudgan.reports.page import Section, fragment
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.showers import ExportOptions
from cloudgan.training.checkpoint import Checkpoint, find_checkpoint
from cloudgan.training.tensorflow_import import import_tensorflow, require_tensorflow

NAMES: dict[Format, str] = {
    "onnx": "generator.onnx",
    "keras": "generator.keras",
    "savedmodel": "saved_model",
}
"""Name of the model in the folder of the export."""


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
    folder = open_run(options.run).folder
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
    ours = {*NAMES.values(), "README.md", "model_card.json"}
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
