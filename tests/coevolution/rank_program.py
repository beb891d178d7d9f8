"""One rank of a grid in NumPy: python rank_program.py FOLDER SECONDS,... (of a training, by cell)."""

import sys
import time
from pathlib import Path

from cloudgan.coevolution.engine import run_rank
from cloudgan.coevolution.files import GridFolder
from cloudgan.coevolution.grid import check_grid
from cloudgan.core.progress import Progress
from cloudgan.ranks.process import run_as_rank
from coevolution.quadratic_game import QuadraticGame, QuadraticPair


class SlowPair(QuadraticPair):
    def train(self, draw, numbers, **options):
        time.sleep(seconds[draw.cell])
        super().train(draw, numbers, **options)


class SlowGame(QuadraticGame):
    def make_pair(self):
        return SlowPair()


class Printed(Progress):
    def start(self, task, total=None, unit="", **of_run):
        print(task, total, of_run, flush=True)

    def say(self, line):
        print(line, flush=True)


path, seconds = Path(sys.argv[1]), [float(part) for part in sys.argv[2].split(",")]
config = GridFolder(path).read_config()
folder = GridFolder(path, check_grid(config))
play = lambda world: run_rank(world, folder, config, lambda _: SlowGame(), Printed())
run_as_rank(folder.run, play, unit="iteration")
