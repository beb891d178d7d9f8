"""Data tables of Geant4: written by cloudgan, or CERN's."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.simulation.geant4.cross_sections import Photoelectric, scaled_cross_section
from cloudgan.simulation.geant4.tables import (
    ENERGIES_MEV,
    PHOTON_SHARES,
    Tables,
    cern_tables,
    create_unused_folders,
    table_files,
    write_tables,
)


@pytest.fixture(scope="module")
def files():
    atom = Photoelectric(0.0695, lambda energy: np.array([1e-3, 0, 0, 1e-5 * (energy < 0.0695)]))
    return table_files({74: atom})


def put_official(folder, name="G4EMLOW8.8", text="0 32 57\n"):
    path = folder / name / "brem_SB" / "br74"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return folder


def test_an_element_has_seven_files(files):
    assert sorted(files) == [
        "brem_SB/br74",
        *(f"epics2017/phot/pe-{kind}-74.dat" for kind in ("cs", "high", "le-cs", "low", "ss-cs")),
        "epics2017/rayl/re-cs-74.dat",
    ]


def test_bremsstrahlung_stands_on_32_shares_and_57_logarithms_of_energies(files):
    head, shares, logarithms, *rows = files["brem_SB/br74"].splitlines()
    assert head == "0 32 57"
    assert np.array(shares.split(), float) == pytest.approx(PHOTON_SHARES, abs=1e-8)
    assert np.exp(np.array(logarithms.split(), float)) == pytest.approx(ENERGIES_MEV, rel=1e-6)
    assert (ENERGIES_MEV[0], ENERGIES_MEV[-1], len(rows)) == (1e-3, 1e4, 57)
    wanted = scaled_cross_section(74, ENERGIES_MEV[30], np.array(PHOTON_SHARES))
    assert np.array(rows[30].split(), float) == pytest.approx(np.maximum(wanted, 1e-3), rel=1e-5)


def test_coherent_scattering_is_off(files):
    values = [line.split()[1] for line in files["epics2017/rayl/re-cs-74.dat"].splitlines()[2:]]
    assert set(map(float, values)) == {0.0}


def test_all_are_written_and_the_digest_is_of_them(tmp_path, files):
    tables = write_tables(tmp_path, files)
    for name, text in files.items():
        assert (tables.low_energy / name).read_text() == text
    changed = files | {"brem_SB/br74": files["brem_SB/br74"].replace("0.05", "0.06", 1)}
    other = write_tables(tmp_path, changed)
    assert other.sha256 != tables.sha256
    assert write_tables(tmp_path, files).sha256 == tables.sha256


def test_a_failed_write_keeps_the_old_tables(tmp_path, files):
    before = write_tables(tmp_path, files)
    with pytest.raises(DataError, match="cannot be written"):
        write_tables(tmp_path, files | {"brem_SB": "a file where a folder is"})
    assert write_tables(tmp_path, files) == before


def test_leftovers_of_a_killed_process_are_not_included(tmp_path, files):
    before = write_tables(tmp_path, files)
    left = tmp_path / f"{before.low_energy.name}.tmp" / "brem_SB" / "br92"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    assert write_tables(tmp_path, files) == before
    assert not (before.low_energy / "brem_SB" / "br92").exists()


def test_every_variable_names_a_folder_that_is_there(tmp_path, files):
    variables = write_tables(tmp_path, files).variables()
    assert {"GEANT4_DATA_DIR", "G4LEDATA", "G4ENSDFSTATEDATA", "G4PARTICLEXSDATA"} <= set(variables)
    for path in variables.values():
        assert tmp_path.joinpath(path).is_dir()
    assert (tmp_path / variables["G4ENSDFSTATEDATA"] / "ENSDFSTATE.dat").stat().st_size == 0


def test_cern_data_of_the_user_are_used_and_named(tmp_path):
    data = put_official(put_official(tmp_path / "cern", "G4EMLOW8.10"), "G4EMLOW8.8", "other")
    tables = cern_tables(data, tmp_path / "ours")
    assert tables.name == "G4EMLOW8.10 of CERN"
    assert tables.variables()["G4LEDATA"] == str(data / "G4EMLOW8.10")
    assert tables.variables()["GEANT4_DATA_DIR"] == str(tmp_path / "ours")
    (data / "G4EMLOW8.10" / "brem_SB" / "br74").write_text("changed")
    assert cern_tables(data, tmp_path / "ours").sha256 != tables.sha256


@pytest.mark.parametrize(
    ("name", "said"),
    [(None, "has no G4EMLOW"), ("G4EMLOW8.8/brem_SB/br1", "lacks brem_SB/br74")],
)
def test_missing_cern_data_are_an_error(tmp_path, name, said):
    if name:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=said) as caught:
        cern_tables(tmp_path, tmp_path / "ours")
    assert "unset" in str(caught.value)


def test_tables_survive_json(tmp_path):
    create_unused_folders(tmp_path)
    tables = Tables(tmp_path, tmp_path / "low", "a name", "abc")
    assert Tables.from_json(tables.as_json()) == tables
