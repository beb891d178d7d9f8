"""Stands for a container that trains: what it does is written into its claim by the test.

It keeps the contract of `cloudgan worker` that launching sees: an answer on its control port, a
heartbeat in the store, 75 on SIGTERM. It trains nothing; tests of the worker itself are elsewhere.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def main():
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    store = Path(os.environ["CLOUDGAN_STORE"])
    run = store / "runs" / os.environ["CLOUDGAN_RUN"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    port = int(os.environ["CLOUDGAN_PEERS"].split(",")[index].rpartition(":")[2]) + 1
    server = HTTPServer(("127.0.0.1", port), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"worker {index} of {os.environ['CLOUDGAN_WORLD']}", flush=True)
    while not (orders := sorted(run.glob(f"do-{index}-*"))):
        time.sleep(0.02)
    order = orders[0].read_text()
    orders[0].unlink()
    print(f"told to {order}", flush=True)
    (run / f"did-{index}").write_text(json.dumps({"order": order}))
    sys.exit(int(order))


if __name__ == "__main__":
    main()
