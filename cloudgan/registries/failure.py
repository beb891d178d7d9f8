"""What goes wrong with a registry that is no fault of what was asked."""

from __future__ import annotations

from cloudgan.core.errors import CloudganError


class RegistryError(CloudganError):
    """A registry stays away, is busy, or answers what nobody understands."""


class MissingError(CloudganError):
    """A registry has no such manifest, or no such repository."""
