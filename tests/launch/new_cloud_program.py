"""Adds a cloud: a row of clouds, one of machines and a planner module, then runs `cloudgan` with the words of each argument."""

import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

from cloudgan.core import clouds, machines

clouds.CLOUDS["nimbus"] = clouds.Cloud(
    title="Nimbus",
    extra="nimbus",
    packages=("nimbus",),
    account_flag="project",
    home_region="sky1",
    zone_suffix=r"-[a-z]$",
    bucket_scheme="nimbus",
    bucket_example="nimbus://BUCKET/prefix",
    metadata_url="http://169.254.169.254",
    pod_endpoints=(),
    billing=(),
    planner="__main__",
)
MACHINES = tempfile.NamedTemporaryFile("w", suffix=".csv")  # noqa: SIM115  until the program ends
V100 = next(
    one
    for one in machines.TABLE.read_text().splitlines()
    if one.startswith("gcp,n1-standard-8+1xV100,")
)
MACHINES.write(
    machines.TABLE.read_text() + V100.replace("gcp,n1-standard-8+1xV100,", "nimbus,n-v100,") + "\n"
)
MACHINES.flush()
machines.TABLE = Path(MACHINES.name)

from cloudgan.launch.clouds.planner import desired_state_step
from cloudgan.schema.plan import NodePool, Step, Target


def target(account, region, zone, cluster):
    """The functions of `CloudPlanner`: of this cloud, a node pool and a bucket suffice."""
    return Target(
        provider="nimbus",
        namespace="cloudgan",
        account=account or "<project>",
        region=region,
        zone=zone or f"{region}-a",
        cluster=cluster or "cloudgan",
        service_account="cloudgan",
    )


def node_pool(wanted):
    name = f"{wanted.run}-{wanted.spec_hash}"[:40]
    return NodePool(node_type=wanted.node_type, market=wanted.market, name=name)


def workers(given, pool):
    return given


def store_url(place):
    return f"nimbus://cloudgan-{place.region}"


def steps(plan):
    pool = Step(ensure=f"node pool {plan.node_pool.name}", method="POST", path="/pools", at="cloud")
    return (desired_state_step(plan), pool)


def setup_steps(place):
    return ()


if __name__ == "__main__":
    from cloudgan.cli.main import main

    found = []
    for words in sys.argv[1:]:
        out, code = io.StringIO(), 0
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                main(words.split())
            except SystemExit as ended:
                code = ended.code or 0
        found.append((code, out.getvalue()))
    print(json.dumps(found))
