"""Tokens by which EKS knows who asks: a question to STS, signed and not sent."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING, Final

from botocore.model import ServiceId
from botocore.signers import RequestSigner

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CredentialsError
from cloudgan.providers.aws.refusal import LOGIN

if TYPE_CHECKING:
    import boto3

_PREFIX: Final = "k8s-aws-v1."
_CLUSTER: Final = "x-k8s-aws-id"
_SIGNED_SECONDS: Final = 60
_LASTS_SECONDS: Final = 600.0
"""EKS takes a token for 15 minutes from its signature, whatever the signature says."""


def signed(session: boto3.Session, cluster: str, region: str) -> str:
    """Returns a new token; nothing is sent.

    https://github.com/kubernetes-sigs/aws-iam-authenticator, "API Authorization from Outside a
    Cluster" (read 2026-11-21).

    Raises:
        CredentialsError: The login is gone.
    """
    known = session.get_credentials()
    if known is None:
        raise CredentialsError(f"no login for AWS was found; {LOGIN}")
    signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", known, session.events)
    address = f"https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
    request = {"method": "GET", "url": address, "body": {}, "context": {}}
    url = signer.generate_presigned_url(
        request | {"headers": {_CLUSTER: cluster}},
        region_name=region,
        expires_in=_SIGNED_SECONDS,
        operation_name="",
    )
    return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


class ClusterToken:
    """A token of one cluster, signed anew before the last one ends."""

    def __init__(self, session: boto3.Session, cluster: str, region: str) -> None:
        self._session, self._cluster, self._region = session, cluster, region
        self._token, self._ends = "", float("-inf")
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """Returns a token that is valid now."""
        with self._lock:
            now = monotonic_seconds()
            if now >= self._ends:
                self._token = signed(self._session, self._cluster, self._region)
                self._ends = now + _LASTS_SECONDS
            return self._token
