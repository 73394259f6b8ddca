"""Rewards and interaction matrices: the anchors of the specification, and invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from practicum.errors import InputError
from practicum.federated.fedgwc import (
    LossLog,
    PublishedInteraction,
    centred_interaction,
    comovement,
    gaussian_rewards,
    interaction_groups,
    perception_affinity,
    published_interaction,
    reward_interaction,
)
from practicum.federated.fedgwc.interaction import joint_interaction, pair_means

LOSSES = np.array([[2.3, 2.1, 1.9], [2.2, 2.0, 1.8], [2.8, 2.7, 2.6], [2.25, 2.05, 1.85]])


def random_log(seed=0, n_clients=12, per_round=5, rounds=120, steps=3):
    rng = np.random.default_rng(seed)
    log = LossLog(n_clients)
    for t in range(rounds):
        clients = rng.choice(n_clients, per_round, replace=False)
        log.add(t, clients, np.exp(rng.normal(size=(per_round, steps))), clients + 1)
    return log


def test_anchor_1_weighted_and_unweighted():
    weighted = gaussian_rewards(LOSSES, np.array([100, 100, 50, 150]))
    np.testing.assert_allclose(weighted, [0.98984, 0.83221, 0.03326, 0.93290], atol=5e-6)
    np.testing.assert_allclose(
        gaussian_rewards(LOSSES), [0.92523, 0.75384, 0.22865, 0.84878], atol=5e-6
    )


def test_anchor_2_equal_losses_and_two_clients():
    np.testing.assert_array_equal(gaussian_rewards(np.full((4, 3), 1.7)), 1.0)
    with pytest.warns(UserWarning, match="no information"):
        two = gaussian_rewards(np.array([[1.0, 2.0], [3.0, 7.0]]))
    np.testing.assert_allclose(two, 0.606531, atol=5e-7)


@given(st.integers(3, 8), st.integers(1, 5), st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_anchor_3_invariant_to_shift_and_scale_of_a_step(m, steps, seed):
    rng = np.random.default_rng(seed)
    losses, n = rng.normal(size=(m, steps)), rng.integers(1, 100, m)
    shift, scale = rng.normal(size=steps), rng.uniform(0.5, 20, steps)
    np.testing.assert_allclose(
        gaussian_rewards(losses * scale + shift, n), gaussian_rewards(losses, n), rtol=1e-6
    )


def test_anchor_6_centred_recovers_planted_blocks_and_the_moving_average_stops_improving():
    rng = np.random.default_rng(0)
    k, c, sd, count, rate = 40, 0.05, 0.2, 200, 0.2
    truth = np.arange(k) % 2
    level = rng.uniform(0.3, 0.7, k)
    mean = level[:, None] + c * (truth[:, None] == truth[None, :])
    draws = mean + sd * rng.normal(size=(count, k, k))
    found = interaction_groups(centred_interaction(draws.mean(0), np.full((k, k), count)), 2)
    assert adjusted_rand_score(truth, found) == 1

    average, errors = draws[0].copy(), {}
    for t, draw in enumerate(draws[1:], start=2):
        average = (1 - rate) * average + rate * draw
        errors[t] = np.sqrt(((average - mean) ** 2).mean())
    floor = sd * np.sqrt(rate / (2 - rate))
    assert abs(errors[20] / floor - 1) < 0.05
    assert abs(errors[200] / floor - 1) < 0.05
    running = np.sqrt(((draws.mean(0) - mean) ** 2).mean())
    assert running < errors[200] / 4


@pytest.mark.parametrize(
    "estimate", [published_interaction, reward_interaction, comovement, joint_interaction]
)
def test_anchor_9_relabelling_clients_permutes_the_matrix(estimate):
    log = random_log()
    order = np.random.default_rng(1).permutation(12)
    other = LossLog(12)
    for t, (clients, losses, sizes) in enumerate(log):
        other.add(t, np.argsort(order)[clients], losses, sizes)
    np.testing.assert_allclose(estimate(other), estimate(log)[np.ix_(order, order)], atol=1e-9)


def slow_update(matrix, clients, rewards, rate):
    """The official double loop, from its description."""
    for row, i in enumerate(clients):
        for j in clients:
            share = rewards[row] / rewards.sum()
            matrix[i, j] = (1 - rate) * matrix[i, j] + rate * share


def test_published_matrix_equals_the_double_loop():
    rng = np.random.default_rng(0)
    fast, slow = PublishedInteraction(9, 4), np.full((9, 9), 1 / 81)
    change = 1.0
    for _ in range(30):
        clients = rng.choice(9, 4, replace=False)
        rewards = gaussian_rewards(rng.normal(size=(4, 3)))
        before = slow.copy()
        fast.update(clients, rewards)
        slow_update(slow, clients, rewards, 4 / 9)
        change = (1 - 4 / 9) * change + 4 / 9 * ((slow - before) ** 2).sum() / 16
    np.testing.assert_allclose(fast.matrix, slow, atol=1e-15)
    assert fast.change == pytest.approx(change, rel=1e-12)


@pytest.mark.parametrize("view", ["column", "row"])
def test_affinity_equals_dropping_both_entries_pair_by_pair(view):
    matrix = np.random.default_rng(0).random((7, 7))
    x = (matrix - matrix.min()) / np.ptp(matrix)
    x = x.T if view == "column" else x
    slow = np.zeros((7, 7))
    for i in range(7):
        for j in range(7):
            if i != j:
                rest = [n for n in range(7) if n not in (i, j)]
                slow[i, j] = np.exp(-0.3 * ((x[i, rest] - x[j, rest]) ** 2).sum())
    np.testing.assert_allclose(perception_affinity(matrix, 0.3, view), slow, atol=1e-12)


def test_the_column_view_does_not_see_levels_and_the_row_view_does():
    level = np.linspace(0, 1, 8)
    matrix = np.repeat(level[:, None], 8, axis=1)  # everybody has a level, nobody interacts
    off = ~np.eye(8, dtype=bool)
    np.testing.assert_allclose(perception_affinity(matrix, 1.0, "column")[off], 1.0)
    assert perception_affinity(matrix, 1.0, "row")[off].min() < 0.1


def test_pair_means_count_common_rounds_only():
    log = random_log(rounds=40)
    rewards = log.rewards()
    means, counts = pair_means(rewards)
    np.testing.assert_array_equal(counts, log.co_samples())
    i, j = np.argwhere(counts >= 2)[0]
    both = np.isfinite(rewards[:, i]) & np.isfinite(rewards[:, j])
    assert means[i, j] == pytest.approx(rewards[both, i].mean())


@given(st.integers(4, 12), st.integers(0, 100))
@settings(max_examples=30, deadline=None)
def test_centring_removes_any_levels(k, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 9, (k, k))
    counts = counts + counts.T
    noise = rng.normal(size=(k, k))
    a, b = rng.normal(size=k), rng.normal(size=k)
    np.testing.assert_allclose(
        centred_interaction(noise + a[:, None] + b[None, :], counts),
        centred_interaction(noise, counts),
        atol=1e-8,
    )


def test_comovement_is_large_within_groups_that_pull_the_model_apart():
    rng, log = np.random.default_rng(0), LossLog(10)
    side = np.repeat([1.0, -1.0], 5)
    for t in range(150):
        clients = rng.choice(10, 5, replace=False)
        wave = 0.3 * rng.normal()
        log.add(t, clients, np.exp(side[clients] * wave + 0.2 * rng.normal(size=5))[:, None])
    matrix = comovement(log)
    same = side[:, None] == side[None, :]
    off = ~np.eye(10, dtype=bool)
    assert matrix[same & off].min() > matrix[~same].max()


def test_losses_below_zero_are_compared_as_they_are():
    """A log of exp(z) and z itself, some of it negative, are the same co-movement."""
    rng = np.random.default_rng(0)
    as_losses, as_densities = LossLog(8), LossLog(8)
    for t in range(80):
        clients = rng.choice(8, 4, replace=False)
        z = np.where(clients < 4, 1.0, -1.0) * rng.normal() + 0.3 * rng.normal(size=4)
        as_losses.add(t, clients, np.exp(z)[:, None])
        as_densities.add(t, clients, z[:, None])
    np.testing.assert_allclose(comovement(as_densities), comovement(as_losses), atol=1e-9)


def test_bad_input_losses_of_one_dimension():
    with pytest.raises(InputError, match=r"losses of shape \(3,\)"):
        getattr(gaussian_rewards, "__wrapped__", gaussian_rewards)([1.0, 2.0, 3.0])
