"""A deploy to Cloud TPU that is killed at each single call is found whole, and goes whole.

There is no trainer: machines that nobody starts are what a crash leaves behind.
"""

from __future__ import annotations

import contextlib
import itertools

import pytest

from cloudgan.core.plan import filled
from cloudgan.launching.ledger import Ledger
from cloudgan.launching.starting import start
from cloudgan.planning.renting import all_steps
from cloudgan.run_folder import RunFolder
from crashing import AT_EACH, DIED, moments, run_killed
from providers.gcp.tpu_lab import cloud_of, planned, provider, tpus


class Lab:
    def __init__(self, google, folder):
        self.google, self.folder = google, folder
        self.store = str(folder / "store")

    def provider(self):
        """As a new process on any machine opens it."""
        return provider(self.google.server.url, self.store)

    def deploy(self):
        plan = planned()
        plan = filled(plan, cloud_of(self.google.server.url).known(plan))
        plan = plan.model_copy(update={"steps": all_steps(plan), "store": self.store})
        asked = self.provider()
        asked.check(plan)
        ledger = Ledger(RunFolder(self.folder / "runs" / plan.run), plan)
        start(plan, asked, ledger, lambda _: None)

    def exists(self):
        return sorted([*self.google.resources, *self.google.nodes])

    def found(self):
        """What a new process finds of runs; machines stand behind their request."""
        things = cloud_of(self.google.server.url).things()
        return sorted(one.name for one in things if one.run)


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
def test_a_deploy_that_is_killed_at_any_call_is_found_and_removed(lab_of, capsys, at_each):
    with lab_of() as lab:
        whole = run_killed(lab.deploy, lab.folder)
        assert whole.code == 0, whole.said
        assert len(lab.exists()) == 2
        list(lab.provider().remove("gan"))
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
            list(lab.provider().remove("gan"))
            assert lab.exists() == [], f"call {number} {when}: {outcome.calls[-1]}"
    assert found
    with capsys.disabled():
        print(
            f"\ngcp, TPU VM: {len(whole.calls)} calls, {len(crashes)} crashes, {found} leftovers"
            " found, 0 left after down"
        )


def test_a_deploy_that_was_killed_goes_on_when_it_is_given_again(lab_of):
    with lab_of() as lab:
        calls = run_killed(lab.deploy, lab.folder).calls
        create = next(
            n for n, call in enumerate(calls) if call.startswith("POST") and "queued" in call
        )
        list(lab.provider().remove("gan"))
    for when in ("before", "after"):
        with lab_of() as lab:
            assert run_killed(lab.deploy, lab.folder, create, when).code == DIED
            again = run_killed(lab.deploy, lab.folder)
            assert again.code == 0, again.said
            assert len(lab.exists()) == 2
            list(lab.provider().remove("gan"))
            assert lab.exists() == []
