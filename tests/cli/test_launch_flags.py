"""The launch request from flags, without files and network."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.core.options import build
from cloudgan.launch.plan.request import LaunchRequest


def launch_flags(**given):
    return build(LaunchRequest, given, command="cloudgan deploy")


def test_the_default_is_one_process_of_this_machine():
    found = launch_flags()
    assert (found.provider, found.nodes, found.accelerator, found.store) == ("local", 1, None, None)
    assert (found.max_hours, found.effective_gang_timeout_seconds) == (24.0, 1200)


@pytest.mark.parametrize(
    ("text", "found"), [("v100", ("v100", 1)), ("v100:8", ("v100", 8)), ("A100-80GB:4", None)]
)
def test_an_accelerator_has_a_name_and_a_number(text, found):
    request = launch_flags(accelerator=text)
    assert (request.accelerator_name, request.accelerator_count) == (found or ("A100-80GB", 4))


@pytest.mark.parametrize("text", [":8", "v100:", "v100:0", "v100:-1", "v100:x", "v100:8:2"])
def test_an_invalid_accelerator_is_refused_with_an_example(text):
    with pytest.raises(ConfigError, match="such as v100 or v100:8"):
        launch_flags(accelerator=text)


def test_node_selectors_are_labels():
    assert launch_flags(node_selector="pool=gpu,disk=ssd").node_selector == {
        "pool": "gpu",
        "disk": "ssd",
    }
    assert launch_flags(node_selector="zone=").node_selector == {"zone": ""}
    for text in ("pool", "=gpu", "pool=gpu,disk"):
        with pytest.raises(ConfigError, match="write label=value, separated by commas"):
            launch_flags(node_selector=text)


def test_kubernetes_secrets_are_a_list_of_names():
    assert launch_flags(kubernetes_secrets="s3-login,ca,").kubernetes_secrets == ("s3-login", "ca")
    assert launch_flags().kubernetes_secrets == ()


@pytest.mark.parametrize("nodes", [0, -1])
def test_a_run_without_a_node_is_refused(nodes):
    with pytest.raises(ConfigError, match=f"--nodes={nodes}: expected at least 1"):
        launch_flags(nodes=nodes)


@pytest.mark.parametrize("flag", ["cpus", "memory_gib", "max_hours", "budget_usd"])
def test_a_limit_or_size_at_or_below_zero_is_refused(flag):
    for value in (0.0, -1.5):
        with pytest.raises(
            ConfigError, match=f"--{flag.replace('_', '-')}={value:g} must be above zero"
        ):
            launch_flags(**{flag: value})


def test_a_gang_timeout_needs_a_unit():
    assert launch_flags(gang_timeout="1h30m").effective_gang_timeout_seconds == 5400
    with pytest.raises(ConfigError, match="--gang-timeout takes a time such as"):
        launch_flags(gang_timeout="20")


def test_the_gang_timeout_of_slurm_is_a_week():
    assert launch_flags(provider="slurm").effective_gang_timeout_seconds == 7 * 24 * 3600
    assert launch_flags(provider="slurm", gang_timeout="1h").effective_gang_timeout_seconds == 3600
