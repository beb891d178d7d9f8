import json

import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.worker.pod_environment import Peers, read_pod_environment


def test_the_environment_of_a_pod_is_read(team):
    two = team(2)
    place = read_pod_environment(two.environment(1).get)
    assert (place.peers.index, place.peers.world, place.run) == (1, 2, "run-1")
    assert place.run_url == f"{two.store}/runs/run-1"
    assert place.folder.path == two.root / "work-1" / "runs" / "run-1"


def test_a_store_folder_becomes_absolute_and_a_url_stays(team):
    one = team(1)
    bucket = read_pod_environment(one.environment(0, CLOUDGAN_STORE="gs://bucket/here/").get)
    assert bucket.run_url == "gs://bucket/here/runs/run-1"
    assert read_pod_environment(
        one.environment(0, CLOUDGAN_STORE="there").get
    ).store_url.startswith("/")


def test_all_missing_variables_are_named():
    with pytest.raises(ConfigError) as raised:
        read_pod_environment({"CLOUDGAN_WORLD": "2"}.get)
    for name in ("JOB_COMPLETION_INDEX", "CLOUDGAN_PEERS", "CLOUDGAN_STORE", "cloudgan train"):
        assert name in str(raised.value)
    assert "CLOUDGAN_WORLD" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CLOUDGAN_WORLD", "two", "CLOUDGAN_WORLD is 'two'"),
        ("JOB_COMPLETION_INDEX", "-1", "JOB_COMPLETION_INDEX is '-1'"),
        ("CLOUDGAN_CONFIG", "absent.yaml", "absent"),
        ("CLOUDGAN_CLOUD", "mars", "CLOUDGAN_CLOUD is 'mars'; valid: aws, azure"),
        ("CLOUDGAN_SECRET_FILE", "", "several workers need the secret of their run"),
    ],
)
def test_an_invalid_variable_is_named(team, name, value, said):
    with pytest.raises(ConfigError, match=said):
        read_pod_environment(team(2).environment(0, **{name: value}).get)


def test_a_single_worker_needs_no_secret_and_a_preexisting_node_has_no_cloud(team):
    pod = read_pod_environment(team(1).environment(0, CLOUDGAN_SECRET_FILE="").get)
    assert (pod.secret, pod.cloud) == (None, None)
    assert read_pod_environment(team(1).environment(0, CLOUDGAN_CLOUD="aws").get).cloud == "aws"


def strategy(one, asked):
    document = json.loads(one.config.read_text())
    one.config.write_text(json.dumps(document | {"training": {"strategy": asked}}))
    return read_pod_environment(one.environment(0).get).config.training


def test_a_single_process_strategy_is_refused_for_several_workers(team):
    with pytest.raises(
        ConfigError, match=r"'mirrored' in run\.yaml has one process, but the run has 2"
    ):
        strategy(team(2), "mirrored")
    assert strategy(team(1), "mirrored").strategy == "mirrored"


def test_a_single_worker_has_strategy_auto(team):
    assert strategy(team(1), "multiworker").strategy == "auto"
    assert strategy(team(2), "multiworker").strategy == "multiworker"


def test_each_worker_trains_in_one_process_of_the_same_run(team):
    two = team(2, training={"workers": 2})
    config = read_pod_environment(two.environment(0).get).config
    assert config.training.workers == 1
    assert config.data.path == str(two.root / "showers")


TEMPLATE = "run-1-{index}.run-1:2222"


def test_a_template_expands_and_the_control_port_is_the_next_one():
    peers = Peers.parse(TEMPLATE, world=3, index=2)
    assert peers.addresses == ("run-1-0.run-1:2222", "run-1-1.run-1:2222", "run-1-2.run-1:2222")
    assert peers.control(0) == ("run-1-0.run-1", 2223)
    assert (peers.is_chief, Peers.parse(TEMPLATE, world=3, index=0).is_chief) == (False, True)


def test_a_list_has_one_address_per_worker():
    peers = Peers.parse("127.0.0.1:4001, 127.0.0.1:4101", world=2, index=0)
    assert [peers.control(index)[1] for index in range(2)] == [4002, 4102]


def test_tf_config_describes_the_cluster_except_for_a_single_worker():
    found = json.loads(Peers.parse(TEMPLATE, world=2, index=1).tf_config())
    assert found["cluster"] == {"worker": ["run-1-0.run-1:2222", "run-1-1.run-1:2222"]}
    assert found["task"] == {"type": "worker", "index": 1}
    assert Peers.parse(TEMPLATE, world=1, index=0).tf_config() is None


@pytest.mark.parametrize(
    ("text", "world", "index", "said"),
    [
        (TEMPLATE, 0, 0, "at least 1"),
        (TEMPLATE, 2, 2, "valid: 0 to 1"),
        ("a:1,b:1", 3, 0, "has 2 addresses, but CLOUDGAN_WORLD is 3"),
        ("a:1,a:1", 2, 0, "has 1 addresses"),
        ("same:2222", 2, 0, "has 1 addresses"),
        ("run-{index}", 2, 0, "not an address such as host:2222"),
        ("run-{index}:x", 2, 0, "not an address"),
        ("run-{index}:65535", 2, 0, "valid: 1 to 65534"),
    ],
)
def test_invalid_addresses_are_refused(text, world, index, said):
    with pytest.raises(ConfigError, match=said):
        Peers.parse(text, world=world, index=index)


def test_a_pod_listens_on_all_interfaces_and_a_local_worker_on_loopback():
    assert Peers.parse(TEMPLATE, world=1, index=0).listening_host() == ""
    assert Peers.parse("127.0.0.1:4001", world=1, index=0).listening_host() == "127.0.0.1"
    assert Peers.parse("[::1]:4001", world=1, index=0).listening_host() == "::1"
