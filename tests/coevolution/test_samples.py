"""`generate` for the run of a grid: showers of its cells, and samples of another task."""

import random

import h5py
import numpy as np
import pytest

from cloudgan.api.showers import generate
from cloudgan.coevolution.evolution import Mixture
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.samples import GridResult, write_result
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.data.summary import AngleFit, TrainingSummary
from cloudgan.schema.coevolution import CoevolutionConfig
from cloudgan.schema.config import parse_config
from cloudgan.schema.run_folder import RunFolder

pytestmark = pytest.mark.tf

RUN = parse_config({"model": {"preset": "smoke"}}, "run.yaml")
SUMMARY = TrainingSummary(
    count=90,
    sampled=90,
    energy_range_gev=(10.0, 100.0),
    theta_range_rad=(1.1, 2.0),
    mtheta_range_rad=(1.1, 2.0),
    layer_fraction=(1e-3,) * 25,
    mean_image_sum_per_unit=1.0,
    contained_fraction=1.0,
    angle_fit=AngleFit(offset_rad=0.0, slope=1.0),
)


@pytest.fixture(scope="module")
def cells():
    """Weights of two generators; the second one makes empty showers."""
    from cloudgan.coevolution.keras_pair import by_name
    from cloudgan.gan.networks import build_generator

    network = build_generator(RUN.model, seeds=random.Random(1))
    full = by_name(network.weights)
    network.get_layer("output").calibration.assign(0.0)
    return full, by_name(network.weights)


def result_of(task, generators, untrained, mixtures, facts):
    return GridResult(
        task=task,
        rows=1,
        columns=2,
        iteration=5,
        scores=(0.1, 0.2),
        generators=generators,
        untrained=untrained,
        mixtures=mixtures,
        facts=facts,
    )


@pytest.fixture(scope="module")
def grid(cells, tmp_path_factory):
    """A finished grid of 1 x 2 cells, the first of which is the best."""
    folder = tmp_path_factory.mktemp("grid")
    config = CoevolutionConfig(task="showers", rows=1, columns=2, neighbourhood="ring")
    mixtures = (Mixture((0, 1), (0.25, 0.75)), Mixture((1, 0), (0.5, 0.5)))
    facts = {"summary": SUMMARY.model_dump(mode="json")}
    result = result_of("showers", cells, cells[1], mixtures, facts)
    files = GridFolder(folder)
    files.write_config(config)
    files.run.write_config(RUN)
    write_result(files.result_file, result)
    return folder


def showers_of(file):
    with h5py.File(file) as found:
        return found["ECAL"][:], found["energy"][:]


def test_the_mixture_takes_exactly_its_shares_and_the_same_seed_gives_the_same_showers(
    grid, tmp_path
):
    files = [tmp_path / name for name in ("a.h5", "b.h5", "c.h5")]
    for file, seed in zip(files, (1, 1, 2), strict=True):
        written = generate(grid, file, showers=40, seed=seed)
    assert (written.showers, written.cell, written.step) == (40, "mixture", 5)
    (ecal, energy), (again, _), (other, _) = map(showers_of, files)
    empty = ecal.sum((1, 2, 3)) == 0
    assert empty.sum() == 30
    assert empty[:30].any()
    assert not empty[:30].all()
    np.testing.assert_array_equal(ecal, again)
    assert not np.array_equal(other, ecal)
    # The energies follow those of the conditions, in their order.
    full = ecal[~empty].sum((1, 2, 3)) / energy[~empty]
    assert full.std() < 0.5 * full.mean()


def test_a_single_cell_generates_what_its_weights_would_in_an_ordinary_run(grid, cells, tmp_path):
    from cloudgan.training.inference import Conditions, ShowerGenerator

    generate(grid, tmp_path / "best.h5", showers=5, cell="best", seed=3)
    generate(grid, tmp_path / "first.h5", showers=5, cell="0,0", seed=3)
    generate(grid, tmp_path / "second.h5", showers=5, cell="0,1", seed=3)
    best, energy = showers_of(tmp_path / "best.h5")
    np.testing.assert_array_equal(best, showers_of(tmp_path / "first.h5")[0])
    assert not showers_of(tmp_path / "second.h5")[0].any()
    alone = ShowerGenerator(RUN.model)
    alone.set_weights(list(cells[0].values()))
    with h5py.File(tmp_path / "best.h5") as file:
        theta = file["theta"][:].astype(np.float32)
    showers = next(alone.showers(Conditions(energy.astype(np.float32), theta), seed=3))
    np.testing.assert_allclose(showers.ecal_gev * 50, best, rtol=1e-5)


def test_what_a_grid_does_not_have_is_refused_with_what_is_valid(grid, tmp_path):
    out = tmp_path / "out.h5"
    with pytest.raises(
        ConfigError, match="valid are mixture, best, ensemble, and ROW,COLUMN from 0,0 to 0,1"
    ):
        generate(grid, out, cell="1,0")
    with pytest.raises(ConfigError, match="--cell=mixture"):
        generate(grid, out, step=3)
    ordinary = tmp_path / "run"
    RunFolder(ordinary).write_config(RUN)
    with pytest.raises(ConfigError, match="is no grid of `cloudgan evolve`; omit --cell"):
        generate(ordinary, out, cell="best")
    GridFolder(ordinary).write_config(CoevolutionConfig(task="showers"))
    with pytest.raises(DataError, match="has not finished"):
        generate(ordinary, out)
    assert not out.exists()


def test_weights_of_other_networks_are_refused(grid, tmp_path):
    other = tmp_path / "other"
    mini = parse_config({"model": {"preset": "mini"}}, "run.yaml")
    RunFolder(other).write_config(mini)
    for name in ("coevolution.json", "mixture.npz"):
        (other / name).write_bytes((grid / name).read_bytes())
    with pytest.raises(DataError, match=r"mixture\.npz: its weights do not match preset mini"):
        generate(other, tmp_path / "out.h5")


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A grid of the task ring, whose two generators give one point each."""
    from cloudgan.coevolution.tasks.ring import Ring

    folder = tmp_path_factory.mktemp("ring")
    config = CoevolutionConfig(task="ring", rows=1, columns=2, neighbourhood="ring")
    pair = Ring(config).make_pair()
    from cloudgan.coevolution.task import Individual

    one = pair.generator_weights(
        Individual("generator", pair.initial("generator", 1), 1e-3, "bce", 0.0, "")
    )
    last = list(one)[-1]
    points = [
        {name: np.zeros_like(array) for name, array in one.items()}
        | {last: np.array(point, np.float32)}
        for point in ((1, 2), (3, 4))
    ]
    mixtures = (Mixture((0, 1), (0.25, 0.75)),) * 2
    files = GridFolder(folder)
    files.write_config(config)
    result = result_of("ring", tuple(points), one, mixtures, {})
    write_result(files.result_file, result)
    return folder


def test_another_task_gives_an_archive_of_samples(ring, tmp_path):
    written = generate(ring, tmp_path / "points.npz", showers=8)
    assert (written.content, written.showers) == ("samples", 8)
    with np.load(tmp_path / "points.npz") as archive:
        samples = archive["samples"]
    assert samples.shape == (8, 2)
    assert sorted(map(tuple, samples)) == [(1, 2)] * 2 + [(3, 4)] * 6
    with pytest.raises(ConfigError, match=r"ending in \.npz"):
        generate(ring, tmp_path / "points.h5")
    with pytest.raises(ConfigError, match=r"--energy: .* trained ring, not showers"):
        generate(ring, tmp_path / "other.npz", energy=(1, 2))
    with pytest.raises(ConfigError, match="exists"):
        generate(ring, tmp_path / "points.npz")
