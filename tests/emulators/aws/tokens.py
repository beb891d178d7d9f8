"""EKS tokens: decodes the presigned request and verifies its signature."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PREFIX = "k8s-aws-v1."
LASTS_SECONDS = 900


def user_of(token: str, login: dict[str, str], cluster: str) -> str | None:
    """Returns the user of a token, if it is one for a cluster and its signature is valid."""
    if not token.startswith(PREFIX):
        return None
    text = token.removeprefix(PREFIX)
    url = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    address = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(address.query).items()}
    region = query["X-Amz-Credential"].split("/")[2]
    assert address.hostname == f"sts.{region}.amazonaws.com", "a request to the STS of the region"
    assert query["Action"] == "GetCallerIdentity"
    assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
    signed = dt.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    age = (dt.datetime.now(dt.UTC) - signed).total_seconds()
    if not -300 < age < LASTS_SECONDS:
        return None
    again = _signed(address, query, login, cluster, signed)
    return "aws" if again == query["X-Amz-Signature"] else None


def _signed(
    address: Any, query: dict[str, str], login: dict[str, str], cluster: str, moment: dt.datetime
) -> str:
    plain = f"https://{address.hostname}/?Action=GetCallerIdentity&Version=2011-06-15"
    known = Credentials(login["aws_access_key_id"], login["aws_secret_access_key"])
    region = query["X-Amz-Credential"].split("/")[2]
    request = AWSRequest(method="GET", url=plain, headers={"x-k8s-aws-id": cluster})
    then = moment.replace(tzinfo=None)
    with mock.patch.object(auth, "get_current_datetime", return_value=then):
        auth.SigV4QueryAuth(known, "sts", region, int(query["X-Amz-Expires"])).add_auth(request)
    return parse_qs(urlsplit(request.url).query)["X-Amz-Signature"][0]
