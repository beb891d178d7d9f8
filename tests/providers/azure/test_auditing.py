"""Doctor, setup and check on the stand-in of Azure: what is generic meets a cloud's own things."""

from __future__ import annotations

import pytest

from azure_cloud.cloud import SUBSCRIPTION
from cloudgan.auditing.account import Account, torn_down
from cloudgan.auditing.checking import check_cloud
from cloudgan.auditing.clearing import Clearer
from cloudgan.auditing.daily_cost import Tariff
from cloudgan.auditing.survey import Surveyor
from cloudgan.core.clock import utc_moment, utc_today
from cloudgan.cost.catalog import load_catalog
from cloudgan.cost.fees import load_fees
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.starting import start
from cloudgan.providers.azure import requests
from cloudgan.providers.clouds import of_login
from cloudgan.run_folder import RunFolder
from cloudgan.stores import open_store
from providers.azure.lab import REGION, plan_for


@pytest.fixture
def surveyor(lab):
    cloud = lab.cloud()
    place = of_login(requests.place(None, REGION, None, None), cloud.identify())
    return Surveyor(
        cloud,
        place,
        opened=lambda where, store: lab.provider(),
        open_store=lambda url: open_store(str(lab.folder / "store")),
    )


def states(survey):
    return {thing.kind: standing.state for thing, standing in survey.things}


def test_doctor_tells_what_a_run_needs_from_what_it_left_and_clears_that(lab, surveyor):
    plan = lab.plan(nodes=2)
    ledger = Ledger(RunFolder(lab.folder / "runs" / plan.run), plan)
    start(plan, lab.provider(), ledger, lab.said.append)
    assert surveyor.place.account == SUBSCRIPTION
    assert set(states(surveyor.survey(utc_moment())).values()) == {"expected"}
    tariff = Tariff(load_catalog(), load_fees())
    survey = surveyor.survey(utc_moment())
    usd = {one.kind: tariff.usd_per_day("azure", one) for one, _ in survey.things}
    assert usd["AKS pool"] == pytest.approx(24 * 2 * plan.price.usd_per_hour)
    assert usd["AKS system pool"] == pytest.approx(24 * 0.146)
    api = lab.cloud().cluster(plan)
    api.delete("/apis/batch/v1/namespaces/cloudgan/jobs/gan")
    survey = surveyor.survey(utc_moment())
    found = states(survey)
    left = {kind for kind, state in found.items() if state == "left"}
    assert left == {"AKS pool", "AKS cluster", "AKS system pool"}
    assert list(Clearer(surveyor, lab.said.append, 0.002).clear(survey, utc_moment()))
    assert set(states(surveyor.survey(utc_moment())).values()) == {"expected"}
    assert lab.azure.aks.clusters == {}


def test_setup_is_made_once_and_a_teardown_keeps_the_bucket_and_what_holds_it(lab, surveyor):
    account = Account(surveyor.cloud, lab.said.append, 0.002)
    steps = requests.setup_steps(surveyor.place)
    assert [is_new for _, is_new in account.make(steps)] == [False] * len(steps), "the lab did it"
    things = torn_down(surveyor.survey(utc_moment()), everywhere=True, purge=False)
    assert {one.shared for one in things} == {"identity"}
    assert list(account.remove(things))
    left = {one.shared for one in lab.cloud().things()}
    assert left == {"bucket", "group"}
    assert any(is_new for _, is_new in account.make(steps)), "and it can be made again"
    things = torn_down(surveyor.survey(utc_moment()), everywhere=True, purge=True)
    assert list(account.remove(things))
    assert lab.cloud().things() == ()


def test_check_makes_nothing_and_says_whose_login_it_is(lab):
    before = lab.cloud().things()
    plan = plan_for(lab.plan_of, nodes=2)
    found = check_cloud(lab.cloud(), plan, None, utc_today())
    assert found[0].subject == "login"
    assert SUBSCRIPTION in found[0].says
    assert any(one.subject.startswith("quota") for one in found)
    assert found[-1].subject == f"price of {plan.price.offer}"
    assert lab.cloud().things() == before
