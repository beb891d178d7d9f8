"""Which runs a forecast of a network stands on: the same for `plan`, `offers` and `cost`."""

import pytest

from cloudgan.schema.config import RunConfig
from cloudgan.schema.run_folder import RunFolder
from cloudgan.speed.measured import paper_measurements
from cloudgan.speed.network import throughput_model
from records import epoch, numerics, started, write_run

V100, CPU = "Tesla V100-SXM2-16GB", "CPU"
PAPERS = tuple(run.name for run in paper_measurements())
PAPERS_OTHERS = tuple(run.name for run in paper_measurements() if run.accelerator != "V100")


@pytest.fixture
def run_on(tmp_path, monkeypatch):
    """Writes a run whose steady epoch of 1,000 showers took 100 s."""
    monkeypatch.chdir(tmp_path)

    def write(device, preset, name="runs/mine"):
        return write_run(
            tmp_path / name,
            started(numerics=numerics(device=device, global_batch_size=32), training_showers=1000),
            epoch(0, 300.0, steps=31, samples=992),
            epoch(1, 100.0, steps=31, samples=992),
            model={"preset": preset},
        ).path

    return write


@pytest.mark.parametrize(
    ("ran", "asked", "measured"),
    [
        ([], "paper", PAPERS),
        ([(CPU, "paper")], "paper", PAPERS),
        ([(V100, "paper")], "paper", ("mine on 1 x V100", *PAPERS_OTHERS)),
        ([(V100, "mini")], "mini", ("mine on 1 x V100",)),
        ([(V100, "mini")], "paper", PAPERS),
        ([], "mini", ()),
        ([(CPU, "mini")], "mini", ()),
        ([(V100, "paper")], "mini", ()),
    ],
)
def test_own_runs_come_first_and_no_run_of_another_network_is_called_measured(
    run_on, ran, asked, measured
):
    for device, preset in ran:
        run_on(device, preset)
    found = throughput_model(RunConfig(model={"preset": asked}), 1000)
    assert tuple(run.name for run in found.measured) == measured
    known = found.epoch("V100", 1, 32)
    assert known.basis.startswith("not measured: 0.0021 to 0.015 times") is (not measured)
    if measured[:1] == ("mine on 1 x V100",):
        assert known.seconds == 100


def test_a_given_run_counts_wherever_it_is_and_without_run_yaml_alone(run_on, tmp_path):
    there = run_on(V100, "mini", "elsewhere/there")
    run_on(V100, "mini")
    mini = RunConfig(model={"preset": "mini"})
    for config, names in ((mini, ("there", "mine")), (None, ("there",))):
        found = throughput_model(config, 1000, RunFolder(there))
        assert tuple(run.name for run in found.measured) == tuple(f"{n} on 1 x V100" for n in names)


def test_a_grid_has_neither_measured_runs_nor_bounds(run_on):
    run_on(V100, "mini")
    found = throughput_model(RunConfig(model={"preset": "mini"}, grid={}), 1000)
    assert found.measured == ()
    assert found.epoch("V100", 1, 32) is None
