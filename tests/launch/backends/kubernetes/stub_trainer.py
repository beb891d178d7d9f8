"""Stub for a training container; the test writes its instructions to the claim.

It implements the part of `cloudgan worker` that a launcher sees: the control port, a
heartbeat in the store, exit code 75 on SIGTERM. From its file `handles-INDEX` in the run's folder
on it handles SIGTERM; while the folder has a file `hold`, a worker that has got SIGTERM does not
end, as one that saves a large checkpoint.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
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

    def end(*_):
        while (run / "hold").exists():
            time.sleep(0.02)
        sys.exit(75)

    signal.signal(signal.SIGTERM, end)
    run.mkdir(parents=True, exist_ok=True)
    (run / f"handles-{index}").touch()
    peers = os.environ["CLOUDGAN_PEERS"]  # a template of names, where the cluster has names
    own = peers.replace("{index}", str(index)) if "{index}" in peers else peers.split(",")[index]
    host, _, port = own.rpartition(":")
    server = HTTPServer((host, int(port) + 1), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"worker {index} of {os.environ['CLOUDGAN_WORLD']}", flush=True)
    while not (orders := sorted(run.glob(f"do-{index}-*"))):
        time.sleep(0.02)
    order = orders[0].read_text()
    orders[0].unlink()
    print(f"exit with {order}", flush=True)
    (run / f"did-{index}").write_text(json.dumps({"order": order}))
    sys.exit(int(order))


if __name__ == "__main__":
    main()
