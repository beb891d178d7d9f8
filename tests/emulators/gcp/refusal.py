"""Error responses of Google's APIs."""

from __future__ import annotations

from typing import Any

from emulators.http import Answer

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}


class Refusal(Exception):
    """An answer that is an error.

    Args:
        code: Of HTTP.
        message: Google's sentence.
        status: Canonical name, such as FAILED_PRECONDITION; that of the code where it is empty.
        reason: For programs, such as SERVICE_DISABLED or accessDenied; empty: none.
    """

    def __init__(
        self,
        code: int,
        message: str,
        status: str = "",
        reason: str = "",
    ) -> None:
        super().__init__(f"{code} {message}")
        self.code, self.message, self.reason = code, message, reason
        self.status = status or _STATUS.get(code, "UNKNOWN")

    def answer(self) -> Answer:
        """Has the fields of newer APIs (`status`, `details`) and of older ones (`errors`)."""
        error: dict[str, Any] = {
            "code": self.code,
            "message": self.message,
            "status": self.status,
            "errors": [
                {"message": self.message, "domain": "global", "reason": self.reason or "unknown"}
            ],
        }
        if self.reason:
            kind = "type.googleapis.com/google.rpc.ErrorInfo"
            info = {"@type": kind, "reason": self.reason, "domain": "googleapis.com"}
            error["details"] = [info]
        return Answer(self.code, {"error": error})
