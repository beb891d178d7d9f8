"""Hits of showers in Parquet."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError
from cloudgan.data import hits
from cloudgan.data.hits import write_hits, write_showers
from cloudgan.data.showers import LEAST_CELL_GEV, Showers
from cloudgan.data.sources import open_source
from cloudgan.simulation.gflash import simulate

pq = pytest.importorskip("pyarrow.parquet")


def made(count=6, *, theta=True):
    ecal = np.zeros((count, 3, 4, 5), np.float32)
    ecal[0, 2, 3, 4] = 0.25
    ecal[1, 0, 1, 2] = LEAST_CELL_GEV
    ecal[1, 0, 1, 3] = LEAST_CELL_GEV / 2  # no hit; shower 2 has none at all
    ecal[3:] = 0.001
    energy = np.arange(count, dtype=np.float32) + 10
    return Showers(ecal, energy, energy / 10 if theta else None, np.ones(count, np.float32))


def test_each_hit_is_a_row_and_the_metadata_have_units_threshold_geometry_and_origin(tmp_path):
    path = tmp_path / "hits.parquet"
    showers = made()
    attrs = {"source": "cloudgan generator, step 3", "seed": 1}
    assert write_hits(path, [showers[:2], showers[2:]], attrs=attrs) == 6
    table = pq.read_table(path).to_pydict()
    first = {name: values[0] for name, values in table.items()}
    assert first == {
        "shower": 0, "x": 2, "y": 3, "layer": 4, "energy_gev": 0.25, "primary_gev": 10.0,
        "theta_rad": 1.0,
    }  # fmt: skip
    rebuilt = np.zeros_like(showers.ecal_gev)
    rebuilt[table["shower"], table["x"], table["y"], table["layer"]] = table["energy_gev"]
    expected = np.where(showers.ecal_gev < LEAST_CELL_GEV, 0, showers.ecal_gev)
    np.testing.assert_array_equal(rebuilt, expected)
    assert list(tmp_path.iterdir()) == [path]
    file = pq.ParquetFile(path)
    about = json.loads(file.metadata.metadata[b"cloudgan"])
    assert (about["threshold_gev"], about["cells"]) == (LEAST_CELL_GEV, [3, 4, 5])
    assert attrs.items() <= about.items()
    assert file.metadata.metadata[b"showers"] == b"6"
    unit = file.schema_arrow.field("energy_gev").metadata[b"description"]
    assert unit.startswith(b"GeV")
    write_hits(path, [made(theta=False)])
    assert set(pq.read_table(path)["theta_rad"].to_pylist()) == {None}


def test_rows_are_written_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(hits, "ROWS_PER_GROUP", 100)
    path, showers = tmp_path / "hits.parquet", made(12)
    write_hits(path, [showers[row : row + 1] for row in range(12)])
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 5  # nine showers of 60 hits, two in each group
    assert file.metadata.num_rows == (showers.ecal_gev >= LEAST_CELL_GEV).sum()


def test_showers_without_a_hit_give_an_empty_table_and_no_shower_gives_no_file(tmp_path):
    path = tmp_path / "hits.parquet"
    write_hits(path, [made()[2:3]])
    assert pq.read_table(path).num_rows == 0
    with pytest.raises(ConfigError, match="no showers were given"):
        write_hits(tmp_path / "none.parquet", [])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ConfigError])
def test_an_interruption_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    monkeypatch.setattr(hits, "ROWS_PER_GROUP", 1)
    path = tmp_path / "hits.parquet"
    path.write_bytes(b"old")

    def blocks():
        yield made()
        raise error

    with pytest.raises(error):
        write_hits(path, blocks())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


_FULL = """
import resource, signal, sys
from pathlib import Path
from cloudgan.core.errors import DiskFullError
from cloudgan.data.hits import write_hits
from cloudgan.simulation.gflash import simulate
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write_hits(Path(sys.argv[1]), simulate(40, seed=1, cells=(9, 9)))
except DiskFullError as error:
    print(error)
"""


def test_a_full_disk_is_named_once_and_leaves_nothing(tmp_path):
    path = tmp_path / "hits.parquet"
    done = subprocess.run(
        [sys.executable, "-B", "-c", _FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert "free space" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_one_sentence_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"needs pyarrow; run `pip install '.\[parquet\]'`"):
        write_hits(tmp_path / "hits.parquet", [made()])


def test_the_suffix_chooses_the_layout(tmp_path):
    for name in ("a.parquet", "a.h5"):
        write_showers(tmp_path / name, simulate(3, seed=1, cells=(9, 9)))
    assert open_source(str(tmp_path / "a.h5")).count == 3
    assert len(set(pq.read_table(tmp_path / "a.parquet")["shower"].to_pylist())) == 3


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch, capsys):
    page = Path(__file__).parents[2] / "docs" / "generator.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    blocks = simulate(20, seed=1, cells=(9, 9))
    write_hits(Path("hits.parquet"), blocks, attrs={"source": "cloudgan generator, step 7"})
    Path("example.py").write_text(example, encoding="utf-8")
    runpy.run_path("example.py")
    source, layers = capsys.readouterr().out.splitlines()
    assert source == "cloudgan generator, step 7"
    assert "{'layer': 0, 'energy_gev_sum': " in layers


_PEAK = """
import resource, sys
from pathlib import Path
import numpy as np
from cloudgan.data.showers import Showers
from cloudgan.data.hits import write_showers
one = np.random.default_rng(0).random((64, 9, 9, 25)).astype(np.float32)
if sys.argv[1].endswith(".h5"):
    one[one < 0.95] = 0
angle = np.ones(64, np.float32)
write_showers(Path(sys.argv[1]), (Showers(one, angle, angle, angle) for _ in range(int(sys.argv[2]))))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.h5", "a.parquet"])
def test_the_peak_of_memory_does_not_grow_with_the_number_of_showers(tmp_path, name):
    few, many = (
        int(
            subprocess.run(
                [sys.executable, "-c", _PEAK, str(tmp_path / name), str(blocks)],
                capture_output=True, text=True, check=True,
            ).stdout
        )
        for blocks in (12, 48)
    )  # fmt: skip
    kept = 36 * 64 * 9 * 9 * 25 * 4 / 1024  # KiB that the further showers would take
    assert many - few < kept / 2
