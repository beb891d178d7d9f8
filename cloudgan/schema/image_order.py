"""A request to build a container image, and the state of the build."""

from __future__ import annotations

from typing import Literal, NamedTuple

from cloudgan.schema.plan import Target

ImageKind = Literal["cpu", "gpu", "tpu"]
BuildPhase = Literal["running", "done", "failed"]


class ImageBuildRequest(NamedTuple):
    """A request to build an image.

    Attributes:
        target: Account and region of the registry.
        store: URL of the bucket with the build context.
        kind: Accelerator of the image.
        tag: Tag of the image.
        context_hash: Hash of the build context.
    """

    target: Target
    store: str
    kind: ImageKind
    tag: str
    context_hash: str

    def object_name(self, suffix: str) -> str:
        """Returns the object name of the context; equal contexts have the same name."""
        return f"images/context-{self.context_hash[:16]}.{suffix}"


class Build(NamedTuple):
    """State of a build.

    Attributes:
        phase: Phase of the build.
        log: Its output so far.
        reason: The cloud's message about a failure.
        digest: Digest of the finished image.
    """

    phase: BuildPhase
    log: str = ""
    reason: str = ""
    digest: str | None = None
