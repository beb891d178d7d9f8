from __future__ import annotations

import pytest

from cloudgan.reports.number import number_text, tick_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12345678, "12,345,678"),
        (0.5, "0.5"),
        (1234.56, "1,235"),
        (9999.4, "9,999"),
        (9999.6, "10,000"),  # four digits of it are 1e+04
        (-9999.6, "-10,000"),
        (1234567.8, "1,234,568"),
        (1.23456e-7, "1.235e-07"),
    ],
)
def test_numbers_have_four_digits_and_their_thousands_are_parted(value, text):
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.02, "0.02"),
        (1500.0, "1,500"),
        (1e6, "10⁶"),
        (2e6, "2·10⁶"),
        (5e-5, "5·10⁻⁵"),
        (-2e6, "-2·10⁶"),
    ],
)
def test_numbers_of_an_axis_become_powers_where_digits_would_be_many(value, text):
    assert tick_text(value) == text
