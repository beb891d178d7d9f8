"""Which image is to be built, where; and how a build is doing."""

from __future__ import annotations

from typing import Literal, NamedTuple

from cloudgan.core.plan import Place  # noqa: TC001  a field's type

ImageKind = Literal["cpu", "gpu", "tpu"]
BuildPhase = Literal["running", "done", "failed"]


class ImageOrder(NamedTuple):
    """What is built, from what.

    Attributes:
        place: Whose registry, in which region.
        store: URL of the bucket that the builder reads from.
        kind: Of accelerator that it is for.
        tag: Under which name.
        digits: Of the context's content.
    """

    place: Place
    store: str
    kind: ImageKind
    tag: str
    digits: str

    def object_name(self, suffix: str) -> str:
        """Returns where the context lies in the store; the same content lies there once."""
        return f"images/context-{self.digits[:16]}.{suffix}"


class Build(NamedTuple):
    """A look at a build.

    Attributes:
        phase: How far it is.
        log: All that it wrote so far.
        why: It failed, in the cloud's words.
        digest: Of the image, once it is done.
    """

    phase: BuildPhase
    log: str = ""
    why: str = ""
    digest: str | None = None
