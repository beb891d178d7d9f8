"""Steps of edited plans, and names of resources; test_lifecycle.py has the rest."""

import pytest

from cloudgan.core.errors import LaunchError
from cloudgan.core.labels import RUN
from cloudgan.launch.clouds.client import CloudClient
from cloudgan.launch.clouds.rows import Kind, resolve
from cloudgan.schema.plan import Step

POOL = Kind(name="Nimbus pool", order=10, path="{region}/pools/{name}")


class NimbusClient(CloudClient):
    open = identify = resolve_placeholders = check = list_resources = cluster_api = None


STEP = Step(ensure="Nimbus pool gan", kind=POOL.name, method="POST", path="west/pools/gan", at="cloud")  # fmt: skip


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"kind": "Nimbus moon"}, "no resources of the kind 'Nimbus moon'"),
        ({"body": {"a": [{"$ref": "moon"}]}}, "no value called 'moon'"),
    ],
)
def test_a_step_of_an_edited_plan_is_refused_before_its_request(step, why):
    with pytest.raises(LaunchError, match=why):
        NimbusClient(None, (POOL,)).create(STEP.model_copy(update=step))


def test_names_and_references_are_the_same_thing():
    ref = {"region": "west", "name": "gan"}
    assert POOL.ref_of(POOL.name_of(ref)) == ref
    with pytest.raises(LaunchError, match=r"west/gan is no Nimbus pool: expected \{region\}/pools"):
        POOL.ref_of("west/gan")
    assert resolve({"a": ({"$ref": "b"}, 1)}, str.upper) == {"a": ["B", 1]}
    assert RUN not in resolve({"$ref": "x", "and": 1}, str.upper), "another key: no marker"
