"""Where and on what: what can be told without a file and a network."""

from __future__ import annotations

import pytest

from cloudgan.cli.launch_flags import launch_flags
from cloudgan.core.errors import ConfigError


def test_without_a_flag_a_run_is_one_process_of_this_machine():
    found = launch_flags()
    assert (found.provider, found.nodes, found.accelerator, found.store) == ("local", 1, None, None)
    assert (found.max_hours, found.gang_timeout_seconds) == (24.0, 1200)


@pytest.mark.parametrize(
    ("text", "found"), [("v100", ("v100", 1)), ("v100:8", ("v100", 8)), ("A100-80GB:4", None)]
)
def test_an_accelerator_has_a_name_and_a_number(text, found):
    assert launch_flags(accelerator=text).accelerator == (found or ("A100-80GB", 4))


@pytest.mark.parametrize("text", ["", ":8", "v100:", "v100:0", "v100:-1", "v100:x", "v100:8:2"])
def test_an_accelerator_that_is_none_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match="such as v100 or v100:8"):
        launch_flags(accelerator=text)


def test_nodes_are_chosen_by_labels():
    assert launch_flags(node_selector="pool=gpu,disk=ssd").node_selector == {
        "pool": "gpu",
        "disk": "ssd",
    }
    assert launch_flags(node_selector="zone=").node_selector == {"zone": ""}
    for text in ("pool", "=gpu", "pool=gpu,disk"):
        with pytest.raises(ConfigError, match="write label=value, parted by commas"):
            launch_flags(node_selector=text)


def test_secrets_are_names():
    assert launch_flags(secrets="s3-login,ca,").secrets == ("s3-login", "ca")
    assert launch_flags().secrets == ()


@pytest.mark.parametrize("nodes", [0, -1])
def test_a_run_without_a_node_is_refused(nodes):
    with pytest.raises(ConfigError, match=f"--nodes={nodes}: a run needs at least one node"):
        launch_flags(nodes=nodes)


@pytest.mark.parametrize("flag", ["cpus", "memory_gib", "max_hours", "budget_usd"])
def test_nothing_can_be_below_or_at_zero(flag):
    for value in (0.0, -1.5):
        with pytest.raises(ConfigError, match=f"--{flag}={value:g} must be above zero"):
            launch_flags(**{flag: value})


def test_a_time_has_a_unit():
    assert launch_flags(gang_timeout="1h30m").gang_timeout_seconds == 5400
    with pytest.raises(ConfigError, match="--gang_timeout takes a time such as"):
        launch_flags(gang_timeout="20")


def test_a_batch_queue_has_a_week():
    assert launch_flags(provider="slurm").gang_timeout_seconds == 7 * 24 * 3600
    assert launch_flags(provider="slurm", gang_timeout="1h").gang_timeout_seconds == 3600
