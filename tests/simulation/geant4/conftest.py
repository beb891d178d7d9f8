"""Runs the real Geant4 in child processes, since it can be initialised only once per process."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.simulation.geant4.production import blocks_of, read_showers, simulate_blocks
from cloudgan.simulation.geant4.workers import WorkerPool, prepare_geant4

BEGIN = """
import json, sys
from cloudgan.simulation.geant4.engine import Engine
from cloudgan.simulation.geant4.events import PrimaryRequest, Primary, primary
from cloudgan.simulation.geant4.tables import Tables
tables = Tables.from_json(json.loads(sys.argv[1]))
"""


def prepared(folder):
    """Installed Geant4 with the tables of cloudgan; a test that needs it is skipped without it."""
    try:
        return prepare_geant4(folder, None)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs the package {error.name}: pip install '.[geant4]'")
    except ConfigError as error:
        if "this system lacks" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def installation(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("geant4"))


@pytest.fixture(scope="session")
def simulated(installation, tmp_path_factory):
    """Simulates showers of a request; returns their cells in GeV, (N, X, Y, Z)."""

    def simulate(request, count, workers=1):
        folder, blocks = tmp_path_factory.mktemp("blocks"), blocks_of(range(count), request)
        with WorkerPool(workers) as pool:
            done = list(simulate_blocks(pool, folder, blocks, request, installation.tables))
        assert sorted(done, key=lambda block: block.start) == blocks
        return np.concatenate([one.ecal_gev for one in read_showers(folder, blocks, request)])

    return simulate


@pytest.fixture(scope="session")
def in_geant4(installation):
    """Runs a program with `tables` in scope and returns its variable `found`."""

    def run(program):
        words = (BEGIN + program + "\nprint(json.dumps(found))", installation.tables.as_json())
        done = subprocess.run(
            [sys.executable, "-c", words[0], json.dumps(words[1])],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
