"""Reservations of Google Cloud: queries before a launch, and requests."""

import pytest

from cloudgan.core.errors import CredentialsError
from emulators.gcp.refusal import Refusal
from launch.clouds.gcp.lab import gcp_plan


def reserved(name="week", node_type="g2-standard-4", **others):
    return gcp_plan(node_type, reservation=name, **others)


def test_the_pool_uses_only_the_reservation_and_no_other_zone_is_tried(lab, google, cloud):
    google.compute.reserve("week", "g2-standard-4", 2, "us-central1-b")
    plan = lab.make(reserved(nodes=2))
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


def test_a_reservation_that_another_project_shares_is_named_in_full(lab, google):
    google.compute.reserve("week", "g2-standard-4", 1, "us-central1-a")
    shared = "projects/owner-1/reservations/week"
    lab.make(reserved(shared))
    (pool,) = google.engine.pools()
    assert pool["config"]["reservationAffinity"]["values"] == [shared]
    asked = [one.path for one in google.server.seen if one.method.endswith("aggregatedList")]
    assert asked[-1].endswith("/projects/owner-1/aggregated/reservations")


def test_a_login_that_may_not_list_the_owners_reservations_is_an_error(lab, google):
    google.server.refuse(
        "compute.reservations.aggregatedList", Refusal(403, "compute.reservations.list denied")
    )
    with pytest.raises(CredentialsError, match=r"compute\.reservations\.list"):
        lab.resolved(reserved("projects/owner-1/reservations/week"))


def test_machines_that_are_not_sold_on_demand_can_be_reserved():
    assert reserved(node_type="a3-ultragpu-8g").node_pool.reservation == "week"


LITE = "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT5LP"


def test_a_tpu_vm_names_its_reservation_in_its_own_zone(lab, google):
    google.compute.reserve_tpus("chips", LITE, 8, "us-central1-b")
    lab.make(reserved("chips", "v5litepod-8"))
    (made,) = google.tpus.resources.values()
    assert made["reservationName"] == "projects/lab/locations/us-central1-b/reservations/chips"


def test_the_quota_of_reserved_machines_is_not_asked_for(lab, google, cloud):
    google.compute.quotas["NVIDIA_L4_GPUS"] = 0.0
    google.compute.reserve("week", "g2-standard-4", 1, "us-central1-b")
    plan = lab.resolved(reserved())
    found = {one.subject: one.status for one in cloud.check(plan)}
    assert found["reservation week"] == "ok"
    assert not [one for one in found if one.startswith("quota")]
    pool = plan.node_pool.model_copy(update={"reservation": None})
    others = cloud.check(plan.model_copy(update={"node_pool": pool}))
    assert [one.is_quota for one in others if one.status == "missing"] == [True]
