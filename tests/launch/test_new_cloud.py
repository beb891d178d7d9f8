"""A cloud is one row of `core.clouds.CLOUDS` and one package: help, schema, prices and plan follow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cloudgan.money.catalog import shipped_catalog, write_refreshed

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "new_cloud_program.py"


@pytest.fixture
def run_extended(tmp_path):
    """Runs cloudgan with the additional cloud, whose price list has one node type."""
    row = shipped_catalog().find(provider="gcp", accelerator="V100", market="on_demand")[0]
    own = {"provider": "nimbus", "node_type": "n-v100", "region": "sky1", "usd_per_hour": 1.25}
    write_refreshed(tmp_path / "prices", "nimbus", [row.model_copy(update=own)])

    def run(*words, exits=0):
        done = subprocess.run(
            [sys.executable, str(PROGRAM), *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"CLOUDGAN_DATA": str(tmp_path)},
        )
        assert done.returncode == exits, done.stdout + done.stderr
        return done.stdout + done.stderr if exits else done.stdout

    return run


def test_help_and_json_schema_name_the_new_cloud(run_extended):
    assert "nimbus" in run_extended("deploy", "--help")
    assert "nimbus" in run_extended("check", "--help")
    schema = json.loads(run_extended("schema", "plan.json"))
    assert "nimbus" in schema["$defs"]["Target"]["properties"]["provider"]["enum"]


def test_offers_and_plan_use_the_new_cloud(run_extended):
    offers = json.loads(run_extended("offers", "--provider=nimbus", "--json"))
    assert "n-v100" in json.dumps(offers)
    words = ("--accelerator=v100", "--data=nimbus://lab/showers", "--epochs=2", "--json")
    plan = json.loads(run_extended("plan", "--provider=nimbus", *words))
    plan = plan.get("plan", plan)
    assert plan["target"]["provider"] == "nimbus"
    assert plan["node_pool"]["node_type"] == "n-v100"
    assert plan["store"] == "nimbus://cloudgan-sky1"
    assert any(step["path"] == "/pools" for step in plan["steps"])


def test_what_the_new_cloud_lacks_is_named_and_starts_nothing(run_extended):
    words = ("deploy", "--provider=nimbus", "--accelerator=v100", "--data=nimbus://lab/x", "--yes")
    assert "Nimbus supports `cloudgan plan` only" in run_extended(*words, exits=2)
