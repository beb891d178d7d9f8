"""A run that starts with the weights of another run."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.schema.config import RunConfig
from cloudgan.schema.presets import find_preset
from cloudgan.schema.run_folder import RunFolder
from cloudgan.schema.training_config import TrainingConfig
from cloudgan.training.checkpoint import find_warm_start

pytestmark = pytest.mark.tf


def asking(folder, **model):
    config = RunConfig.model_validate(RunFolder(folder / "run").read_config().model_dump())
    training = TrainingConfig(init_from=str(folder / "run"))
    changed = config.model.model_copy(update=model)
    return config.model_copy(update={"training": training, "model": changed})


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    (tmp_path / "nothing" / "checkpoints").mkdir(parents=True)
    config = RunConfig(training=TrainingConfig(init_from=str(tmp_path / "nothing")))
    with pytest.raises(DataError, match=r"--init-from=.*nothing: no checkpoint"):
        find_warm_start(config)


def test_losses_and_rates_may_differ_and_networks_may_not(two_steps):
    found = find_warm_start(asking(two_steps, learning_rate=1e-4, loss_weights={"shape": 3.0}))
    assert found.path.name == "step-000000002.npz"
    with pytest.raises(ConfigError, match="networks is smoke, here mini"):
        find_warm_start(asking(two_steps, networks=find_preset("mini").networks))
    with pytest.raises(ConfigError, match=r"ema_decay is 0\.99, here 0\.0"):
        find_warm_start(asking(two_steps, ema_decay=0.0))


def test_the_first_checkpoint_holds_what_the_other_run_learned(
    two_steps, tmp_path, run_cloudgan, saved_arrays
):
    config, run = two_steps / "config.yaml", tmp_path / "b"
    flags = (f"--config={config}", f"--run={run}", f"--init-from={two_steps / 'run'}")
    run_cloudgan("train", *flags, "--max-steps=1")
    learned, begun = saved_arrays(two_steps / "run", 2), saved_arrays(run, 0)
    for name in learned:
        np.testing.assert_array_equal(begun[name], learned[name], err_msg=name)
    after = saved_arrays(run, 1)
    assert any(np.any(after[name] != begun[name]) for name in after)


def test_a_folder_that_is_none_starts_nothing(two_steps, tmp_path, cloudgan_here):
    run = tmp_path / "c"
    flags = (f"--config={two_steps / 'config.yaml'}", f"--run={run}", "--init-from=nothing")
    done = cloudgan_here("train", *flags, exits=2)
    assert "there is no run nothing" in done.stderr
    assert not run.exists()
