"""Reservations of Google Cloud: queries before a launch, and requests."""

from __future__ import annotations

import pytest

from cloudgan.core.errors import ConfigError, CredentialsError, LaunchError, PlanError
from cloudgan.launch.plan.build import all_steps
from emulators.gcp.refusal import Refusal
from launch.clouds.gcp.lab import cloud_steps, gcp_plan, known


def reserved(name="week", node_type="g2-standard-4", **others):
    return gcp_plan(node_type, reservation=name, **others)


def test_the_pool_uses_only_the_reservation_and_no_other_zone_is_tried(google, cloud, make):
    google.compute.reserve("week", "g2-standard-4", 2, "us-central1-b")
    plan = make(reserved(nodes=2))
    assert plan.target.zone == "us-central1-b"
    assert cloud.resolve_placeholders(reserved())["<zones>"] == "us-central1-b"
    (pool,) = google.engine.pools()
    assert pool["config"]["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["week"],
    }
    assert "reservation week" in plan.node_pool.notes[0]
    assert "spot" not in pool["config"]


def test_a_reservation_that_another_project_shares_is_named_in_full(google, cloud, make):
    google.compute.reserve("week", "g2-standard-4", 1, "us-central1-a")
    shared = "projects/owner-1/reservations/week"
    make(reserved(shared))
    (pool,) = google.engine.pools()
    assert pool["config"]["reservationAffinity"]["values"] == [shared]
    asked = [one.path for one in google.server.seen if one.method.endswith("aggregatedList")]
    assert asked[-1].endswith("/projects/owner-1/aggregated/reservations")


REFUSED = (
    (None, {}, "has no reservation week in us-central1"),
    ({"zone": "europe-west4-a"}, {}, "it is in europe-west4-a: give --zone"),
    ({}, {"zone": "us-central1-a"}, "no reservation week in us-central1-a; it is in us-central1-b"),
    ({"count": 3}, {"nodes": 4}, "has 3 free machines, and the run needs 4"),
    ({"used": 3}, {"nodes": 2}, "has 1 free machines, and the run needs 2"),
    ({"status": "CREATING"}, {}, "is creating"),
)


def test_a_reservation_that_cannot_serve_is_refused_before_anything_is_made(google, cloud):
    for there, asked, why in REFUSED:
        google.compute.reservations.clear()
        if there is not None:
            count, zone = there.get("count", 4), there.get("zone", "us-central1-b")
            made = google.compute.reserve("week", "g2-standard-4", count, zone)
            made["specificReservation"]["inUseCount"] = str(there.get("used", 0))
            made["status"] = there.get("status", "READY")
        with pytest.raises(PlanError, match=why):
            known(cloud, reserved(**asked))
    assert google.left() == []


def test_a_login_that_may_not_list_the_owners_reservations_is_an_error(google, cloud):
    google.server.refuse(
        "compute.reservations.aggregatedList", Refusal(403, "compute.reservations.list denied")
    )
    with pytest.raises(CredentialsError, match=r"compute\.reservations\.list"):
        known(cloud, reserved("projects/owner-1/reservations/week"))


@pytest.mark.parametrize("name", ["Week", "projects/p/week", "week/1", "w" * 64, "../x", ""])
def test_what_is_no_name_of_a_reservation_is_bad_input(name):
    with pytest.raises(ConfigError, match="projects/OWNER/reservations/NAME"):
        reserved(name or "-")


def test_machines_that_are_not_sold_on_demand_can_be_reserved():
    assert reserved(node_type="a3-ultragpu-8g").node_pool.reservation == "week"
    with pytest.raises(PlanError, match="--reservation=NAME of your own"):
        gcp_plan("a3-ultragpu-8g")


LITE = "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT5LP"


def test_a_tpu_vm_names_its_reservation_in_its_own_zone(google, cloud, make):
    google.compute.reserve_tpus("chips", LITE, 8, "us-central1-b")
    make(reserved("chips", "v5litepod-8", own_image=False))
    (made,) = google.tpus.resources.values()
    assert made["reservationName"] == "projects/lab/locations/us-central1-b/reservations/chips"


def test_reserved_chips_are_counted(google, cloud):
    google.compute.reserve_tpus("chips", LITE, 4, "us-central1-b")
    with pytest.raises(PlanError, match="has 4 free chips, and v5litepod-8 needs 8"):
        known(cloud, reserved("chips", "v5litepod-8", own_image=False))
    assert google.left() == []


def test_the_quota_of_reserved_machines_is_not_asked_for(google, cloud):
    google.compute.quotas["NVIDIA_L4_GPUS"] = 0.0
    google.compute.reserve("week", "g2-standard-4", 1, "us-central1-b")
    plan = known(cloud, reserved())
    found = {one.subject: one.status for one in cloud.check(plan)}
    assert found["reservation week"] == "ok"
    assert not [one for one in found if one.startswith("quota")]
    pool = plan.node_pool.model_copy(update={"reservation": None})
    others = cloud.check(plan.model_copy(update={"node_pool": pool}))
    assert [one.is_quota for one in others if one.status == "missing"] == [True]


def test_the_emulator_refuses_a_pool_whose_reservation_is_gone(google, cloud, make):
    google.compute.reserve("week", "g2-standard-4", 1, "us-central1-b")
    make(gcp_plan(name="other", zone="us-central1-b"))
    plan = known(cloud, reserved())
    google.compute.reservations.clear()
    step = cloud_steps(plan.model_copy(update={"steps": all_steps(plan)}))[-1]
    with pytest.raises(LaunchError, match="does not match the node pool"):
        cloud.create(step)
