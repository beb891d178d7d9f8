"""Tests from three pods of one Job whether the cluster enforces NetworkPolicy objects.

The policy of the Job admits connections from pod 1 only. Pod 0 listens. Pod 1 connects to pod 0, so
the listener and the names work, and then to pod 2. Only then pod 2 tries pod 0, as any pod outside a
run could: it gives a cluster that is slow to apply a policy SETTLE seconds to refuse it.

Standard library of Python 3.8 and later. Exit codes: 0 as the policy says; 3 pod 2 was admitted.
"""

import os
import socket
import sys
import time

ATTEMPT_SECONDS = 3
PAUSE_SECONDS = 0.5
REFUSALS = 2  # consecutive: one may be a lost packet
OPEN = 3


def address(index):
    """Returns host and port of a pod."""
    peers = os.environ["CLOUDGAN_PEERS"]
    name = peers.replace("{index}", str(index)) if "{index}" in peers else peers.split(",")[index]
    host, _, port = name.rpartition(":")
    return host, int(port)


def listen(index):
    """Listens on all addresses of the pod, or on the one that is given instead of a name."""
    host, port = address(index)
    if "{index}" not in os.environ["CLOUDGAN_PEERS"]:
        return socket.create_server((host, port))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def connects(index):
    """Returns whether a connection to a pod succeeds."""
    try:
        socket.create_connection(address(index), ATTEMPT_SECONDS).close()
    except OSError:
        return False
    return True


def outside(settle_seconds):
    """Returns 0 once pod 0 refuses repeatedly, or 3 if it still admits this pod in the end."""
    end, refusals = time.monotonic() + settle_seconds, 0
    while True:
        refusals = 0 if connects(0) else refusals + 1
        if refusals == REFUSALS:
            return 0
        if not refusals and time.monotonic() > end:
            return OPEN
        time.sleep(PAUSE_SECONDS)


def main():
    """Plays the part of this pod; the Job ends pod 0, and bounds all waits."""
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    if index == 1:
        for other in (0, 2):
            while not connects(other):
                time.sleep(PAUSE_SECONDS)
        return 0
    with listen(index) as server:
        while True:
            server.accept()[0].close()
            if index == 2:  # noqa: PLR2004
                return outside(float(sys.argv[1]))


sys.exit(main())
