"""AWS logins: the boto3 session and tokens for EKS clusters."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import boto3
import botocore.config
import botocore.exceptions as failures
from botocore.model import ServiceId
from botocore.parsers import ResponseParserError
from botocore.signers import RequestSigner

from cloudgan.core.clock import monotonic_seconds
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.aws.errors import LOGIN, error_of
from cloudgan.storage.aws_configuration import NO_LOGIN, checked_configuration

_PREFIX: Final = "k8s-aws-v1."
_CLUSTER: Final = "x-k8s-aws-id"
_SIGNED_SECONDS: Final = 60
_LASTS_SECONDS: Final = 600.0
"""EKS accepts a token for 15 minutes after its signature."""


def open_session(profile: str | None, region: str | None) -> boto3.Session:
    """Returns a session with the login that boto3 finds."""
    try:
        with checked_configuration():
            session = boto3.Session(profile_name=profile, region_name=region)
            known = session.get_credentials()
    except NO_LOGIN as error:
        raise CredentialsError(f"AWS: {error}; {LOGIN}") from error
    if known is None:
        raise CredentialsError(f"no login for AWS was found; {LOGIN}")
    return session


def open_client(session: boto3.Session, service: str, region: str, attempts: int) -> Any:
    """Returns the client of a service in a region."""
    config = botocore.config.Config(
        connect_timeout=5,
        read_timeout=60,
        max_pool_connections=16,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    with checked_configuration():
        return session.client(service, region_name=region, config=config)


@contextmanager
def mapped_errors(service: str, request: str) -> Iterator[None]:
    """Raises what boto3 raises in the block as an error of cloudgan.

    Raises:
        CredentialsError: There is no login, it is refused, or it lacks a permission.
        LaunchError: AWS refuses for another reason, or does not answer.
    """
    try:
        yield
    except failures.ClientError as error:
        raise error_of(error.response, request, service) from error
    except NO_LOGIN as error:
        raise CredentialsError(f"AWS: {error}; {LOGIN}") from error
    except (failures.BotoCoreError, ResponseParserError) as error:
        raise LaunchError(f"AWS: {request}: {error}") from error


def signed_token(session: boto3.Session, cluster: str, region: str) -> str:
    """Returns a new token of a cluster: a signed STS request, which is not sent.

    https://github.com/kubernetes-sigs/aws-iam-authenticator, "API Authorization from Outside a
    Cluster" (read 2026-11-21).
    """
    known = session.get_credentials()  # `open_session` found it
    signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", known, session.events)
    address = f"https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"
    request = {"method": "GET", "url": address, "body": {}, "context": {}}
    with mapped_errors("sts", f"token for cluster {cluster}"):  # may renew the login
        url = signer.generate_presigned_url(
            request | {"headers": {_CLUSTER: cluster}},
            region_name=region,
            expires_in=_SIGNED_SECONDS,
            operation_name="",
        )
    return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


class ClusterToken:
    """A cluster's token, which renews itself before it expires."""

    def __init__(self, session: boto3.Session, cluster: str, region: str) -> None:
        self._session, self._cluster, self._region = session, cluster, region
        self._token, self._ends = "", float("-inf")
        self._lock = threading.Lock()

    def __call__(self) -> str:
        """Returns a valid token."""
        with self._lock:
            now = monotonic_seconds()
            if now >= self._ends:
                self._token = signed_token(self._session, self._cluster, self._region)
                self._ends = now + _LASTS_SECONDS
            return self._token
