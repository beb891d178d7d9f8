"""NetworkPolicy objects admit what the Kubernetes documentation says they admit."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emulators.kubernetes.network_policies import admits

FROM_FRIENDS = {"from": [{"podSelector": {"matchLabels": {"of": "friend"}}}]}


def pod(of):
    return {"metadata": {"namespace": "default", "labels": {"of": of}}}


def store(**spec):
    """Has one policy, which selects pods of "run"."""
    own = {"podSelector": {"matchLabels": {"of": "run"}}}
    return SimpleNamespace(select=lambda *_: [{"spec": own | spec}])


@pytest.mark.parametrize(
    ("spec", "source", "target", "admitted"),
    [
        ({"policyTypes": ["Ingress"]}, "friend", "run", False),
        ({"policyTypes": ["Ingress"]}, "run", "friend", True),
        ({"policyTypes": ["Ingress"]}, "friend", "other", True),
        ({"policyTypes": ["Ingress"], "ingress": [{}]}, "other", "run", True),
        ({"policyTypes": ["Ingress"], "ingress": [FROM_FRIENDS]}, "friend", "run", True),
        ({"policyTypes": ["Ingress"], "ingress": [FROM_FRIENDS]}, "other", "run", False),
        ({"policyTypes": ["Egress"]}, "run", "friend", False),
        ({"policyTypes": ["Egress"], "egress": [{"ports": [{"port": 443}]}]}, "run", "x", False),
        ({"policyTypes": ["Egress"], "egress": [{"ports": [{"port": 2222}]}]}, "run", "x", True),
        ({"policyTypes": ["Egress"], "egress": [{"ports": [{"port": 53}]}]}, "x", "run", True),
    ],
)
def test_a_selected_pod_refuses_what_no_rule_allows(spec, source, target, admitted):
    assert admits(store(**spec), pod(source), pod(target), 2222) == admitted


def test_without_a_policy_every_pod_is_reached():
    assert admits(SimpleNamespace(select=lambda *_: []), pod("x"), pod("run"), 2222)
