"""Detects the metadata server of a cloud machine, which provides a login.

Without other credentials each SDK probes it for seconds: google-auth 3 x 3 s, botocore 1 s,
azure-identity 1 s (google/auth/compute_engine/_metadata.py, botocore/utils.py,
azure/identity/_credentials/imds.py of google-auth 2.62, botocore 1.44, azure-identity 1.27, read
2026-11-21). One short probe replaces them: all clouds use the same address.
"""

from __future__ import annotations

import http.client
from typing import Final

from cloudgan.core import settings

ADDRESS: Final = ("169.254.169.254", 80)
"""Link-local address; a cloud machine's server answers within milliseconds."""
_SECONDS: Final = 0.25


def disable_unless_reachable(address: tuple[str, int] = ADDRESS, seconds: float = _SECONDS) -> bool:
    """Disables the SDKs' probes if no metadata server answers; returns whether one does.

    Call it before an SDK is imported.
    """
    configured = settings.names_metadata_server()
    is_there = _answers(address, seconds) if configured is None else configured
    if not is_there:
        settings.disable_metadata_servers()
    return is_there


def _answers(address: tuple[str, int], seconds: float) -> bool:
    """Whether the server answers at all; an error status counts."""
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True
