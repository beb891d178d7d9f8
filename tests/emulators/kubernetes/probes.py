"""HTTP, TCP and exec probes of containers."""

from __future__ import annotations

import http.client
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]


class Prober(threading.Thread):
    """Runs one probe of one container until it is stopped, and reports each change of its result."""

    def __init__(
        self,
        probe: Object,
        ports: Callable[[int | str], int],
        scale: float,
        report: Callable[[bool, str], None],
    ) -> None:
        super().__init__(daemon=True)
        self._probe, self._ports, self._scale, self._report = probe, ports, scale, report
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        probe, counted, last = self._probe, 0, None
        pause = probe.get("initialDelaySeconds", 0) * self._scale
        while not self._stopped.wait(pause):
            trouble = self._ask()
            counted = counted + 1 if (trouble == "") == last else 1
            last = trouble == ""
            if counted == probe["successThreshold" if last else "failureThreshold"]:
                self._report(last, trouble)
            pause = probe["periodSeconds"] * self._scale

    def _ask(self) -> str:
        """Returns the failure, or an empty text."""
        if request := self._probe.get("httpGet"):
            return self._ask_http(request)
        if target := self._probe.get("tcpSocket"):
            port = self._ports(target["port"])
            try:
                socket.create_connection(("127.0.0.1", port), self._seconds).close()
            except OSError as error:
                return f"dial tcp 127.0.0.1:{port}: {error.strerror or error}"
            return ""
        return "the test cluster asks httpGet and tcpSocket only"

    @property
    def _seconds(self) -> float:
        return max(0.05, self._probe["timeoutSeconds"] * self._scale)

    def _ask_http(self, request: Object) -> str:
        port = self._ports(request["port"])
        url = f"http://127.0.0.1:{port}{request['path']}"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=self._seconds)
        try:
            connection.request("GET", request["path"], headers={"User-Agent": "kube-probe/1.32"})
            status = connection.getresponse().status
        except TimeoutError:
            return f'Get "{url}": context deadline exceeded'
        except (OSError, http.client.HTTPException) as error:
            return f'Get "{url}": {error}'
        finally:
            connection.close()
        return "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"
