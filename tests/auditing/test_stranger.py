"""A plan made of labels alone: enough to find the cluster that can say whether a run is alive."""

from __future__ import annotations

from auditing.cloud_double import CloudDouble, RulesDouble
from cloudgan.auditing.stranger import plan_of_stranger


def test_it_names_the_run_and_where_its_cluster_is(tmp_path):
    account = RulesDouble(tmp_path).place("lab-1", "us-central1", None, None)
    account = account.model_copy(update={"details": {"cluster location": "<zone>"}})
    labels = {"cloudgan-spec": "abc", "cloudgan-run": "gan"}
    where = "europe-west4-b"
    parent = "projects/lab-1/locations/europe-west4-a/clusters/shared"
    thing = CloudDouble().add("pool", "x", "gan", region=where, parent=parent, labels=labels)
    plan = plan_of_stranger(thing, account, "europe-west4-a")
    assert (plan.run, plan.spec) == ("gan", "abc")
    place = plan.place
    assert (place.account, place.region, place.cluster) == ("lab-1", "europe-west4", "shared")
    assert place.details == {"cluster location": "europe-west4-a"}, "not where its nodes are"
