"""A worker in a process of its own: python pod_program.py SETUP.json; says what it imported."""

import json
import sys
from pathlib import Path

from cloudgan.core import settings
from cloudgan.worker.limits import Limits
from cloudgan.worker.place import read_place
from cloudgan.worker.pod import Pod
from cloudgan.worker.stop_request import StopRequest

if __name__ == "__main__":
    setup = json.loads(Path(sys.argv[1]).read_text())
    stop = StopRequest()
    pod = Pod(
        read_place(settings.variable),
        Limits(**setup["limits"]),
        lambda line: print(line, flush=True),
        stop=stop,
        command=setup["command"],
    )
    stop.take_signals(pod.kill)
    code = pod.run()
    print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}), flush=True)
    sys.exit(code)
