"""Emulator of Google Cloud's REST APIs, validated by Google's discovery documents."""

from emulators.gcp.faults import Fault
from emulators.gcp.refusal import Refusal
from emulators.gcp.server import Call, GoogleServer, Route, serving

__all__ = ["Call", "Fault", "GoogleServer", "Refusal", "Route", "serving"]
