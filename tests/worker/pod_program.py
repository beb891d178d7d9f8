"""A worker in its own process: python pod_program.py SETUP.json; prints the imported packages."""

import json
import sys
from pathlib import Path

from cloudgan.core import settings
from cloudgan.worker.agent import WorkerAgent
from cloudgan.worker.pod_environment import read_pod_environment
from cloudgan.worker.preemption import StopRequest
from cloudgan.worker.trainer_process import Timeouts

if __name__ == "__main__":
    setup = json.loads(Path(sys.argv[1]).read_text())
    stop = StopRequest()
    pod = WorkerAgent(
        read_pod_environment(settings.variable),
        Timeouts(**setup["timeouts"]),
        lambda line: print(line, flush=True),
        stop=stop,
        command=setup["command"],
    )
    stop.install_signal_handlers(pod.kill)
    code = pod.run()
    print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}), flush=True)
    sys.exit(code)
