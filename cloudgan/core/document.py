"""The bases of the models of all documents that cloudgan writes and reads (`core.documents`)."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer


class Document(BaseModel):
    """A model without other keys than its own; it does not change.

    A command imports many more of them than it uses, so that each is built at its first use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def is_default(self, key: str) -> bool:
        """Whether a key has its default value."""
        return bool(getattr(self, key) == type(self).model_fields[key].default)


class FiniteDocument(Document):
    """A document without infinite numbers and NaN."""

    model_config = ConfigDict(allow_inf_nan=False)


class SparseDocument(FiniteDocument):
    """A document without the keys of `OMITTED` at their defaults: documents and hashes of earlier runs stay as they are."""

    OMITTED: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_unused_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unused = {key for key in self.OMITTED if self.is_default(key)}
        return {key: value for key, value in dump(self).items() if key not in unused}
