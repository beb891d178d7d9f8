"""Weights of generators that were not trained; each of them changes the showers."""

from __future__ import annotations

import numpy as np

from cloudgan.gan.networks import build_generator
from cloudgan.gan.shower_frame import CLASSES, ENERGY_KNOTS, NODES, STAGES, table_shape


def example_weights(preset, seed=1):
    """Returns weights by ``layer/name``, in the order of Keras, with smooth tables of showers of 10 to 100 GeV."""
    rng = np.random.default_rng(seed)
    tables = _tables(preset, rng) if preset.cell_marginals else {}
    made = {}
    for weight in build_generator(preset).weights:
        name, shape = "/".join(weight.path.split("/")[-2:]), tuple(weight.shape)
        owner, _, leaf = name.partition("/")
        if owner == "output":
            value = 1.3 if leaf == "calibration" else tables[leaf]
        elif leaf in {"gamma", "moving_variance"}:
            value = 1 + 0.2 * rng.random(shape)
        elif leaf == "kernel":
            value = rng.normal(0, np.sqrt(1.5 / np.prod(shape[:-1])), shape)
        else:
            value = rng.normal(0, 0.1, shape)
        made[name] = np.asarray(value, np.float32).reshape(shape)
    return made


def _tables(preset, rng):
    layers, sizes = preset.image_shape[2], table_shape(preset)
    distance = np.add.outer(np.arange(sizes.bins[0]), np.arange(sizes.bins[1])).ravel()
    distance = np.tile(distance, STAGES * ENERGY_KNOTS)
    rows = len(distance)
    threshold = 2.5 - 0.3 * distance + rng.normal(0, 0.1, rows)
    profile = np.exp(-0.5 * ((np.arange(layers) - 9) / 5) ** 2)
    mean = np.zeros(sizes.weights()["layer_mean"])
    mean[0] = [*np.sqrt(profile / profile.sum()), np.sqrt(0.02)]
    mean[1] = 1e-4
    mean[5, :layers] = 0.01 * (np.arange(layers) / layers - 0.4)
    spread = np.zeros_like(mean)
    spread[0] = -5
    mixed = rng.normal(size=(layers + 1, layers + 1))
    covariance = mixed @ mixed.T + layers * np.eye(layers + 1)
    width = np.sqrt(np.diag(covariance))
    knots = np.log(np.linspace(0.001, 0.1, ENERGY_KNOTS)) + rng.normal(0, 0.05, (STAGES, 1))
    of_knot = np.repeat(knots.ravel(), np.prod(sizes.bins))
    scale = of_knot - 2 - 0.2 * distance + rng.normal(0, 0.1, rows)
    return {
        "cells": np.stack([threshold, scale, 1.5 + rng.random(rows)], 1),
        "knots": knots,
        "layer_mean": mean,
        "layer_spread": spread,
        "layer_quantiles": np.sort(rng.normal(size=sizes.weights()["layer_quantiles"]), 1),
        "layer_factor": np.linalg.cholesky(covariance / width / width[:, None]),
        "layer_least": np.where(np.arange(layers) < 2, 0.14, -1.0),
        "offsets": np.sort(rng.normal(0, 0.3, sizes.weights()["offsets"]), 1),
        "depth": np.arange(layers) * 0.9,
        "layer_depth": np.arange(layers) + 0.5,
        "neighbours": rng.uniform(0.05, 0.2, sizes.weights()["neighbours"]),
        "limits": [np.log(10), np.log(100), -0.6, 0.6],
        "spectrum": 0.1 * np.sin(np.add.outer(np.arange(CLASSES), np.arange(NODES) / 15)),
    }
