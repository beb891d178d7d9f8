"""Stub for the process of a smoke step: python fake_smoke_step.py ORDERS.json INDEX.

Orders in `smoke`, by worker: devices (exit code before the addresses are read), step (exit code after
them), hang (seconds without a line). Every process writes the addresses that it read to the group's folder.
"""

import json
import sys
import time
from pathlib import Path

orders = json.loads(Path(sys.argv[1]).read_text())
index = sys.argv[2]
mine = orders.get("smoke", {}).get(index, {})
if code := mine.get("devices"):
    print(f"cloudgan: worker {index} sees no device", file=sys.stderr, flush=True)
    sys.exit(code)
print("devices found", flush=True)
if not (line := sys.stdin.readline()):
    sys.exit(75)
group = Path(orders["group"]) / "smoke"
group.mkdir(exist_ok=True)
(group / f"{index}-{time.time_ns()}").write_text(line)
time.sleep(mine.get("hang", 0))
if code := mine.get("step"):
    print(f"cloudgan: worker {index} computes wrong results", file=sys.stderr, flush=True)
    sys.exit(code)
