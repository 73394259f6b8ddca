"""The slowly moving comparator: exact where it says "best", named for its grid where it is not."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl import (
    Ball,
    Box,
    CappedSimplex,
    L1Ball,
    RegressionLosses,
    Simplex,
    best_slow,
    per_round,
)
from practicum.optimize.optimistic_ftrl.losses import LinearCosts

RNG = np.random.default_rng(3)


def by_enumeration(costs, domain, moves):
    """Every placement of at most ``moves`` changes is tried."""
    T, best = len(costs), np.inf
    for m in range(moves + 1):
        for cuts in combinations(range(1, T), m):
            sums = [costs[a:b].sum(axis=0) for a, b in pairwise((0, *cuts, T))]
            best = min(best, sum(float(s @ domain.linear_min(s)) for s in sums))
    return best


@pytest.mark.parametrize("moves", [0, 1, 3])
@pytest.mark.parametrize(
    "domain", [Simplex(3), L1Ball(2.0, 3), Box(-1, 2, dim=3), Ball(1.5, 3), CappedSimplex(3, 0.5)]
)
def test_best_with_few_moves_is_the_best(domain, moves):
    costs = RNG.normal(size=(9, 3))
    u = best_slow(LinearCosts(costs), domain, moves=moves)
    assert u.losses.sum() == pytest.approx(by_enumeration(costs, domain, moves), abs=1e-12)
    assert u.moves <= moves
    assert u.name == f"best with at most {moves} move{'s' * (moves != 1)}"
    assert int((np.diff(u.points, axis=0) != 0).any(axis=1).sum()) == u.moves


def test_a_long_stream_on_a_simplex_is_solved_exactly():
    costs = RNG.normal(size=(700, 4)) + np.sin(np.arange(700) / 30)[:, None] * [1, -1, 0.5, 0]
    stream, domain = LinearCosts(costs), Simplex(4)
    exact = best_slow(stream, domain)
    assert exact.losses.sum() == pytest.approx(
        best_slow(stream, domain, blocks=700).losses.sum(), abs=1e-9
    )
    coarse = best_slow(stream, domain, blocks=96)
    assert exact.losses.sum() < coarse.losses.sum()
    assert "best" not in coarse.name
    assert "changing at most every 7 rounds" in coarse.name


def test_as_many_moves_as_rounds_is_the_best_in_each_round():
    stream = LinearCosts(RNG.normal(size=(500, 3)))
    for domain in (Simplex(3), Ball(1.0, 3)):
        u = best_slow(stream, domain, moves=100_000)
        np.testing.assert_allclose(u.losses, per_round(stream, domain).losses)
        assert u.name == "best with at most 499 moves"


def test_a_grid_is_named_where_the_best_is_out_of_reach():
    X, domain = RNG.normal(size=(80, 2)), Ball(1.0, 2)
    u = best_slow(RegressionLosses(X, X @ [1.0, 0.0]), domain, moves=40)
    assert "best" not in u.name
    assert "at most 15 moves" in u.name
    assert "every 5 rounds" in u.name


def test_an_uneven_grid_is_not_called_the_best():
    u = best_slow(LinearCosts(RNG.normal(size=(120, 3))), CappedSimplex(3, 0.5))
    assert u.name == "one with at most 5 moves, changing on a grid of 96 blocks"


@pytest.mark.parametrize("moves", [2.5, "many", True])
def test_bad_input_moves(moves):
    with pytest.raises(InputError, match="moves"):
        best_slow(LinearCosts(RNG.normal(size=(9, 3))), Simplex(3), moves=moves)


def test_zero_costs_stay_at_the_centre():
    u = best_slow(LinearCosts(np.zeros((9, 3))), Simplex(3), moves=2)
    np.testing.assert_array_equal(u.points, np.full((9, 3), 1 / 3))
