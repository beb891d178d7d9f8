"""When the Job controller replaces a failed pod, by a back-off of a tenth: 1 s, 2 s, 4 s, ... instead of 10 s, ..."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.slow
INDEX = "batch.kubernetes.io/job-completion-index"
PER_INDEX = {"backoffLimitPerIndex": 9}
IGNORED = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}}]}


@pytest.mark.parametrize(
    ("workers", "spec", "gaps"),
    [
        pytest.param(1, {}, [1, 2, 4], id="one pod"),
        pytest.param(2, {}, [2, 8], id="ranks that fail together jump"),
        pytest.param(2, PER_INDEX, [1, 2, 4], id="each index has its own"),
        pytest.param(
            2, PER_INDEX | {"podFailurePolicy": IGNORED}, [1, 2, 4], id="an ignored failure counts"
        ),
    ],
)
def test_a_failed_pod_is_replaced_after_the_back_off(connect, workers, spec, gaps):
    container = {"name": "main", "image": "none", "command": ["sh", "-c", "exit 75"]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    counts = {"completions": workers, "parallelism": workers, "completionMode": "Indexed"}
    limit = {} if "backoffLimitPerIndex" in spec else {"backoffLimit": 99}
    job = {"metadata": {"name": "fails"}, "spec": {"template": pod} | counts | limit | spec}
    with connect(backoff_scale=0.1) as (core, batch):
        batch.create_namespaced_job("default", job)
        created: dict[str, float] = {}
        end = time.monotonic() + 60
        while len(created) <= len(gaps) and time.monotonic() < end:
            time.sleep(0.05)
            for one in core.list_namespaced_pod("default", label_selector="job-name=fails").items:
                if one.metadata.annotations[INDEX] == "0":
                    created.setdefault(one.metadata.name, time.monotonic())
    times = list(created.values())
    assert len(times) == len(gaps) + 1
    # The real controller counts from `finishedAt`, in whole seconds, and gathers changes for a second.
    for gap, before, after in zip(gaps, times, times[1:], strict=False):
        assert gap - 1.1 < after - before < gap + 2.5, times
