"""Names of measures, losses and properties of a shower in words, for pages and tables."""

from __future__ import annotations

_AXES = {"x": "x", "y": "y", "z": "depth"}

_WORDS = {
    "real_fake": "real or fake",
    "ecal_sum": "energy in all cells",
    "energy": "energy of the primary",
    "longitudinal": "longitudinal profile",
    "shape": "shape of the showers",
    "generator_loss": "loss of the generator",
    "discriminator_real": "discriminator, Monte Carlo showers",
    "discriminator_fake": "discriminator, generated showers",
    "metric": "metric of the 3DGAN authors",
    "metric_moments": "metric of the 3DGAN authors, moments",
    "metric_profiles": "metric of the 3DGAN authors, profiles",
    "metric_angle": "metric of the 3DGAN authors, angle",
    "Esum/E": "energy response",
    "response": "energy response",
    "response_width": "energy resolution",
    "moment_1": "mean position of the energy",
    "moment_2": "extent of the shower (second moment)",
    "centre": "centre of the shower",
    "lateral_rms": "lateral width",
    "tail": "lateral tail",
    "first_layers": "energy in the first layers",
    "last_layers": "energy in the last layers",
    "last_layer": "energy in the last layer",
    "first 6 layers": "energy in the first 6 layers",
    "last 8 layers": "energy in the last 8 layers",
    "layer_of_maximum": "layer of the maximum",
    "hits": "cells above a threshold",
    "sparsity": "filled cells",
    "spectrum": "spectrum of the cell energies",
    "angle_slope": "measured against requested angle, slope",
    "angle_offset": "measured angle, offset",
    "angle_spread": "measured angle, spread",
    "correlation": "correlations",
    "diversity": "diversity of the showers",
    "separation": "separation power",
    "separation_median": "separation power, median",
    "wasserstein": "Wasserstein-1 distance",
    "wasserstein_median": "Wasserstein-1 distance, median",
    "auc": "AUC of a classifier",
    "fpd": "Fréchet physics distance (FPD)",
    "kpd": "kernel physics distance (KPD)",
    **{f"profile_{axis}": f"profile along {word}" for axis, word in _AXES.items()},
    **{f"M1 {axis}": f"centre along {word}" for axis, word in _AXES.items()},
    **{f"M2 {axis}": f"width along {word}" for axis, word in _AXES.items()},
}


def in_words(name: str) -> str:
    """Returns such as ``profile along depth`` for ``profile_z``; an unknown name without underscores."""
    return _WORDS.get(name, name.replace("_", " ") if name.isidentifier() else name)
