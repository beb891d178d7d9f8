"""Stub for `cloudgan train`: counts steps, saves checkpoints, loses peers as TensorFlow does.

python fake_training.py ORDERS.json --run=FOLDER. Orders: steps, pause (seconds a step), store (the
run's folder in it), group (a folder that all share), and for tests exit (code at the end), silent
(a step from which on it hangs), deaf (ignores SIGTERM), says (a line), record (whether it writes one),
lost (its code where a peer is gone).
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

orders = json.loads(Path(sys.argv[1]).read_text())
run = Path(sys.argv[2].removeprefix("--run="))
task = json.loads(os.environ.get("TF_CONFIG", "null"))
index = task["task"]["index"] if task else 0
world = len(task["cluster"]["worker"]) if task else 1
group, store = Path(orders["group"]), Path(orders["store"])
liveness = Path(os.environ["CLOUDGAN_LIVENESS"])
asked = threading.Event()
faulthandler.register(signal.SIGUSR1, all_threads=True)
signal.signal(signal.SIGTERM, lambda *_: asked.set())


def lifeline():
    sys.stdin.read()
    asked.set()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.replace(path)


def save(step):
    if index == 0:
        for folder in (run, store):
            write(folder / "checkpoints" / f"step-{step:09d}.npz", str(step))


def steps_in(folder):
    return [int(path.stem[5:]) for path in (folder / "checkpoints").glob("step-*.npz")]


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_for_peers():
    """Waits until all workers have connected, as TensorFlow does."""
    names = {f"pid-{number}" for number in range(world)}
    while not asked.is_set():
        found = {path.name for path in group.glob("pid-?") if not is_gone(path.read_text())}
        if names <= found:
            return
        time.sleep(0.01)
    os._exit(75)


def lost_peer():
    for path in group.glob("pid-?"):
        if path.name != f"pid-{index}" and is_gone(path.read_text()):
            return not (group / f"done-{path.name[4:]}").exists()
    return False


threading.Thread(target=lifeline, daemon=True).start()
step = max(steps_in(store), default=0)
write(group / f"pid-{index}", str(os.getpid()))
write(group / "began" / f"{index}-{time.time_ns()}", str(step))
network = str(Path("/proc/self/ns/net").readlink()) if Path("/proc/self/ns/net").exists() else ""
write(group / "seen" / f"{index}-{time.time_ns()}", json.dumps([task, network]))
write(group / f"smoke-seconds-{index}", os.environ.get("CLOUDGAN_SMOKE_SECONDS", ""))
wait_for_peers()
if says := orders.get("says"):
    print(says, flush=True)
print(f"begins at {step}{', with an old liveness file' if liveness.exists() else ''}", flush=True)
while step < orders["steps"]:
    time.sleep(orders.get("pause", 0.01))
    if step == orders.get("silent"):
        threading.Event().wait()
    if asked.is_set() and not orders.get("deaf"):
        save(step)
        print("cloudgan: stopped when asked", flush=True)
        os._exit(75)
    # An error of all workers occurs at the same step in all, before any of them reports a lost peer.
    if "exit" not in orders and lost_peer():
        print("cloudgan: another worker stopped answering", flush=True)
        os._exit(orders.get("lost", 75))
    step += 1
    write(liveness, json.dumps([step, step // 10, 1.0]))
    if index == 0 and orders.get("record", True):
        with (run / "record.jsonl").open("a") as file:
            file.write(f"step {step}\n")
    if step % 10 == 0:
        save(step)
code = orders.get("exit", 0)
if code == 0:
    save(step)
    write(group / f"done-{index}", "")
else:
    print("cloudgan: this is why", flush=True)
os._exit(code)
