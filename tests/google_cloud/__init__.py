"""A stand-in for Google Cloud's REST APIs on loopback, held to Google's own discovery documents."""

from google_cloud.faults import Fault
from google_cloud.refusal import Refusal
from google_cloud.server import Call, GoogleServer, Route, serving

__all__ = ["Call", "Fault", "GoogleServer", "Refusal", "Route", "serving"]
