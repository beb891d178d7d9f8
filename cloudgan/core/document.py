"""The base of the models of all documents that cloudgan writes and reads (`core.documents`)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A model without other keys than its own; it does not change.

    A command imports many more of them than it uses, so that each is built at its first use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
