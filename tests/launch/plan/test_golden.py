"""The manifests of a plan as a file to read, and those of others: valid in old and new clusters."""

import json
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from launch.plan.write_golden import FOLDER, GOLDEN, PLANS, plan, render

ROOT = Path(__file__).parents[3]
NAMES = sorted(PLANS)
NEWEST = kubernetes_validate.latest_version()
VERSIONS = ("1.30", "1.32", NEWEST)
SHIPPED = sorted([*(ROOT / "k8s").glob("*.yaml"), *(ROOT / "deploy" / "kubernetes").glob("*.yaml")])


def documents(text):
    return list(yaml.safe_load_all(text))


def validate(body, version):
    kubernetes_validate.validate(body, version, strict=True)


def knows_gangs(version):
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "x"}]}
    body["spec"] = {"template": {"spec": pod}, "scheduling": {}}
    try:
        validate(body, version)
    except kubernetes_validate.ValidationError:
        return False
    return True


def test_a_plan_yields_the_golden_manifests():
    golden = (FOLDER / f"{GOLDEN}.yaml").read_text(encoding="utf-8")
    assert render(GOLDEN) == golden, "if the change is intended: make golden, and read the diff"


def pairs():
    """A plan has a gang only where the cluster's API has them."""
    for version in VERSIONS:
        gangs = knows_gangs(version)
        yield from ((name, version) for name in NAMES if gangs or name != "gang")


@pytest.mark.parametrize(("name", "version"), list(pairs()))
def test_a_plan_is_valid_in_old_and_new_clusters(name, version):
    for body in documents(render(name)):
        validate(body, version)


def test_the_newest_kubernetes_has_gangs():
    assert knows_gangs(NEWEST), "else nothing proves the field of the gang"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_shipped_manifests_are_valid(path, version):
    bodies = documents(path.read_text(encoding="utf-8"))
    assert bodies
    for body in bodies:
        validate(body, version)


def test_validation_is_strict():
    (body,) = documents((ROOT / "k8s" / "service.yaml").read_text(encoding="utf-8"))
    body["spec"]["publishNotReadyAdresses"] = True
    with pytest.raises(kubernetes_validate.ValidationError, match="publishNotReadyAdresses"):
        validate(body, NEWEST)


def test_no_plan_is_larger_than_a_config_map_can_be():
    """A ConfigMap holds 1 MiB; the plan in it holds the other objects, and the program twice."""
    for name in NAMES:
        made = plan(name)
        data = made.steps[1].body["data"] | {"plan.json": made.model_dump_json()}
        assert len(json.dumps(data)) < 2**20 / 4
