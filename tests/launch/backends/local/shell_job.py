"""A Job whose worker is a shell script."""

from __future__ import annotations

import sys
from typing import Any

from cloudgan.launch.kubernetes.manifests import load_manifest, trainer

ANSWER = f"""exec {sys.executable} -S -c '
import os, signal, socket, sys
index, count = os.environ["JOB_COMPLETION_INDEX"], int(sys.argv[1])
port = int(os.environ["CLOUDGAN_PEERS"].split(",")[int(index)].rpartition(":")[2]) + 1
with socket.create_server(("127.0.0.1", port), reuse_port=True) as server:  # the supervisor holds it
    for _ in range(count):
        asked, _ = server.accept()
        asked.recv(4096)
        asked.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n{{}}")
        asked.close()
    if len(sys.argv) > 2:
        os.kill(os.getpid(), signal.SIGSTOP)
' """
"""A program that answers a number of probes and exits, or freezes with a second argument."""


def shell_job(
    script: str,
    *,
    world: int = 1,
    deadline: float = 60,
    grace: float = 10,
    probe: dict[str, Any] | None = None,
) -> dict[str, Any]:
    body = load_manifest("job")
    spec = body["spec"]
    spec |= {"completions": world, "parallelism": world, "activeDeadlineSeconds": deadline}
    spec["template"]["spec"]["terminationGracePeriodSeconds"] = grace
    container = trainer(body)
    container["command"] = ["sh", "-c", script]
    container["livenessProbe"] |= probe or {}
    return body
