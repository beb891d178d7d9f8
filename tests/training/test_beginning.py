"""A run that begins with what another one learned."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.config import RunConfig, TrainingConfig
from cloudgan.core.errors import ConfigError, DataError
from cloudgan.core.presets import PRESETS
from cloudgan.run_folder import RunFolder
from cloudgan.training.beginning import find_beginning

pytestmark = pytest.mark.tf


@pytest.fixture(scope="module")
def trained(tmp_path_factory, write_config, run_cloudgan):
    """A run of smoke after three steps."""
    folder = tmp_path_factory.mktemp("begin")
    config = write_config(folder / "run.yaml", plain=True, batch_per_replica=8)
    run_cloudgan("train", f"--config={config}", f"--run={folder / 'a'}", "--max_steps=3")
    return folder


def asking(folder, **model):
    config = RunConfig.model_validate(RunFolder(folder / "a").read_config().model_dump())
    training = TrainingConfig(begin_with=str(folder / "a"))
    changed = config.model.model_copy(update=model)
    return config.model_copy(update={"training": training, "model": changed})


def test_a_run_that_names_no_other_begins_anew():
    assert find_beginning(RunConfig()) is None


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    config = RunConfig(training=TrainingConfig(begin_with=str(tmp_path / "nothing")))
    with pytest.raises(DataError, match=r"--begin_with=.*nothing: there is no checkpoint"):
        find_beginning(config)


def test_losses_and_rates_may_differ_and_networks_may_not(trained):
    found = find_beginning(asking(trained, learning_rate=1e-4, shape_weight=3.0))
    assert found.name == "step-000000003.npz"
    with pytest.raises(ConfigError, match="networks is smoke there, mini here"):
        find_beginning(asking(trained, networks=PRESETS["mini"].networks))
    with pytest.raises(ConfigError, match=r"generator_average is 0\.99 there, 0\.0 here"):
        find_beginning(asking(trained, generator_average=0.0))


def test_the_first_checkpoint_holds_what_the_other_run_learned(trained, run_cloudgan, saved_arrays):
    config, run = trained / "run.yaml", trained / "b"
    flags = (f"--config={config}", f"--run={run}", f"--begin_with={trained / 'a'}")
    run_cloudgan("train", *flags, "--max_steps=1")
    learned, begun = saved_arrays(trained / "a", 3), saved_arrays(run, 0)
    for name in learned:
        np.testing.assert_array_equal(begun[name], learned[name], err_msg=name)
    after = saved_arrays(run, 1)
    assert any(np.any(after[name] != begun[name]) for name in after)


def test_a_folder_that_is_none_starts_nothing(trained, run_cloudgan):
    run = trained / "c"
    flags = (f"--config={trained / 'run.yaml'}", f"--run={run}", "--begin_with=nothing")
    done = run_cloudgan("train", *flags, check=False)
    assert done.returncode == 2
    assert "there is no checkpoint in nothing" in done.stderr
    assert not (run / "run.yaml").exists()
