"""A deploy that is killed at any call leaves only resources that `down` finds and deletes."""

from __future__ import annotations

from cloudgan.launch.lifecycle.apply import apply
from cloudgan.launch.lifecycle.launch_log import LaunchLog
from cloudgan.schema.run_folder import RunFolder
from crashing import AT_EACH, DIED, moments, run_killed


def program_of(lab, number):
    """Deploys a run of one node and does not wait, as `deploy --detach`."""

    def program():
        plan = lab.plan()
        folder = RunFolder(lab.folder / f"runs-{number}" / plan.run)
        apply(plan, lab.provider(), LaunchLog(folder, plan), lab.said.append)

    return program


def bills(lab):
    """The resources that `setup` did not create."""
    return [one for one in lab.azure.arm.held() if not is_of_setup(one)]


def is_of_setup(address):
    kind = address.rpartition("/providers/")[2].lower()
    shared = ("microsoft.storage/", "microsoft.managedidentity/", "microsoft.authorization/")
    return kind.startswith(shared) or address.endswith("/resourceGroups/cloudgan-eastus")


@AT_EACH
def test_a_deploy_killed_at_any_call_is_found_and_removed(lab, tmp_path, capsys, at_each):
    whole = run_killed(program_of(lab, 0), tmp_path)
    assert whole.code == 0, whole.said
    clean_up(lab)
    found = left = 0
    crashes = moments(whole.calls, at_each=at_each)
    for turn, (number, when) in enumerate(crashes, start=1):
        done = run_killed(program_of(lab, turn), tmp_path, number, when)
        assert done.code == DIED, done.said
        there = bills(lab)
        seen = {one.name.lower() for one in lab.cloud().list_resources()}
        unseen = [one for one in there if one.lower() not in seen and not is_inside(one, seen)]
        assert not unseen, (number, done.calls[-1])
        found += len([one for one in there if one.lower() in seen])
        clean_up(lab)
        left += len(bills(lab))
    with capsys.disabled():
        row = f"azure: {len(whole.calls)} calls, {len(crashes)} crashes, {found} leftovers"
        print(f"\n{row} found, {left} after down")
    assert left == 0


def is_inside(address, seen):
    """AKS deletes the group of nodes and its resources with the cluster."""
    return "/resourcegroups/cloudgan-eastus-nodes" in address.lower() and any(
        "/managedclusters/" in one for one in seen
    )


def clean_up(lab):
    """Runs `down` in a new process without other state."""
    for _ in lab.provider().destroy("gan"):
        pass
