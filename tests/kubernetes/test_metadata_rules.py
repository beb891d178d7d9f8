"""Pods reach their own cloud's metadata service, and no other link-local address."""

from __future__ import annotations

import pytest

from cloudgan.kubernetes.manifests import job, manifests, trainer

AT = {
    "aws": [("169.254.169.254/32", 80), ("169.254.170.23/32", 80)],
    "azure": [("169.254.169.254/32", 80)],
    "gcp": [("169.254.169.254/32", 80), ("169.254.169.252/32", 988)],
}


def link_local(plan):
    (policy,) = (body for body in manifests(plan) if body["kind"] == "NetworkPolicy")
    return [
        (one["ipBlock"]["cidr"], rule["ports"][0]["port"])
        for rule in policy["spec"]["egress"]
        for one in rule.get("to", ())
        if "ipBlock" in one
    ]


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_rented_pods_know_their_cloud_and_reach_its_metadata(plan_of, cloud):
    plan = plan_of(place={"provider": cloud, "context": None})
    assert link_local(plan) == AT[cloud]
    variables = {one["name"]: one["value"] for one in trainer(job(plan))["env"]}
    assert variables["CLOUDGAN_CLOUD"] == cloud


@pytest.mark.parametrize(
    ("store", "cloud"),
    [
        ("gs://lab/gan", "gcp"),
        ("s3://lab/gan", "aws"),
        ("https://lab.blob.core.windows.net/gan", "azure"),
    ],
)
def test_on_a_cluster_that_was_there_the_store_says_where_the_login_is(plan_of, store, cloud):
    plan = plan_of(store=store)
    assert link_local(plan) == AT[cloud]
    assert "CLOUDGAN_CLOUD" not in {one["name"] for one in trainer(job(plan))["env"]}


def test_with_a_claim_no_cloud_is_reached(plan_of):
    assert link_local(plan_of(store="pvc:results", wheels=())) == []
