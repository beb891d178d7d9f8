"""Reservations: how the nodes of a run use one; what cannot serve is refused before anything is made."""

import datetime as dt

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, PlanError
from cloudgan.launch.clouds.rows import look_up
from emulators.gcp.refusal import Refusal
from launch.clouds.aws.used_permissions import document
from launch.clouds.lab import AWS, AZURE, EACH, GCP, USUAL, of_cloud, planned, rows

CR, LITE = "cr-0123456789abcdef0", "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT5LP"
T4, SHARED = USUAL["azure"][0], {"cluster": "physics/shared", "reservation": "physics/week"}
ASKED = {"aws": {"reservation": CR}, "azure": SHARED, "gcp": {"reservation": "week"}}


def aws_has(**there):
    return lambda lab: lab.aws.state.reserve(CR, "g4dn.xlarge", 4, "us-east-1b", **there)


def google_has(count=4, zone="us-central1-b", used=0, status="READY"):
    def reserve(lab):
        made = lab.google.compute.reserve("week", "g2-standard-4", count, zone)
        made["specificReservation"]["inUseCount"], made["status"] = str(used), status

    return reserve


def google_has_chips(lab):
    lab.google.compute.reserve_tpus("week", LITE, 4, "us-central1-b")


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


def reserved(provider, node_type="", **others):
    return planned(provider, node_type, **ASKED[provider] | others)


RESERVE = {"aws": aws_has(), "azure": azure_has(), "gcp": google_has()}
USED = {
    "aws": (
        "us-east-1b",
        "CreateLaunchTemplate",
        "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget",
        {"CapacityReservationId": CR},
    ),
    "azure": (
        "2",
        "/agentPools/",
        "properties.capacityReservationGroupID",
        (
            "/subscriptions/00000000-0000-0000-0000-0000000000bb/resourceGroups/physics/providers"
            "/Microsoft.Compute/capacityReservationGroups/week"
        ),
    ),
    "gcp": (
        "us-central1-b",
        "/nodePools",
        "nodePool.config.reservationAffinity",
        {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": ["week"],
        },
    ),
}
"""Zone, the request that names the reservation, the place in it, and what is there."""


@EACH
def test_the_nodes_use_the_reservation_and_no_other_zone_is_tried(lab):
    RESERVE[lab.provider](lab)
    zone, request, place, used = USED[lab.provider]
    wanted = lab.planned(nodes=2, **ASKED[lab.provider])
    assert lab.cloud().resolve_placeholders(wanted)["<zones>"] == zone
    plan = lab.resolved(wanted)
    assert plan.target.zone == zone
    assert look_up(lab.step(request, plan).body, place) == used
    assert f"reservation {ASKED[lab.provider]['reservation']}" in plan.node_pool.notes[0]


@AWS
def test_a_capacity_block_has_its_market_type_and_an_unknown_price(lab):
    end = dt.datetime.now(dt.UTC) + dt.timedelta(hours=30)
    lab.reserve(1, "p5.48xlarge", ReservationType="capacity-block", EndDate=end)
    plan = lab.plan("p5.48xlarge", reservation=f"block:{CR}")
    sent = {step.method: step.body for step in of_cloud(plan)}
    data = sent["CreateLaunchTemplate"]["LaunchTemplateData"]
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert sent["CreateNodegroup"]["capacityType"] == "CAPACITY_BLOCK"
    assert list(sent).index("CreateLaunchTemplate") < list(sent).index("CreateCluster"), "free"
    assert plan.node_pool.prepaid
    assert "no API of AWS states its price" in plan.node_pool.notes[-1]


@AWS
def test_the_template_is_listed_with_the_run_and_deleted_after_the_nodes(lab):
    lab.reserve()
    cloud, plan = lab.cloud(), lab.resolved(reserved("aws"))
    template = lab.step("CreateLaunchTemplate", plan)
    cloud.create(template)
    cloud.create(template)  # a lost response
    (found,) = cloud.list_resources("gan")
    assert (found.kind, found.is_free) == ("EC2 launch template", True)
    assert cloud.refresh(found) == found
    cloud.delete(found)
    cloud.delete(found)
    assert cloud.refresh(found) is None
    assert lab.left() == []


def test_another_reservation_of_the_same_run_has_another_template():
    plans = (reserved("aws", reservation=name) for name in (CR, "cr-0000000000000001"))
    templates = [
        step.ref["name"]
        for plan in plans
        for step in of_cloud(plan)
        if step.method == "CreateLaunchTemplate"
    ]
    assert len(set(templates)) == 2


@AWS
def test_a_launcher_without_the_policy_for_reservations_is_refused_before_the_cluster(lab):
    lab.reserve()
    plan = lab.resolved(reserved("aws"))
    lab.aws.grants = [document("policy.json")]
    with pytest.raises(CredentialsError, match="CreateLaunchTemplate"):
        lab.cloud().create(lab.step("CreateLaunchTemplate", plan))
    assert lab.left() == []


@AWS
def test_a_node_group_of_a_template_has_its_instance_type_which_eks_does_not_show(lab):
    lab.reserve()
    lab.make(reserved("aws"))
    (found,) = [one for one in lab.cloud().list_resources("gan") if one.kind == "EKS node group"]
    assert found.node_type == "g4dn.xlarge"


@AZURE
def test_a_group_without_reservations_is_refused_because_aks_would_ignore_it(lab):
    azure_has()(lab)
    plan = lab.plan(**SHARED)
    (machines,) = (one for one in lab.azure.arm.resources if "/capacityreservations/" in one)
    del lab.azure.arm.resources[machines]
    with pytest.raises(PlanError, match="has no capacity reservation in it"):
        lab.plan(**SHARED)
    pool = lab.step("/agentPools/", plan)
    lab.cloud().create(pool)
    made = lab.azure.arm.resources[pool.path.partition("?")[0].lower()]
    assert "capacityReservationGroupID" not in made.body["properties"], "as on Azure"


@GCP
def test_a_reservation_that_another_project_shares_is_named_in_full(lab):
    google_has(1, "us-central1-a")(lab)
    shared = "projects/owner-1/reservations/week"
    lab.make(reserved("gcp", reservation=shared))
    (pool,) = lab.google.engine.pools()
    assert pool["config"]["reservationAffinity"]["values"] == [shared]
    asked = [one.path for one in lab.google.server.seen if one.method.endswith("aggregatedList")]
    assert asked[-1].endswith("/projects/owner-1/aggregated/reservations")


@GCP
def test_a_login_that_may_not_list_the_owners_reservations_is_an_error(lab):
    denied = Refusal(403, "compute.reservations.list denied")
    lab.google.server.refuse("compute.reservations.aggregatedList", denied)
    with pytest.raises(CredentialsError, match=r"compute\.reservations\.list"):
        lab.plan(reservation="projects/owner-1/reservations/week")


def test_machines_that_are_not_sold_on_demand_can_be_reserved():
    assert reserved("gcp", "a3-ultragpu-8g").node_pool.reservation == "week"


@GCP
def test_a_tpu_vm_names_its_reservation_in_its_own_zone(lab):
    lab.google.compute.reserve_tpus("chips", LITE, 8, "us-central1-b")
    lab.make(reserved("gcp", "v5litepod-8", reservation="chips"))
    (made,) = lab.google.tpus.resources.values()
    assert made["reservationName"] == "projects/lab/locations/us-central1-b/reservations/chips"


@GCP
def test_the_quota_of_reserved_machines_is_not_asked_for(lab):
    lab.google.compute.quotas["NVIDIA_L4_GPUS"] = 0.0
    google_has(1)(lab)
    cloud, plan = lab.cloud(), lab.resolved(reserved("gcp"))
    found = {one.subject: one.status for one in cloud.check(plan)}
    assert found["reservation week"] == "ok"
    assert not [one for one in found if one.startswith("quota")]
    pool = plan.node_pool.model_copy(update={"reservation": None})
    others = cloud.check(plan.model_copy(update={"node_pool": pool}))
    assert [one.is_quota for one in others if one.status == "missing"] == [True]
