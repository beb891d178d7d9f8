from __future__ import annotations

import pytest

from cloudgan.core.errors import DataError
from cloudgan.data.sources.raw_showers import KNOWN_UNITS, decide_unit


@pytest.mark.parametrize("fraction", [0.0218, 0.0203, 0.0175, 0.0235])
@pytest.mark.parametrize("name", KNOWN_UNITS)
def test_every_unit_is_found_at_all_energies_of_the_public_data(name, fraction):
    unit = decide_unit(fraction * KNOWN_UNITS[name], "a.h5")
    assert unit.per_gev == KNOWN_UNITS[name]
    assert f"ECAL is {name}:" in unit.decided


@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.41, 20, float("nan")])
def test_other_numbers_are_refused(ratio):
    with pytest.raises(DataError, match=r"a\.h5: the unit of ECAL is unknown"):
        decide_unit(ratio, "a.h5")
