"""Trains with two workers and tries to reach them from another address of the machine.

python reach_workers.py RUN ADDRESS COMMAND...: runs COMMAND until RUN has a checkpoint of step 2, and ends
it with SIGTERM. Prints as JSON which ports its processes listened on, which of them ADDRESS and 127.0.0.1
reached, the listening sockets that this network namespace showed, and the exit code.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

LISTEN = "0A"


def listening(process):
    """Returns the (address in hexadecimal, port) of each listening socket of a process' namespace."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            if state == LISTEN:
                address, _, port = local.rpartition(":")
                found.add((address, int(port, 16)))
    return found


def reaches(address, port):
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True


run, address, *command = sys.argv[1:]
process = subprocess.Popen(command, stdout=sys.stderr)
try:
    while not Path(run, "checkpoints", "step-000000002.npz").exists():
        assert process.poll() is None, "it ended early"
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ports = {port for child in children for _, port in listening(child)}
    found = {
        "workers": len(children),
        "ports": sorted(ports),
        "reached": [p for p in ports for a in (address, "127.0.0.1") if reaches(a, p)],
        "shown": sorted(listening(os.getpid())),
    }
finally:
    process.send_signal(signal.SIGTERM)
    process.wait(60)
print(json.dumps(found | {"exit_code": process.returncode}))
