"""Reservations that cannot serve a run are refused before anything is made."""

import pytest

from cloudgan.core.errors import ConfigError, PlanError
from launch.clouds.lab import planned, rows

CR = "cr-0123456789abcdef0"
T4, SHARED = "Standard_NC4as_T4_v3", {"cluster": "physics/shared", "reservation": "physics/week"}


def aws_has(**there):
    return lambda lab: lab.aws.state.reserve(CR, "g4dn.xlarge", 4, "us-east-1b", **there)


def google_has(count=4, zone="us-central1-b", used=0, status="READY"):
    def reserve(lab):
        made = lab.google.compute.reserve("week", "g2-standard-4", count, zone)
        made["specificReservation"]["inUseCount"], made["status"] = str(used), status

    return reserve


def google_has_chips(lab):
    family = "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT5LP"
    lab.google.compute.reserve_tpus("week", family, 4, "us-central1-b")


def azure_has(size=T4, count=4, used=0, kind="UserAssigned"):
    def reserve(lab):
        if kind:
            lab.share_cluster(kind)
        lab.azure.arm.reserve("physics/week", size, count, used=used)

    return reserve


NEEDS_IDENTITY = "user-assigned identity"
UNFIT = (
    ("aws", "none", lambda _: None, {}, f"has no capacity reservation {CR} in us-east-1"),
    ("aws", "zone", aws_has(), {"zone": "us-east-1a"}, "is in us-east-1b: give --zone=us-east-1b"),
    ("aws", "count", aws_has(AvailableInstanceCount=1), {"nodes": 2}, "has 1 free instances, and the run needs 2"),
    ("aws", "state", aws_has(State="expired"), {}, "is expired, not active"),
    ("azure", "size", azure_has("Standard_NC64as_T4_v3"), {}, "is of Standard_NC64as_T4_v3, and the run needs"),
    ("azure", "count", azure_has(count=1), {"nodes": 2}, "has 1 free machines, and the run needs 2"),
    ("azure", "used", azure_has(used=3), {"nodes": 2}, "has 1 free machines, and the run needs 2"),
    ("azure", "zone", azure_has(), {"zone": "1"}, "is in zone 2, not in --zone=1"),
    ("azure", "none", azure_has(), {"reservation": "physics/other"}, "has no capacity reservation group physics/other"),
    ("azure", "system identity", azure_has(kind="SystemAssigned"), {}, NEEDS_IDENTITY),
    ("azure", "no cluster", azure_has(kind=None), {}, NEEDS_IDENTITY),
    ("gcp", "none", lambda _: None, {}, "has no reservation week in us-central1"),
    ("gcp", "region", google_has(zone="europe-west4-a"), {}, "it is in europe-west4-a: give --zone"),
    ("gcp", "zone", google_has(), {"zone": "us-central1-a"}, "no reservation week in us-central1-a; it is in us-central1-b"),
    ("gcp", "count", google_has(3), {"nodes": 4}, "has 3 free machines, and the run needs 4"),
    ("gcp", "used", google_has(used=3), {"nodes": 2}, "has 1 free machines, and the run needs 2"),
    ("gcp", "state", google_has(status="CREATING"), {}, "is creating"),
    ("gcp", "chips", google_has_chips, {"node_type": "v5litepod-8"}, "has 4 free chips, and v5litepod-8 needs 8"),
)  # fmt: skip
ASKED = {"aws": {"reservation": CR}, "azure": SHARED, "gcp": {"reservation": "week"}}


@pytest.mark.parametrize(("lab", "reserve", "asked", "why"), rows(*UNFIT), indirect=["lab"])
def test_a_reservation_that_cannot_serve_is_refused_before_anything_is_made(
    lab, reserve, asked, why
):
    reserve(lab)
    before = lab.left()
    with pytest.raises(PlanError, match=why):
        lab.plan(**ASKED[lab.provider] | asked)
    assert lab.left() == before


NO_NAMES = {
    "aws": ("cr-0123456789abcdef0", "week cr- cr-XYZ block: block:week cr-0123/../x"),
    "azure": ("GROUP/NAME", "week a/b/c /week physics/ ../x a/.."),
    "gcp": (
        "projects/OWNER/reservations/NAME",
        f"Week projects/p/week week/1 {'w' * 64} ../x -",
    ),
}


@pytest.mark.parametrize(
    ("provider", "name"),
    [(cloud, name) for cloud, (_, names) in NO_NAMES.items() for name in names.split()],
)
def test_what_is_no_name_of_a_reservation_is_bad_input(provider, name):
    with pytest.raises(ConfigError, match=NO_NAMES[provider][0]):
        planned(provider, reservation=name)
