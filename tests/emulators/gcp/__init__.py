"""Emulator of Google Cloud's REST APIs, validated by Google's discovery documents."""

from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Call, GoogleServer, Route, serving

__all__ = ["Call", "GoogleServer", "Refusal", "Route", "serving"]
