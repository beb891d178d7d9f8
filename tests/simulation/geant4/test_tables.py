"""Data tables of Geant4: cross sections, and the files written by cloudgan, or CERN's."""

from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import ConfigError, DataError
from cloudgan.simulation.geant4.tables import (
    ENERGIES_MEV,
    PHOTON_SHARES,
    Photoelectric,
    Tables,
    cern_tables,
    coulomb_correction,
    create_unused_folders,
    free_vector,
    scaled_cross_section,
    table_files,
    write_tables,
)

AVOGADRO_PER_MB = 6.02214076e23 * 1e-27
# S. Navas et al. (Particle Data Group), Phys. Rev. D 110 (2024) 030001, "Atomic and nuclear
# properties of materials": standard atomic weight in g/mol, radiation length in g/cm2.
MEASURED = {14: (28.0855, 21.82), 26: (55.845, 13.84), 29: (63.546, 12.86), 74: (183.84, 6.76)}


@pytest.mark.parametrize("z", [6, 29, 74])
def test_the_coulomb_correction_agrees_with_its_series(z):
    a = (z / 137.035999) ** 2
    n = np.arange(1.0, 200_000)
    assert coulomb_correction(z) == pytest.approx(a * np.sum(1 / (n * (n**2 + a))), abs=2e-4)


@pytest.mark.parametrize("z", [14, 74])
def test_a_soft_photon_of_a_fast_electron_meets_the_fully_screened_atom(z):
    """Tsai, eq. 3.83 and table B.2: L_rad = ln(184.15 / Z^(1/3)), L'_rad = ln(1194 / Z^(2/3))."""
    radiation = np.log(184.15 / z ** (1 / 3)) - coulomb_correction(z)
    radiation += np.log(1194 / z ** (2 / 3)) / z
    four_alpha_r2_mb = 4 * 79.40788 / 137.035999
    expected = four_alpha_r2_mb * (4 / 3 * radiation + (1 + 1 / z) / 9)
    assert scaled_cross_section(z, 1e9, 1e-5) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("z", "known"), MEASURED.items())
def test_a_fast_electron_loses_a_radiation_length(z, known):
    weight, length = known
    share = np.linspace(0, 1, 20_001)
    chi = scaled_cross_section(z, 1e6, share)
    per_length = z**2 * np.trapezoid(chi, share) * AVOGADRO_PER_MB / weight
    # Tsai, eq. 3.84: the loss exceeds E/X0 by b = (1 + 1/Z) / 18 / (L_rad - f + L'_rad / Z).
    assert per_length * length == pytest.approx(1.012, abs=0.01)


@pytest.mark.parametrize("kinetic_mev", [0.001, 1.0, 1000.0])
def test_the_cross_section_is_positive_and_falls_with_photon_energy(kinetic_mev):
    chi = scaled_cross_section(74, kinetic_mev, np.linspace(0, 0.95, 30))
    assert np.all(chi > 0)
    assert np.all(np.diff(chi[:18]) < 0)  # 1 - y + 3/4 y^2 has its least value at y = 2/3


def test_many_energies_and_shares_are_broadcast():
    kinetic, share = np.array([1.0, 10.0])[:, None], np.array([0.1, 0.5, 1.0])
    table = scaled_cross_section(29, kinetic, share)
    assert table.shape == (2, 3)
    assert table[1, 2] == scaled_cross_section(29, 10.0, 1.0)


K_EDGE, THRESHOLD = 0.05, 0.6
BELOW = np.array([0.0, 0.0, 1e-4, 0.0])
ABOVE = np.array([0.0, -2e-3, 8e-4, 0.0])  # turns negative beyond 0.4 MeV
FAR = np.array([1e-3, 0.0, 0.0, 1e-5])


def coefficients(energy_mev):
    return BELOW if energy_mev < K_EDGE else ABOVE if energy_mev < THRESHOLD else FAR


@pytest.fixture(scope="module")
def atom():
    return Photoelectric(K_EDGE, coefficients)


def rows(text, header=0):
    return np.array([line.split() for line in text.splitlines()[header:]], float)


def test_one_set_of_coefficients_holds_above_the_last_step_or_the_edge(atom):
    assert THRESHOLD <= atom.threshold_mev == pytest.approx(THRESHOLD, rel=1e-4)
    assert Photoelectric(1e-5, lambda _: FAR).threshold_mev == pytest.approx(1e-5, rel=1e-3)


def test_no_cross_section_is_negative(atom):
    assert ABOVE @ 0.5 ** -np.arange(1.0, 5.0) < 0
    assert atom.barn(0.5) == 0


def test_the_k_shell_takes_what_its_edge_adds_and_nearly_all_where_no_edge_is_seen(atom):
    below, above = 1e-4 / K_EDGE**3, 8e-4 / K_EDGE**3 - 2e-3 / K_EDGE**2
    assert atom.k_share == pytest.approx(1 - below / above, rel=0.01)
    assert Photoelectric(1.36e-5, lambda _: FAR).k_share == 0.99


def test_the_parametrisation_holds_the_sum_and_the_k_shell_of_it(atom):
    text = atom.files(74)["pe-high-74.dat"]
    shells, used, threshold = text.splitlines()[0].split()
    assert (shells, used, float(threshold)) == ("2", "2", pytest.approx(atom.threshold_mev))
    k_shell, everything = rows(text, 1)
    assert everything[1:] == pytest.approx([*FAR, 0, 0])
    assert k_shell == pytest.approx([K_EDGE, *(atom.k_share * FAR), 0, 0])
    assert everything[0] < K_EDGE


def test_the_tables_hold_the_cross_section_times_the_energy_cubed(atom):
    files = atom.files(74)
    energy, value = rows(files["pe-cs-74.dat"], 2).T
    inside = (energy > K_EDGE * 1.001) & (energy < THRESHOLD)
    wanted = np.maximum(8e-4 - 2e-3 * energy[inside], 0)
    np.testing.assert_allclose(value[inside], wanted, rtol=1e-6)
    below = rows(files["pe-le-cs-74.dat"], 2)
    np.testing.assert_allclose(below[below[:, 0] < 0.04, 1], 1e-4, rtol=1e-6)
    assert below[-1, 0] < K_EDGE < energy[1]


def test_the_shells_are_the_k_shell_above_its_edge_and_the_rest_below(atom):
    lines = atom.files(74)["pe-ss-cs-74.dat"].splitlines()
    heads = [line for line in lines if len(line.split()) == 4]
    assert [head.split()[3] for head in heads] == ["0", "1"]
    k_value = float(lines[200].split()[1])
    total = rows(atom.files(74)["pe-cs-74.dat"], 2)[199, 1]
    assert k_value == pytest.approx(atom.k_share * total)


def test_a_table_begins_with_its_ends_and_its_length():
    text = free_vector(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.25, 0.125]))
    assert text.splitlines()[:2] == ["1.00000000e+00 4.00000000e+00 3", "3"]
    assert rows(text, 2).tolist() == [[1, 0.5], [2, 0.25], [4, 0.125]]


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


def test_a_failed_write_keeps_the_old_tables_and_leftovers_are_not_included(tmp_path, files):
    before = write_tables(tmp_path, files)
    left = tmp_path / f"{before.low_energy.name}.tmp" / "brem_SB" / "br92"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    assert write_tables(tmp_path, files) == before
    assert not (before.low_energy / "brem_SB" / "br92").exists()
    with pytest.raises(DataError, match="cannot be written"):
        write_tables(tmp_path, files | {"brem_SB": "a file where a folder is"})
    assert write_tables(tmp_path, files) == before


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
