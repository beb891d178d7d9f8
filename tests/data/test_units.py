from __future__ import annotations

import numpy as np
import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.units import (
    KNOWN_UNITS,
    check_ecal,
    decide_units,
)

ENERGIES = np.array([10.0, 100.0])


@pytest.mark.parametrize("fraction", [0.0218, 0.0203, 0.0175, 0.0235])
@pytest.mark.parametrize("name", ["GeV*50", "GeV", "GeV*100", "MeV"])
def test_every_unit_is_found_at_all_energies_of_the_public_data(name, fraction):
    units = decide_units(fraction * KNOWN_UNITS[name], ENERGIES, "a.h5", has_deposits=True)
    assert (units.ecal_per_gev, units.energy_per_gev) == (KNOWN_UNITS[name], 1)
    assert f"ECAL is {name}:" in units.decided


@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.41, 200, float("nan")])
def test_other_numbers_are_refused(ratio):
    with pytest.raises(DataError, match=r"a\.h5: the unit of ECAL is unknown"):
        decide_units(ratio, ENERGIES, "a.h5", has_deposits=True)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_cells_of_every_type_are_checked(dtype):
    check_ecal(np.full((2, 1, 1, 1), 60_000, dtype), "a.h5", 0)
    with pytest.raises(DataError, match=r"a\.h5, event 4: ECAL has 1 infinite cell;"):
        check_ecal(np.array([1, np.inf], dtype).reshape(2, 1, 1, 1), "a.h5", 3)
