"""Whether this machine is one of a cloud, whose metadata server gives it a login.

SDKs look for it when nothing else gives a login, each for itself and for seconds: google-auth three
times for three seconds, botocore once for one, azure-identity once for one (their sources,
google/auth/compute_engine/_metadata.py, botocore/utils.py, azure/identity/_credentials/imds.py of
google-auth 2.62, botocore 1.44, azure-identity 1.27, read 2026-11-21). One short question, asked
once, says it for all: the three clouds have it at the same address.
"""

from __future__ import annotations

import http.client
from typing import Final

from cloudgan.core import settings

ADDRESS: Final = ("169.254.169.254", 80)
"""Link-local: on a machine of a cloud it answers within milliseconds, or not at all."""
_SECONDS: Final = 0.25


def forget_unless_there(address: tuple[str, int] = ADDRESS, seconds: float = _SECONDS) -> bool:
    """Keeps SDKs from waiting for a metadata server that is not there; whether there is one.

    To be called before an SDK is imported.
    """
    told = settings.names_metadata_server()
    is_there = _answers(address, seconds) if told is None else told
    if not is_there:
        settings.forget_metadata_servers()
    return is_there


def _answers(address: tuple[str, int], seconds: float) -> bool:
    """Any answer will do: whoever refuses does not let SDKs wait either."""
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
