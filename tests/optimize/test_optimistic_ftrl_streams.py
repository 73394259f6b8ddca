"""A person's stream: dates, columns, predictions and sizes are read as meant, or refused."""

import numpy as np
import pandas as pd
import pytest

from practicum.data.streams import read_stream
from practicum.errors import InputError


def written(tmp_path, columns, name="stream.csv"):
    path = tmp_path / name
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def refuses(path, words, **settings):
    with pytest.raises(InputError, match=words) as caught:
        read_stream(path, **settings)
    assert path.name in caught.value.message
    assert caught.value.hint
    return caught.value


DAYS = pd.date_range("2023-01-02", periods=30, freq="D")


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y %H:%M", "%Y%m%d"])
def test_the_order_of_day_and_month_is_that_of_the_whole_column(tmp_path, form):
    path = written(tmp_path, {"date": DAYS.strftime(form), "c": np.arange(30.0)})
    np.testing.assert_array_equal(read_stream(path).timestamps, DAYS.to_numpy())


def test_bad_input_dates_that_can_be_read_two_ways(tmp_path):
    months = pd.date_range("2023-01-01", periods=12, freq="MS").strftime("%d/%m/%Y")
    path = written(tmp_path, {"date": months, "c": np.arange(12.0)})
    assert "2023-01-02" in refuses(path, "day or the month").hint
    years = written(tmp_path, {"date": ["01/02/23", "02/02/23"], "c": [1.0, 2.0]})
    refuses(years, "year")
    mixed = written(tmp_path, {"date": ["13/01/2023", "01/14/2023"], "c": [1.0, 2.0]})
    refuses(mixed, "row 2.*01/14/2023")
    two_forms = written(tmp_path, {"date": ["13/01/2023", "2023-01-14"], "c": [1.0, 2.0]})
    refuses(two_forms, "row 2.*2023-01-14")
    impossible = written(tmp_path, {"date": ["13/01/2023", "31/02/2023"], "c": [1.0, 2.0]})
    refuses(impossible, "row 2.*is not a time")


def test_whole_numbers_that_are_no_dates_stay_numbers(tmp_path):
    path = written(tmp_path, {"time": [0, 10, 20], "c": [1.0, 2.0, 3.0]})
    assert read_stream(path).timestamps.tolist() == [0, 10, 20]


def test_predictions_go_by_their_number_or_name(tmp_path):
    costs = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]}
    shuffled = {"pred_3": [5.0, 6.0], "pred_1": [1.0, 2.0], "pred_2": [3.0, 4.0]}
    stream = read_stream(written(tmp_path, costs | shuffled))
    np.testing.assert_array_equal(stream.hints, stream.values)
    named = {f"pred_{name}": costs[name] for name in "cab"}
    stream = read_stream(written(tmp_path, costs | named))
    np.testing.assert_array_equal(stream.hints, stream.values)
    for bad in (
        ["pred_1", "pred_2", "pred_4"],
        ["pred_a", "pred_b", "pred_x"],
        ["pred_1", "pred_2"],
    ):
        refuses(written(tmp_path, costs | dict.fromkeys(bad, 0.0)), "pred_")


def test_an_index_and_a_flag_are_not_costs(tmp_path):
    columns = {"Unnamed: 0": [0, 1, 2], "a": [3.0, 1.0, 2.0], "holiday": [True, False, True]}
    path = written(tmp_path, columns)
    with pytest.warns(UserWarning, match="holiday"), pytest.warns(UserWarning, match="Unnamed: 0"):
        stream = read_stream(path)
    assert stream.columns == ("a",)
    # a flag may well help to predict a target
    told = read_stream(path, with_target=True, target="a", columns=["holiday"])
    assert told.columns == ("holiday",)
    assert told.values.ravel().tolist() == [1.0, 0.0, 1.0]


def test_a_clock_is_no_cost_unless_it_is_named(tmp_path):
    path = written(tmp_path, {"hour": [0, 1, 2], "a": [3.0, 1.0, 2.0], "day": [0.5, 1.5, 2.0]})
    with pytest.warns(UserWarning, match=r"hour.*--columns"):
        assert read_stream(path).columns == ("a", "day")
    assert read_stream(path, columns=["hour", "a"]).columns == ("hour", "a")
    assert read_stream(path, with_target=True).columns == ("hour", "a")


def test_columns_are_chosen_by_name(tmp_path):
    path = written(
        tmp_path,
        {"date": DAYS[:3].astype(str), "a": [1, 2, 3], "gap": [1, None, 3], "b": [3, 2, 1]},
    )
    hint = refuses(path, "gap").hint
    assert "--columns" in hint
    assert "missing=" not in hint
    stream = read_stream(path, columns=["b", "a"])
    assert stream.columns == ("b", "a")
    assert stream.values.tolist() == [[3, 1], [2, 2], [1, 3]]
    assert len(stream.timestamps) == 3
    told = read_stream(path, columns=["b", "a"], with_target=True)
    assert (told.columns, told.target.tolist(), told.target_name) == (("b",), [1, 2, 3], "a")
    told = read_stream(path, columns=["b"], with_target=True, target="a")
    assert (told.columns, told.target_name) == (("b",), "a")
    refuses(path, "no column 'z'", columns=["z"])
    refuses(path, "gap", columns=["a", "gap"])
    refuses(path, "twice", columns=["a", "a"])
    refuses(path, "date", columns=["a", "date"])


def test_bad_input_a_stray_word_says_what_the_command_offers(tmp_path):
    path = written(tmp_path, {"a": [1, 2, 3], "b": ["1", "two", "3"]})
    assert "--columns" in refuses(path, "two").hint


@pytest.mark.parametrize("column", ["b", "pred_2", "y"])
def test_bad_input_numbers_too_large_to_square(tmp_path, column):
    columns = {n: [1.0, 2.0, 3.0] for n in ("a", "b", "pred_1", "pred_2", "y")}
    columns[column] = [1.0, -1e300, 2.0]
    refuses(written(tmp_path, columns), f"'{column}', row 2: -1e\\+300", with_target=True)
