"""Real data that need no download."""

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.generative.model_collapse import (
    library_docstrings,
    python_topics,
    real_table,
    shape_data,
    split_documents,
)
from practicum.generative.model_collapse.corpora import PRINTABLE


@pytest.mark.parametrize(
    ("name", "shape"),
    [("wine", (178, 13)), ("breast-cancer", (569, 30)), ("diabetes", (442, 10))],
)
def test_tables_are_standardised(name, shape):
    X = real_table(name)
    assert X.shape == shape
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(X.std(axis=0), 1)


def test_digits_has_no_constant_column():
    assert np.ptp(real_table("digits"), axis=0).min() > 0


def test_texts_are_printable_and_long_enough():
    for text in (python_topics(), library_docstrings()):
        assert len(text) > 400_000
        assert set(text) <= set(PRINTABLE)


def test_the_domains_share_no_document():
    words = set(split_documents(python_topics(), 200))
    assert not words & set(split_documents(library_docstrings(), 200))


@pytest.mark.parametrize("name", ["moons", "circles", "swiss-roll", "blobs"])
def test_shapes_are_shuffled_and_repeatable(name):
    a, b = (shape_data(name, 50, 20, rng=np.random.default_rng(3))[0] for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert a.shape == (50, 3 if name == "swiss-roll" else 2)


def test_bad_input():
    with pytest.raises(InputError, match="shape 'spiral'"):
        shape_data("spiral", 5, 5, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="n=0"):
        shape_data("moons", 0, 5, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="table 'iris'"):
        real_table("iris")
    with pytest.raises(InputError, match="one document needs 10"):
        split_documents("short", 10)
    with pytest.raises(InputError, match="characters=0"):
        library_docstrings(0)
