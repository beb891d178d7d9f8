"""Content of a registry: blobs, and manifests by digest and tag."""

from __future__ import annotations

import hashlib
import json
import threading
from typing import Any, NamedTuple

CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Manifest(NamedTuple):
    media_type: str
    content: bytes


class Content:
    """All repositories; safe for threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, dict[str, Manifest]] = {}
        self.tagged: dict[str, dict[str, str]] = {}
        self.uploads: dict[str, bytes] = {}

    def put_blob(self, content: bytes) -> str:
        with self.lock:
            self.blobs[digest_of(content)] = content
        return digest_of(content)

    def put_manifest(self, repository: str, reference: str, manifest: Manifest) -> str:
        digest = digest_of(manifest.content)
        with self.lock:
            self.manifests.setdefault(repository, {})[digest] = manifest
            if not reference.startswith("sha256:"):
                self.tagged.setdefault(repository, {})[reference] = digest
        return digest

    def manifest(self, repository: str, reference: str) -> tuple[str, Manifest] | None:
        with self.lock:
            digest = self.tagged.get(repository, {}).get(reference, reference)
            found = self.manifests.get(repository, {}).get(digest)
        return (digest, found) if found else None

    def missing_parts(self, repository: str, manifest: Manifest) -> list[str]:
        """Returns what a manifest refers to and was not pushed before it; the specification forbids that."""
        outcome = json.loads(manifest.content)
        blobs = [outcome[key] for key in ("config",) if key in outcome] + outcome.get("layers", [])
        lacking = [one["digest"] for one in blobs if one["digest"] not in self.blobs]
        images = [one["digest"] for one in outcome.get("manifests", [])]
        there = self.manifests.get(repository, {})
        return lacking + [one for one in images if one not in there]

    def put_image(self, repository: str, tag: str, platform: str = "linux/amd64") -> str:
        """Adds an image of one platform; returns its digest."""
        return self.put_manifest(repository, tag, self._image(f"{repository}:{tag}", platform))

    def put_index(self, repository: str, tag: str, *platforms: str) -> str:
        """Adds an index of one image for each platform, and an attestation; returns its digest."""
        entries: list[dict[str, Any]] = []
        for platform in (*platforms, "unknown/unknown"):
            image = self._image(f"{repository}:{tag}", platform)
            digest = self.put_manifest(repository, digest_of(image.content), image)
            system, machine = platform.split("/")
            entries.append(_descriptor(MANIFEST, image.content, digest))
            entries[-1]["platform"] = {"os": system, "architecture": machine}
        body = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        return self.put_manifest(repository, tag, Manifest(INDEX, json.dumps(body).encode()))

    def _image(self, name: str, platform: str) -> Manifest:
        system, machine = platform.split("/")
        config = json.dumps(
            {"os": system, "architecture": machine, "config": {"Labels": {"n": name}}}
        )
        config_digest = self.put_blob(config.encode())
        layer = b"not an archive, and never unpacked"
        body = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config.encode(), config_digest),
            "layers": [_descriptor(LAYER, layer, self.put_blob(layer))],
        }
        return Manifest(MANIFEST, json.dumps(body).encode())


def _descriptor(media_type: str, content: bytes, digest: str) -> dict[str, Any]:
    return {"mediaType": media_type, "size": len(content), "digest": digest}
