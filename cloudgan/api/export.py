"""Exports the generator of a run: a folder with the model and its model card."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from cloudgan import __version__
from cloudgan.api.model_card import ExportedFile, Format, ModelCard, model_card, write_card
from cloudgan.api.notebook_progress import usual_progress
from cloudgan.api.run import open_run
from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.core.atomic_file import atomic_folder, write_atomic
from cloudgan.core.command import command
from cloudgan.core.errors import ConfigError
from cloudgan.core.file_lock import locked_target
from cloudgan.core.local_path import local_path
from cloudgan.core.memory import size_text
from cloudgan.core.progress import Progress
from cloudgan.reports.page import Section, fragment
from cloudgan.reports.result import Result, View
from cloudgan.schema.options.showers import ExportOptions

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.core.progress import Progress
    from cloudgan.training.checkpoint import Checkpoint

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
    kind, overwrite, step = options.format, options.overwrite, options.step
    path = local_path(options.output)
    folder = open_run(options.run).folder
    _check_target(path, kind, overwrite=overwrite)
    progress = progress or usual_progress()
    from cloudgan.training.checkpoint_choice import find_checkpoint

    checkpoint = find_checkpoint(folder, step, progress)
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
    target = folder / NAMES[kind]
    if kind == "onnx":
        details = _write_onnx(checkpoint, run, target)
    else:
        details = _write_keras(kind, checkpoint, target)
    if target.is_dir():
        size = sum(each.stat().st_size for each in target.rglob("*") if each.is_file())
        digest = None
    else:
        size = target.stat().st_size
        with target.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ExportedFile(name=target.name, format=kind, bytes=size, sha256=digest, details=details)


def _write_onnx(checkpoint: Checkpoint, run: str, target: Path) -> dict[str, str]:
    import onnx

    from cloudgan.exports.generator_weights import read_weights
    from cloudgan.exports.layout import validity
    from cloudgan.exports.onnx_generator import onnx_generator
    from cloudgan.exports.onnx_graph import IR_VERSION, OPSET

    state = checkpoint.state
    preset, valid = state.config.model, validity(state.config.model, state.summary)
    facts = {
        "cloudgan": __version__,
        "run": run,
        "preset": preset.preset,
        "step": str(state.step),
        "particle": valid.particle or "unknown",
        "energy_gev": _range_text(valid.energy_gev),
        "theta_rad": _range_text(valid.angle_rad),
    }
    weights = read_weights(checkpoint)
    model = onnx_generator(preset, weights, state.summary.angle_fit, facts)
    onnx.checker.check_model(model, full_check=True)
    write_atomic(target, model.SerializeToString())
    return {"operator_set": str(OPSET), "ir_version": str(IR_VERSION), "onnx": onnx.__version__}


def _range_text(limits: tuple[float, float]) -> str:
    return f"{limits[0]!r}:{limits[1]!r}"


def _write_keras(kind: Format, checkpoint: Checkpoint, target: Path) -> dict[str, str]:
    import_tensorflow()
    import keras

    from cloudgan.exports.generator_weights import read_weights
    from cloudgan.exports.keras_generator import keras_generator, save_tensorflow

    state = checkpoint.state
    preset = state.config.model
    model: Any = keras_generator(preset, read_weights(checkpoint), state.summary.angle_fit)
    if kind == "keras":
        model.save(target)
    else:
        save_tensorflow(model, preset, target)
    return {"keras": keras.__version__}
