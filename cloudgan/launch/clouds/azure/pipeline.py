"""Azure's SDK under `ArmApi`: its pipeline with login and retries, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.core.pipeline.policies import RequestIdPolicy, RetryPolicy, UserAgentPolicy
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest
from azure.mgmt.core import ARMPipelineClient
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

from cloudgan import __version__
from cloudgan.core.errors import CredentialsError, LaunchError
from cloudgan.launch.clouds.azure.errors import LOGIN, SCOPE

_LONGEST_PAUSE_SECONDS = 30


def open_pipeline(
    credential: Any,
    *,
    base_url: str = "https://management.azure.com",
    transport: Any = None,
    attempts: int = 7,
    pause_seconds: float = 0.8,
) -> Any:
    """Returns the pipeline to a Resource Manager.

    Args:
        credential: Of azure-identity.
        base_url: Of the Resource Manager.
        transport: Of azure-core; None: requests, with the environment's proxies.
        attempts: Maximum number of attempts, about two minutes.
        pause_seconds: Backoff before the second attempt; doubled for each further one.
    """
    retry = RetryPolicy(
        retry_total=attempts - 1,
        retry_status=attempts - 1,
        retry_backoff_factor=pause_seconds,
        retry_backoff_max=_LONGEST_PAUSE_SECONDS,
    )
    return ARMPipelineClient(
        base_url,
        policies=[
            RequestIdPolicy(),
            UserAgentPolicy(f"cloudgan/{__version__}"),
            retry,
            ARMChallengeAuthenticationPolicy(credential, SCOPE),
        ],
        transport=transport or RequestsTransport(connection_timeout=5, read_timeout=60),
    )


def answer_of(pipeline: Any, method: str, path: str, body: Any) -> Any:
    """Returns the answer to a request; POST requests here only fetch credentials, so a retry is safe."""
    request = HttpRequest(method, pipeline.format_url(path), json=body)
    return pipeline.send_request(request, retry_on_methods=("DELETE", "GET", "POST", "PUT"))


@contextmanager
def mapped_errors(request: str) -> Iterator[None]:
    """Raises what the SDK raises in the block as an error of cloudgan.

    Raises:
        CredentialsError: The login is refused.
        LaunchError: Azure does not answer.
    """
    try:
        yield
    except ClientAuthenticationError as error:
        raise _no_login(error) from error
    except AzureError as error:
        first = str(error).partition("\n")[0]
        raise LaunchError(f"{request}: Azure did not answer ({first})") from error


def _no_login(error: Exception) -> CredentialsError:
    lines = str(error).splitlines()
    tried = [line.strip() for line in lines if "unavailable" not in line][1:]
    wrong = next((line for line in tried if "AADSTS" in line), None)
    reason = f" ({wrong.partition(' Trace ID')[0]})" if wrong else ""
    return CredentialsError(f"no Azure login found{reason}; {LOGIN}")
