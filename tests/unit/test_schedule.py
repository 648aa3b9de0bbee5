"""Learning rates as functions of the step."""

import pytest

from plant.train.schedule import SCHEDULES, one_cycle, slanted_triangular

TOTALS = [1, 2, 3, 10, 1000]


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_positive_and_never_above_the_peak(name: str, total: int) -> None:
    rates = [SCHEDULES[name](step, total) for step in range(total)]
    assert all(0 < rate <= 1 for rate in rates)


def test_one_cycle_rises_to_the_peak_at_a_quarter_and_falls_to_almost_nothing() -> None:
    rates = [one_cycle(step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(1 / 25)
    assert rates.index(max(rates)) == 250
    assert rates[250] == 1
    assert rates[:251] == sorted(rates[:251])
    assert rates[250:] == sorted(rates[250:], reverse=True)
    assert rates[-1] < 1e-4


def test_the_slanted_triangle_is_that_of_the_paper() -> None:
    total, cut, ratio = 200, 20, 32
    for step in range(total):
        share = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / 0.1 - 1))
        assert slanted_triangular(step, total) == pytest.approx((1 + share * (ratio - 1)) / ratio)
