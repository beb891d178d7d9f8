from __future__ import annotations

import pytest

from cloudgan.reports.number import error_text, number_text, tick_text


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


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.98312, 0.00412, "0.983 ± 0.004"),
        (0.98312, 0.00132, "0.9831 ± 0.0013"),
        (1.0, 0.00995, "1.000 ± 0.010"),
        (12.3456, 2.6, "12 ± 3"),
        (12.3456, 1.5, "12.3 ± 1.5"),
        (12345.6, 123.0, "12,346 ± 123"),
        (0.5, None, "0.5"),
        (0.5, 0.0, "0.5"),
        (0.5, float("nan"), "0.5"),
        (3.2e-9, 4.1e-10, "3.2e-09 ± 4e-10"),
        (-0.004, 0.02, "0.00 ± 0.02"),
    ],
)
def test_a_value_has_as_many_digits_as_its_error(value, error, text):
    assert error_text(value, error) == text
