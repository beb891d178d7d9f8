"""The login of ECR: a password that AWS gives for twelve hours.

https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html (read
2026-11-21).
"""

from __future__ import annotations

import base64
import re
from typing import Any

import boto3
import botocore.exceptions

from cloudgan.core.errors import CredentialsError
from cloudgan.registries.login import Login

_REGION = re.compile(r"\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com")


def login(host: str, client: Any = None) -> Login:
    """Returns the login of a registry such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com.

    Args:
        host: Of the registry.
        client: Of ECR in its region; None: with the login of this machine.

    Raises:
        CredentialsError: There is none, or AWS refuses it.
    """
    region = _REGION.search(host)
    try:
        asked = client or boto3.client("ecr", region_name=region[1] if region else None)
        told = asked.get_authorization_token()["authorizationData"][0]["authorizationToken"]
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise CredentialsError(
            f"no login of AWS for {host} ({error}); set AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; it needs ecr:GetAuthorizationToken and"
            " ecr:BatchGetImage"
        ) from error
    user, _, password = base64.b64decode(told).decode().partition(":")
    return Login(user, password)
