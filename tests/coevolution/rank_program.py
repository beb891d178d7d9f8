"""One rank of a grid in NumPy: python rank_program.py FOLDER SECONDS,... (of a training, by cell)."""

import sys
import time
from functools import partial
from pathlib import Path

from cloudgan.coevolution.engine import GridRun, run_rank
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid
from cloudgan.core.progress import Silent
from cloudgan.ranks.process import fail, joined_world
from cloudgan.training.stopping import EXIT_CODES
from coevolution.quadratic_game import QuadraticGame, QuadraticPair


class SlowPair(QuadraticPair):
    def train(self, draw, numbers, **options):
        time.sleep(seconds[draw.cell])
        super().train(draw, numbers, **options)


class SlowGame(QuadraticGame):
    def make_pair(self):
        return SlowPair()


path, seconds = Path(sys.argv[1]), [float(part) for part in sys.argv[2].split(",")]
config = GridFolder(path).read_config()
grid = check_grid(config)
folder = GridFolder(path, grid)
with joined_world(folder.run) as world:
    failed = partial(fail, folder.run, world.rank)
    run = GridRun(config, grid, folder, make_task=lambda _: SlowGame())
    end = run_rank(
        *(world, run, Silent()), failed=lambda error: failed(error.exit_code, str(error))
    )
if end:
    sys.exit(EXIT_CODES.get(end.reason, 0))
