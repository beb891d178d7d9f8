"""A deploy to Cloud TPU that is killed at any API call leaves only resources that `down` finds.

There is no trainer: the VMs never start.
"""

import contextlib
import itertools

import pytest

from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.launch.plan.build import all_steps
from cloudgan.schema.plan import fill_placeholders
from cloudgan.schema.run_folder import RunFolder
from crashing import AT_EACH, DIED, moments, run_killed
from launch.backends.tpu_vm.lab import cloud_of, planned, provider, tpus


class Lab:
    def __init__(self, google, folder):
        self.google, self.folder = google, folder
        self.store = str(folder / "store")

    def provider(self):
        """Returns the backend as a new process opens it."""
        return provider(self.google.server.url, self.store)

    def deploy(self):
        plan = planned()
        plan = fill_placeholders(plan, cloud_of(self.google.server.url).resolve_placeholders(plan))
        plan = plan.model_copy(update={"steps": all_steps(plan), "store": self.store})
        asked = self.provider()
        asked.check(plan)
        ledger = LaunchLog(RunFolder(self.folder / "runs" / plan.run), plan)
        apply(plan, asked, ledger, lambda _: None)

    def exists(self):
        return sorted([*self.google.resources, *self.google.nodes])

    def found(self):
        """Returns the run resources that a new process finds."""
        resources = cloud_of(self.google.server.url).list_resources()
        return sorted(one.name for one in resources if one.run)


@pytest.fixture
def lab_of(tmp_path):
    number = itertools.count()

    @contextlib.contextmanager
    def opened():
        folder = tmp_path / str(next(number))
        folder.mkdir()
        with tpus() as google:
            yield Lab(google, folder)

    return opened


@AT_EACH
def test_resources_of_a_deploy_killed_at_any_call_are_found_and_deleted(lab_of, capsys, at_each):
    with lab_of() as lab:
        whole = run_killed(lab.deploy, lab.folder)
        assert whole.code == 0, whole.said
        assert len(lab.exists()) == 2
        list(lab.provider().destroy("gan"))
        assert lab.exists() == []
    crashes = moments(whole.calls, at_each=at_each)
    found = 0
    for number, when in crashes:
        with lab_of() as lab:
            outcome = run_killed(lab.deploy, lab.folder, number, when)
            assert outcome.code == DIED, outcome.said
            queued = [name for name in lab.exists() if "/queuedResources/" in name]
            assert lab.found() == queued, f"call {number} {when}: {outcome.calls[-1]}"
            found += len(queued)
            list(lab.provider().destroy("gan"))
            assert lab.exists() == [], f"call {number} {when}: {outcome.calls[-1]}"
    assert found
    with capsys.disabled():
        print(
            f"\ngcp, TPU VM: {len(whole.calls)} calls, {len(crashes)} crashes, {found} leftovers"
            " found, 0 left after down"
        )


@pytest.mark.slow
def test_rerunning_a_killed_deploy_resumes_it(lab_of):
    with lab_of() as lab:
        calls = run_killed(lab.deploy, lab.folder).calls
        create = next(
            n for n, call in enumerate(calls) if call.startswith("POST") and "queued" in call
        )
        list(lab.provider().destroy("gan"))
    for when in ("before", "after"):
        with lab_of() as lab:
            assert run_killed(lab.deploy, lab.folder, create, when).code == DIED
            again = run_killed(lab.deploy, lab.folder)
            assert again.code == 0, again.said
            assert len(lab.exists()) == 2
            list(lab.provider().destroy("gan"))
            assert lab.exists() == []
