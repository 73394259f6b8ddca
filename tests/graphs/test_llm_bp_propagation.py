"""Anchors of belief propagation: exact on trees, equal to the full table, neutral couplings."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.graphs.llm_bp.exact import enumerate_marginals, random_tree, table_propagation
from practicum.graphs.llm_bp.propagation import (
    approximate_propagation,
    belief_propagation,
    check_homophily,
    coupling_of,
    neighbour_sum,
)

TREE = np.array([[0, 1], [1, 2], [1, 3], [3, 4], [3, 5]])


def random_phi(rng, n, c):
    return np.log(rng.dirichlet(np.ones(c), n))


# --- anchors 1 to 7 of the paper file ---


@pytest.mark.parametrize("mode", ["paper", "uniform", "odds"])
@pytest.mark.parametrize("n_iter", [4, 10])
def test_six_node_tree_equals_enumeration(mode, n_iter):
    """The longest path of the tree has three edges: exact from the third round on."""
    phi = random_phi(np.random.default_rng(0), 6, 3)
    pair = coupling_of(0.7, 3, mode, chance=0.4)
    made = belief_propagation(phi, TREE, *pair, n_iter=n_iter).probabilities
    np.testing.assert_allclose(made, enumerate_marginals(phi, TREE, *pair), atol=1e-12)


def test_six_node_tree_is_exact_at_three_rounds_and_not_before():
    phi = random_phi(np.random.default_rng(1), 6, 2)
    truth = enumerate_marginals(phi, TREE, 0.8, 0.2)
    errors = [
        np.abs(belief_propagation(phi, TREE, 0.8, 0.2, n_iter=t).probabilities - truth).max()
        for t in (1, 2, 3)
    ]
    assert errors[0] > 1e-3
    assert errors[2] < 1e-12


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(2, 4), st.floats(0.02, 0.98))
def test_random_trees_equal_enumeration_to_1e_9(seed, n, c, r):
    rng = np.random.default_rng(seed)
    phi, edges = random_phi(rng, n, c), random_tree(n, rng)
    pair = coupling_of(r, c, "uniform")
    made = belief_propagation(phi, edges, *pair, n_iter=max(n, 1)).probabilities
    assert np.abs(made - enumerate_marginals(phi, edges, *pair)).max() <= 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 8), st.floats(0.02, 0.98), st.integers(1, 6))
def test_any_graph_equals_the_full_table(seed, c, r, n_iter):
    rng = np.random.default_rng(seed)
    phi, edges = random_phi(rng, 12, c), rng.integers(0, 12, (30, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = belief_propagation(phi, edges, r, 1 - r, n_iter=n_iter).probabilities
    theirs = np.exp(table_propagation(phi, edges, r, 1 - r, n_iter=n_iter))
    np.testing.assert_allclose(made, theirs, atol=1e-11)


def test_neutral_couplings_change_nothing():
    phi = random_phi(np.random.default_rng(0), 6, 4)
    neutral = [
        coupling_of(0.5, 2, "paper"),
        coupling_of(0.25, 4, "uniform"),
        coupling_of(0.3, 4, "odds", chance=0.3),
    ]
    for pair in neutral:
        made = belief_propagation(phi, TREE, *pair).probabilities
        np.testing.assert_allclose(made, np.exp(phi), atol=1e-12)


def test_published_coupling_repels_at_a_third_among_24_classes():
    """BookChild: r = 0.35 is eight times chance, and the published potential favours difference."""
    same, diff = coupling_of(0.35, 24, "paper")
    assert same < diff
    for mode in ("uniform", "odds"):
        same, diff = coupling_of(0.35, 24, mode, chance=1 / 24)
        assert same > 10 * diff


def test_without_edges_beliefs_are_the_potentials():
    phi = random_phi(np.random.default_rng(0), 3, 3)
    made = belief_propagation(phi, np.zeros((0, 2), dtype=int), 0.9, 0.1)
    np.testing.assert_allclose(made.probabilities, np.exp(phi))
    assert made.rounds == 0


@pytest.mark.parametrize(("m", "p", "r"), [(1, 0.7, 0.8), (5, 0.6, 0.3), (20, 0.9, 0.6)])
def test_star_has_its_closed_form(m, p, r):
    leaves = np.log(np.tile([p, 1 - p], (m, 1)))
    phi = np.concatenate([np.log([[0.5, 0.5]]), leaves])
    edges = np.array([[0, i] for i in range(1, m + 1)])
    a, b = r * p + (1 - r) * (1 - p), r * (1 - p) + (1 - r) * p
    made = belief_propagation(phi, edges, r, 1 - r).probabilities[0, 0]
    assert made == pytest.approx(a**m / (a**m + b**m), abs=1e-12)


def test_strong_coupling_multiplies_all_potentials_of_a_tree():
    phi = random_phi(np.random.default_rng(3), 6, 3)
    product = np.exp(phi.sum(0) - phi.sum(0).max())
    made = belief_propagation(phi, TREE, 1 - 1e-9, 1e-9, n_iter=8).probabilities
    np.testing.assert_allclose(made, np.tile(product / product.sum(), (6, 1)), atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_invariances(seed):
    rng = np.random.default_rng(seed)
    phi, edges = random_phi(rng, 10, 3), rng.integers(0, 10, (15, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        base = belief_propagation(phi, edges, 0.8, 0.1).log_beliefs

        nodes, classes = rng.permutation(10), rng.permutation(3)
        inverse = np.argsort(nodes)
        moved = belief_propagation(phi[inverse], nodes[edges], 0.8, 0.1).log_beliefs
        np.testing.assert_allclose(moved[nodes], base, atol=1e-10)

        swapped = belief_propagation(phi[:, classes], edges, 0.8, 0.1).log_beliefs
        np.testing.assert_allclose(swapped, base[:, classes], atol=1e-10)

        messy = np.concatenate([edges[::-1, ::-1], edges, [[4, 4]]])
        same = belief_propagation(phi + rng.normal(size=(10, 1)), messy, 0.8, 0.1).log_beliefs
        np.testing.assert_allclose(same, base, atol=1e-10)


def test_scaling_the_potential_changes_nothing():
    phi = random_phi(np.random.default_rng(0), 6, 3)
    one = belief_propagation(phi, TREE, 0.6, 0.2).log_beliefs
    np.testing.assert_allclose(belief_propagation(phi, TREE, 3.0, 1.0).log_beliefs, one)


def test_published_module_is_wrong_on_an_unsorted_list_and_ours_is_not():
    """Its reverse index is computed on sorted edges and applied to the given ones."""
    rng = np.random.default_rng(0)
    phi = random_phi(rng, 6, 3)
    both = np.concatenate([TREE, TREE[:, ::-1]])
    shuffled = both[rng.permutation(len(both))]
    ours = belief_propagation(phi, shuffled, 0.8, 0.2, n_iter=6).probabilities
    truth = enumerate_marginals(phi, TREE, 0.8, 0.2)
    np.testing.assert_allclose(ours, truth, atol=1e-12)
    assert np.abs(official_beliefs(phi, shuffled, 0.8, 6) - truth).max() > 0.01
    ordered = both[np.lexsort(both.T[::-1])]
    np.testing.assert_allclose(official_beliefs(phi, ordered, 0.8, 6), truth, atol=1e-12)


def official_beliefs(log_phi, directed, r, n_iter):
    """The published message passing, with its reverse index as coded."""
    c = log_phi.shape[1]
    table = np.log(np.where(np.eye(c, dtype=bool), r, 1 - r))
    order = np.lexsort(directed.T[::-1])
    place = {tuple(e): k for k, e in enumerate(directed[order])}
    reverse = np.array([place[(j, i)] for i, j in directed[order]])
    messages, beliefs = np.zeros((len(directed), c)), log_phi
    for _ in range(n_iter):
        cavity = beliefs[directed[:, 0]] - messages[reverse]
        messages = np.logaddexp.reduce(cavity[:, :, None] + table, axis=1)
        messages -= np.logaddexp.reduce(messages, axis=1)[:, None]
        total = np.zeros_like(log_phi)
        np.add.at(total, directed[:, 1], messages)
        beliefs = log_phi + total
    return np.exp(beliefs - np.logaddexp.reduce(beliefs, axis=1)[:, None])


# --- options ---


def test_weight_two_counts_as_an_edge_and_its_twin():
    """A path 0-1 of weight 2 acts on the end like two leaves with the same potential."""
    phi = np.log([[0.8, 0.2], [0.5, 0.5]])
    heavy = belief_propagation(
        phi, np.array([[0, 1]]), 0.9, 0.1, edge_weight=np.array([2.0]), n_iter=1
    )
    twins = np.log([[0.8, 0.2], [0.5, 0.5], [0.8, 0.2]])
    two = belief_propagation(twins, np.array([[0, 1], [2, 1]]), 0.9, 0.1, n_iter=1)
    np.testing.assert_allclose(heavy.probabilities[1], two.probabilities[1], atol=1e-12)


def test_weight_one_is_no_weight():
    rng = np.random.default_rng(0)
    phi, edges = random_phi(rng, 8, 3), random_tree(8, rng)
    one = belief_propagation(phi, edges, 0.7, 0.2, edge_weight=np.ones(7)).log_beliefs
    np.testing.assert_allclose(one, belief_propagation(phi, edges, 0.7, 0.2).log_beliefs)


def test_damping_reaches_the_same_fixed_point_on_a_tree():
    rng = np.random.default_rng(2)
    phi, edges = random_phi(rng, 7, 3), random_tree(7, rng)
    slow = belief_propagation(phi, edges, 0.8, 0.1, damping=0.5, n_iter=100).probabilities
    np.testing.assert_allclose(slow, enumerate_marginals(phi, edges, 0.8, 0.1), atol=1e-9)


def test_clamped_nodes_keep_their_class_and_inform_others():
    phi = np.log(np.full((3, 2), 0.5))
    clamp = np.array([1, -1, -1])
    made = belief_propagation(phi, np.array([[0, 1], [1, 2]]), 0.9, 0.1, clamp=clamp).probabilities
    assert made[0, 1] > 0.99999
    assert made[1, 1] == pytest.approx(0.9, abs=1e-4)
    assert made[2, 1] == pytest.approx(0.82, abs=1e-4)


def test_float32_stays_float32_and_agrees():
    rng = np.random.default_rng(0)
    phi, edges = random_phi(rng, 50, 5), rng.integers(0, 50, (80, 2))
    small = belief_propagation(phi.astype(np.float32), edges, 0.7, 0.1)
    assert small.log_beliefs.dtype == np.float32
    large = belief_propagation(phi, edges, 0.7, 0.1)
    np.testing.assert_allclose(small.probabilities, large.probabilities, atol=1e-4)


def test_blocks_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(0)
    phi, edges = random_phi(rng, 40, 4), rng.integers(0, 40, (90, 2))
    whole = belief_propagation(phi, edges, 0.7, 0.1).log_beliefs
    monkeypatch.setattr("practicum.graphs.llm_bp.propagation.CHUNK", 8)
    np.testing.assert_array_equal(belief_propagation(phi, edges, 0.7, 0.1).log_beliefs, whole)


def test_short_cut_sums_or_averages_neighbours():
    phi = np.array([[0.8, 0.2], [0.5, 0.5], [0.1, 0.9]])
    edges = np.array([[0, 1], [1, 2], [2, 1]])
    np.testing.assert_allclose(approximate_propagation(phi, edges)[1], [0.95, 1.05])
    np.testing.assert_allclose(
        approximate_propagation(phi, edges, -0.5, average=True)[1], [0.275, 0.225]
    )
    assert neighbour_sum(phi, np.zeros((0, 2), dtype=int)).sum() == 0


# --- bad input ---


def test_refuses_homophily_outside_the_unit_interval():
    for r in (-0.1, 1.2, float("nan")):
        with pytest.raises(InputError, match="homophily"):
            coupling_of(r, 3)


def test_homophily_of_zero_and_one_is_clipped_with_a_warning():
    with pytest.warns(UserWarning, match="0.01 is used"):
        assert check_homophily(0.0) == 0.01
    with pytest.warns(UserWarning, match="0.99 is used"):
        assert check_homophily(1.0) == 0.99


def test_refuses_an_unknown_coupling_or_one_without_chance():
    with pytest.raises(InputError, match="odds, uniform, paper"):
        coupling_of(0.5, 3, "published")
    with pytest.raises(InputError, match="chance"):
        coupling_of(0.5, 3, "odds")


@pytest.mark.parametrize(
    ("phi", "wanted"),
    [
        (np.zeros(3), "shape"),
        (np.zeros((3, 1)), "shape"),
        (np.array([[0.0, np.nan]]), "node 0"),
        (np.array([[0.0, 0.0], [0.0, -np.inf]]), "node 1"),
    ],
)
def test_refuses_bad_potentials(phi, wanted):
    from practicum.graphs.llm_bp.propagation import _potentials

    with pytest.raises(InputError, match=wanted):
        _potentials(phi, None)


def test_refuses_bad_parameters_and_edges():
    phi = np.zeros((3, 2))
    edges = np.array([[0, 1]])
    for options in ({"n_iter": -1}, {"damping": 1.0}):
        with pytest.raises(InputError):
            belief_propagation(phi, edges, 0.5, 0.5, **options)
    with pytest.raises(InputError, match="positive"):
        belief_propagation(phi, edges, 0.0, 1.0)
    with pytest.raises(InputError, match="nodes are 0 to 2"):
        belief_propagation(phi, np.array([[0, 7]]), 0.5, 0.5)
    with pytest.raises(InputError, match="weight"):
        belief_propagation(phi, edges, 0.5, 0.5, edge_weight=np.array([-1.0]))


def test_a_hub_is_warned_of():
    n = 1200
    edges = np.stack([np.zeros(n, dtype=int), np.arange(1, n + 1)], axis=1)
    with pytest.warns(UserWarning, match="more than 1000 neighbours"):
        made = belief_propagation(np.zeros((n + 1, 2)), edges, 0.9, 0.1)
    assert np.isfinite(made.log_beliefs).all()


def test_hub_with_sharp_beliefs_stays_finite_and_equals_the_table():
    """Products of 1,200 messages underflow as probabilities, not as logarithms."""
    n, rng = 1200, np.random.default_rng(0)
    edges = np.stack([np.zeros(n, dtype=int), np.arange(1, n + 1)], axis=1)
    phi = np.log(rng.dirichlet([0.05] * 3, n + 1) + 1e-12)
    with pytest.warns(UserWarning, match="neighbours"):
        made = belief_propagation(phi, edges, 0.99, 0.005)
    theirs = table_propagation(phi, edges, 0.99, 0.005)
    np.testing.assert_allclose(made.log_beliefs, theirs, rtol=1e-8, atol=1e-6)


def test_oscillation_is_warned_of():
    """An even cycle with strong repulsion flips at every round."""
    edges = np.array([[i, (i + 1) % 9] for i in range(9)])
    phi = np.log(np.random.default_rng(0).dirichlet([1, 1], 9))
    with pytest.warns(UserWarning, match="damping"):
        belief_propagation(phi, edges, 0.01, 0.99, n_iter=3)
