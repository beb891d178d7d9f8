"""Exports the generator of a run: a folder with the model and its model card."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from cloudgan import __version__
from cloudgan.api.model_card import ExportedFile, Format, ModelCard, model_card, write_card
from cloudgan.api.notebook_progress import usual_progress
from cloudgan.api.run import open_run
from cloudgan.api.tensorflow_import import import_tensorflow
from cloudgan.core.atomic_file import atomic_folder, write_atomic
from cloudgan.core.errors import ConfigError, UnknownNameError
from cloudgan.core.file_lock import locked_target
from cloudgan.core.local_path import local_path
from cloudgan.reports.page import Section, fragment

if TYPE_CHECKING:
    from pathlib import Path

    from cloudgan.api.run import Run, Step
    from cloudgan.core.progress import Progress
    from cloudgan.training.checkpoint import Checkpoint

NAMES: dict[Format, str] = {
    "onnx": "generator.onnx",
    "keras": "generator.keras",
    "savedmodel": "saved_model",
}
"""Name of the model in the folder of the export."""


@dataclass(frozen=True)
class Export:
    """An exported generator; a notebook shows its model card.

    Attributes:
        path: Folder of the export.
        card: What is known of the model.
    """

    path: Path
    card: ModelCard

    @property
    def model(self) -> Path:
        """The file, or the folder of a SavedModel, that other programs load."""
        return self.path / self.card.file.name

    def _repr_html_(self) -> str:
        page = self.card.page()
        return fragment((Section(page.title, ()), *page.sections))


def export(
    run: Run | str | Path,
    output: str | Path,
    *,
    format: str = "onnx",  # noqa: A002  the name of the flag
    step: Step = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Export:
    """Exports the generator of a run for other programs, with a model card beside it.

    ONNX needs the extra `export`, and no TensorFlow; keras and savedmodel need the extra `train`.

    Args:
        run: A run, or its folder.
        output: Folder to write, such as exports/mine: the model, README.md and model_card.json.
        format: onnx, keras (loads without cloudgan) or savedmodel.
        step: Checkpoint: the number of its step (0 is untrained) or "best". Default: the newest.
        overwrite: Replace an existing export.
        progress: Receives each task and its progress.

    Raises:
        ConfigError: The format is unknown, or the folder exists.
        DataError: The run has no such checkpoint, or it is damaged.
        ModuleNotFoundError: An extra is not installed.
    """
    kind = _format(format)
    path = local_path(output)
    folder = open_run(run).folder
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
    return Export(path, card)


def _format(given: str) -> Format:
    for known in get_args(Format):
        if given == known:
            found: Format = known
            return found
    raise UnknownNameError("format", given, get_args(Format))


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
