"""What can be wrong with the numbers handed to a learner, in the user's words."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from practicum.errors import InputError

Scalars: TypeAlias = np.ndarray | np.floating | float  # one number, or one for each parallel run


def as_float(name: str, value: Any) -> np.ndarray:
    """``value`` as a float64 array; the finiteness is checked where it is used."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is not numeric: {error}", "give an array of numbers") from None


def as_rows(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """``value`` as float64 of exactly ``shape``."""
    array = as_float(name, value)
    if array.shape != shape:
        raise InputError(
            f"{name} has shape {array.shape}, expected {shape}",
            "one number per coordinate of the set"
            + (", one row per parallel run" if len(shape) > 1 else ""),
        )
    return array


def finite(name: str, value: Any) -> np.ndarray:
    """``value`` as float64 without NaN or infinity."""
    array = as_float(name, value)
    refuse_non_finite(name, array)
    return array


LARGEST = 1e100  # larger numbers overflow when they are squared and summed


def moderate(name: str, value: Any) -> np.ndarray:
    """``value`` as finite float64 that can be squared and summed."""
    array = finite(name, value)
    bad = np.argwhere(np.abs(array) > LARGEST)
    if len(bad):
        where = ", ".join(str(int(i)) for i in bad[0])
        raise InputError(
            f"{name} holds {array[tuple(bad[0])]:g} at index [{where}], too large to be squared",
            f"correct it, or use units in which everything stays below {LARGEST:g}",
        )
    return array


def whole(name: str, value: Any, least: int, hint: str = "") -> int:
    """``value`` as a whole number of at least ``least``."""
    known = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not known or value < least:
        raise InputError(
            f"{name} is {value!r}, a whole number of at least {least} is expected",
            hint or f"give {name} as {least} or more",
        )
    return int(value)


def refuse_non_finite(name: str, array: np.ndarray) -> None:
    """One line naming the first cell that is NaN or infinite."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(str(int(i)) for i in bad[0])
        value = array[tuple(bad[0])]
        raise InputError(
            f"{name} holds {value} at index [{where}] ({len(bad)} such cells)",
            "clean the data, or clip what produces it",
        )


def positive(name: str, value: Any, *, hint: str = "") -> float:
    """``value`` as a positive finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(
            f"{name} is {value!r}, a positive finite number is expected",
            hint or f"give {name} > 0",
        )
    return number
