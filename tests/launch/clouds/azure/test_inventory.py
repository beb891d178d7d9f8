"""Doctor, setup and check on the emulated Azure: generic code with the resources of one cloud."""

import pytest

from cloudgan.core.clock import utc_moment
from cloudgan.launch.clouds.azure import planner as requests
from cloudgan.launch.clouds.planner import with_login
from cloudgan.launch.operations.doctor import DailyCostModel, collect
from cloudgan.launch.operations.inventory import InventoryScanner
from cloudgan.money.catalog import load_catalog
from cloudgan.money.fees import load_fees
from cloudgan.storage.folder import FolderStore
from emulators.azure.cloud import SUBSCRIPTION
from launch.clouds.azure.lab import REGION
from waiting import until


class Container(FolderStore):
    """A folder at the address of a container: doctor refuses desired states that name another store."""

    def __init__(self, folder, address):
        super().__init__(folder)
        self.address = address

    @property
    def url(self):
        return self.address


@pytest.fixture
def scanner(whole_lab, monkeypatch):
    lab, cloud = whole_lab, whole_lab.cloud()
    opened = {
        "open_backend": lambda where, store: lab.launcher(),
        "open_store": lambda url: Container(lab.folder / "store", url),
    }
    for name, double in opened.items():
        monkeypatch.setattr(f"cloudgan.launch.operations.inventory.{name}", double)
    target = with_login(requests.target(None, REGION, None, None), cloud.identify())
    return InventoryScanner(cloud, target)


def states(survey):
    return {resource.kind: standing.state for resource, standing in survey.resources}


def test_doctor_separates_what_a_run_needs_from_what_it_left_and_deletes_the_latter(
    whole_lab, scanner
):
    lab, surveyor, plan = whole_lab, scanner, whole_lab.deploy(nodes=2)
    assert surveyor.target.account == SUBSCRIPTION
    assert set(states(surveyor.scan(utc_moment())).values()) == {"expected"}
    tariff = DailyCostModel(load_catalog(), load_fees())
    survey = surveyor.scan(utc_moment())
    usd = {one.kind: tariff.usd_per_day("azure", one) for one, _ in survey.resources}
    assert usd["AKS pool"] == pytest.approx(24 * 2 * plan.price.usd_per_hour)
    assert usd["AKS system pool"] == pytest.approx(24 * 0.096)
    api = lab.cloud().cluster_api(plan.target)
    job = "/apis/batch/v1/namespaces/cloudgan/jobs/gan"
    api.delete(job)
    until(lambda: api.get(job) is None, "the deletion of the Job")
    survey = surveyor.scan(utc_moment())
    found = states(survey)
    left = {kind for kind, state in found.items() if state == "orphaned"}
    assert left == {"AKS pool", "AKS cluster", "AKS system pool"}
    assert list(collect(surveyor, survey, lab.said.append, 0.002))
    assert set(states(surveyor.scan(utc_moment())).values()) == {"expected"}
    assert lab.left() == []
