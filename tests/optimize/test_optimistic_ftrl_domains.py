"""Projections and linear minimisation: closed forms, optimality, agreement between sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl import (
    Ball,
    Box,
    CappedSimplex,
    Custom,
    Halfspaces,
    L1Ball,
    OptFPRL,
    Product,
    Simplex,
    parse_domain,
    run_oco,
)

SETS = {
    "ball": Ball(1.5, 4, center=[1.0, 0.0, -2.0, 3.0]),
    "box": Box([-1.0, 0.0, 2.0, 0.5], [1.0, 0.5, 3.0, 0.5]),
    "simplex": Simplex(4, total=2.0),
    "capped simplex": CappedSimplex(4, cap=0.4),
    "l1 ball": L1Ball(1.3, 4),
    "product": Product([Ball(1.0, 2), Simplex(2)]),
    "cut box": Halfspaces(Box(-1, 1, dim=4), [[1.0, 1.0, 0.0, 0.0]], [0.5]),
    "cut simplex": Halfspaces(Simplex(4), [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]], [0.3, 0.6]),
    "cut ball": Halfspaces(Ball(1.0, 4), [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]], [0.2, 0.1]),
    "slice": Halfspaces(Box(0, 1, dim=4), A_eq=[[1.0, 1.0, 1.0, 1.0]], b_eq=[1.0]),
    "custom": Custom(lambda z: np.clip(z, 0, 1), np.full(4, 0.5), 1.0),
}


@pytest.mark.parametrize("name", SETS)
def test_projection_is_optimal(name):
    """<z - Px, u - Px> <= 0 for every u of the set: the projection's characterisation."""
    X = SETS[name]
    rng = np.random.default_rng(0)
    z = X.center + 3 * rng.normal(size=(12, 4))
    inside = X.project(X.center + 3 * rng.normal(size=(40, 4)))
    p = X.project(z)
    products = np.einsum("id,ijd->ij", z - p, inside[None] - p[:, None])
    assert products.max() <= 1e-9
    np.testing.assert_allclose(X.project(p), p, atol=1e-9)
    assert X.contains(p).all()
    assert (np.linalg.norm(inside - X.center, axis=1) <= X.radius * (1 + 1e-9)).all()


@pytest.mark.parametrize("name", SETS)
def test_linear_minimiser_is_minimal(name):
    X = SETS[name]
    rng = np.random.default_rng(1)
    g = rng.normal(size=(15, 4))
    best = np.vecdot(g, X.linear_min(g))
    inside = X.project(X.center + 3 * rng.normal(size=(60, 4)))
    limit = X.radius * np.linalg.norm(g, axis=1) * 1e-5  # of the projection of a far point
    assert (best <= (g @ inside.T).min(axis=1) + limit).all()
    assert X.contains(X.linear_min(g)).all()
    np.testing.assert_allclose(X.linear_min(np.zeros((1, 4)))[0], X.center, atol=1e-12)


def test_two_ways_to_the_same_set():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(20, 5))
    simplex = Simplex(5).project(z)
    as_slice = Halfspaces(Box(0, 1, dim=5), A_eq=np.ones((1, 5)), b_eq=[1.0])
    np.testing.assert_allclose(as_slice.project(z), simplex, atol=1e-9)
    np.testing.assert_allclose(CappedSimplex(5, cap=1.0).project(z), simplex, atol=1e-12)
    capped = Halfspaces(Simplex(5), np.eye(5), np.full(5, 0.3))
    np.testing.assert_allclose(capped.project(z), CappedSimplex(5, 0.3).project(z), atol=1e-8)
    np.testing.assert_allclose(
        Product([Box(0, 1, dim=2), Box(0, 1, dim=3)]).project(z), np.clip(z, 0, 1)
    )


def test_closed_forms():
    np.testing.assert_allclose(Ball(2.0, 2).project(np.array([3.0, 4.0])), [1.2, 1.6])
    np.testing.assert_allclose(Simplex(3).project(np.array([2.0, 0.0, 0.0])), [1, 0, 0])
    np.testing.assert_allclose(L1Ball(1.0, 2).project(np.array([1.0, -1.0])), [0.5, -0.5])
    np.testing.assert_allclose(
        CappedSimplex(4, 0.5).linear_min(np.array([3.0, 1.0, 2.0, 4.0])), [0, 0.5, 0.5, 0]
    )
    assert Simplex(4).radius == pytest.approx(np.sqrt(3 / 4))
    assert CappedSimplex(4, 0.5).radius == pytest.approx(np.sqrt(0.5 - 0.25))
    assert Box(0, 2, dim=4).radius == pytest.approx(2.0)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9),
    st.floats(0.01, 100.0),
)
def test_simplex_projection_for_any_numbers(z, total):
    z = np.array(z)
    p = Simplex(len(z), total).project(z)
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(total, rel=1e-6, abs=1e-9 * np.abs(z).max())
    kept = p > 0
    if kept.sum() > 1:  # the coordinates that are kept moved by the same amount
        assert np.ptp((z - p)[kept]) <= 1e-9 * (1 + np.abs(z).max())


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.floats(0.05, 0.9))
def test_capped_simplex_projection(seed, slack):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 12))
    cap = 1 / d + slack
    z = rng.normal(size=(3, d)) * 10.0 ** rng.uniform(-2, 3)
    p = CappedSimplex(d, cap).project(z)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    assert p.min() >= 0
    assert p.max() <= cap + 1e-12
    for row, q in zip(z, p, strict=True):
        free = (q > 1e-12) & (q < cap - 1e-12)
        if free.sum() > 1:
            assert np.ptp((row - q)[free]) <= 1e-8 * (1 + np.abs(row).max())


def test_the_method_plays_inside_every_set():
    costs = np.random.default_rng(3).normal(size=(15, 4))
    for X in SETS.values():
        done = run_oco(OptFPRL(X), costs, "last", "best_fixed")
        assert (X.excess(done.actions) <= 1e-8 * X.radius).all()
        assert done.regret[-1] <= done.bounds()["paper"] + 1e-6


def test_short_forms():
    for text, kind in {
        "simplex": Simplex,
        "ball:2": Ball,
        "l1:0.5": L1Ball,
        "box:-1:1": Box,
        "capped-simplex:0.4": CappedSimplex,
    }.items():
        assert isinstance(parse_domain(text, 4), kind)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ball(0, 3), "radius"),
        (lambda: Ball(float("inf"), 3), "radius"),
        (lambda: Ball(None, 3), "radius"),
        (lambda: Box(-np.inf, np.inf, dim=3), "bounded"),
        (lambda: Box(0, np.nan, dim=3), "bounded"),
        (lambda: Box(1, 0, dim=3), "lo is"),
        (lambda: Simplex(1), "single point"),
        (lambda: CappedSimplex(3, cap=0.2), "exceed"),
        (lambda: Halfspaces(Ball(1.0, 2), [[1.0, 0.0]], [-2.0]), "no point"),
        (lambda: Halfspaces(Ball(1.0, 2), [[0.0, 0.0]], [1.0]), "zero"),
        (lambda: Halfspaces(Ball(1.0, 2), [[1.0, 0.0, 0.0]], [1.0]), "shape"),
        (lambda: Halfspaces(Ball(1.0, 2)), "no halfspace"),
        (lambda: Product([]), "no sets"),
        (lambda: Custom(lambda z: z, [0.0, 0.0], 1.0), "radius"),
        (lambda: Custom(lambda z: 0.5 * z, [0.0, 0.0], 10.0), "project"),
        (lambda: Custom(lambda z: z, [0.0, 0.0], None), "radius"),
        (lambda: parse_domain("cube", 3), "not known"),
        (lambda: parse_domain("ball", 3), "takes 1"),
        (lambda: parse_domain("ball:big", 3), "numbers"),
    ],
)
def test_bad_input_sets(make, words):
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)
