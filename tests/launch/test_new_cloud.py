"""A cloud is one row of `core.clouds.CLOUDS` and one package: help, schema, prices and plan follow."""

import json
import os
import subprocess
import sys
from pathlib import Path

from cloudgan.money.catalog import shipped_catalog, write_refreshed

PROGRAM = Path(__file__).parent / "new_cloud_program.py"
V100 = "--provider=nimbus --accelerator=v100"


def test_help_schema_offers_and_plan_use_the_new_cloud_and_what_it_lacks_is_named(tmp_path):
    row = shipped_catalog().find(provider="gcp", accelerator="V100", market="on_demand")[0]
    own = {"provider": "nimbus", "node_type": "n-v100", "region": "sky1", "usd_per_hour": 1.25}
    write_refreshed(tmp_path / "prices", "nimbus", [row.model_copy(update=own)])
    commands = (
        "deploy --help",
        "check --help",
        "schema plan.json",
        "offers --provider=nimbus --json",
        f"plan {V100} --data=nimbus://lab/showers --epochs=2 --json",
        f"deploy {V100} --data=nimbus://lab/x --yes",
    )
    done = subprocess.run(
        [sys.executable, PROGRAM, *commands],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"CLOUDGAN_DATA": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    codes, (deploy, check, schema, offers, plan, refused) = zip(
        *json.loads(done.stdout), strict=True
    )
    assert codes == (0, 0, 0, 0, 0, 2), done.stdout
    assert "nimbus" in deploy
    assert "nimbus" in check
    known = json.loads(schema)["$defs"]["Target"]["properties"]["provider"]["enum"]
    assert "nimbus" in known
    assert "n-v100" in offers
    made = json.loads(plan)
    assert made["target"]["provider"] == "nimbus"
    assert made["node_pool"]["node_type"] == "n-v100"
    assert made["store"] == "nimbus://cloudgan-sky1"
    assert any(step["path"] == "/pools" for step in made["steps"])
    assert "Nimbus supports `cloudgan plan` only" in refused, "nothing is started"
