"""What the stand-ins of trackers received: a JSON file that outlives the process, as a server does."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def kept():
    """Yields what was sent so far, by id of a run, to change it; TRACKER says if the server is away or hangs."""
    if os.environ.get("TRACKER") == "hangs":
        time.sleep(60)
    if os.environ.get("TRACKER") == "away":
        raise ConnectionError("no route to http://me:planted-word@lab:5000/")
    path = Path(os.environ["TRACKED"])
    runs = json.loads(path.read_text()) if path.exists() else {}
    yield runs
    path.write_text(json.dumps(runs))
