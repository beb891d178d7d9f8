"""Emulator of a container registry: enough of OCI distribution 1.1 for real clients.

    with local_registry() as registry:
        registry.put_image("lab/gan", "1")
        registry.host  # 127.0.0.1:41234

It accepts pushes and pulls of blobs, manifests and indexes, lists tags page by page, requires a token
that expires or for a password, and fails as a test says. What it lacks: referrers, mounts of blobs
from other repositories, deletion, TLS. skopeo pushes to it and pulls from it (test_calibration.py).
"""

from emulators.registry.server import LocalRegistry, local_registry

__all__ = ["LocalRegistry", "local_registry"]
