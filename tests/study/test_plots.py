"""What figures show of the numbers: bands and bars that end where the quantity ends."""

import numpy as np
import pytest

from practicum.study.plots import add_ribbon, interval_bars, new_figure

WIDE = np.array([[0.2, 0.5], [0.01, 0.6], [0.9, 0.55]])  # t reaches below 0 at first


def band(figure):
    return np.array(next(trace for trace in figure.data if trace.fill == "toself").y)


@pytest.mark.parametrize("where", [None, {"row": 1, "col": 2}])
def test_on_a_logarithmic_axis_a_band_that_reaches_zero_ends_below_the_values(where):
    """Plotly leaves out what has no logarithm, and fills what remains to another shape."""
    figure = new_figure("a band", log_y=True)
    if where:
        from plotly.subplots import make_subplots

        figure = make_subplots(1, 2).update_yaxes(type="log", col=2)
    add_ribbon(figure, [1, 2], WIDE, "loss", "#0072B2", where=where)
    assert band(figure)[-1] == pytest.approx(0.001)  # a tenth of the smallest value
    assert band(figure)[0] > 1


def test_on_a_plain_axis_a_band_is_its_interval():
    figure = new_figure("a band")
    add_ribbon(figure, [1, 2], WIDE, "loss", "#0072B2")
    assert band(figure)[-1] < 0


def test_bars_end_where_the_quantity_ends():
    figure = interval_bars({"a": [0.9, 1.0, 0.8]}, "accuracies", bounds=(0, 1))
    bar = figure.data[-1]
    assert bar.y[0] + bar.error_y.array[0] == pytest.approx(1)
    free = interval_bars({"a": [0.9, 1.0, 0.8]}, "accuracies").data[-1]
    assert free.y[0] + free.error_y.array[0] > 1
