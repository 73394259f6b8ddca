"""The pendulum and maze logs, and which part of them is trusted."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.data.offline import OfflineDataset
from practicum.errors import InputError
from practicum.rl.ssar import SSAR, Setting, compare_arms
from practicum.rl.ssar.pendulum import MIXES, pendulum_mix
from practicum.rl.ssar.pointmaze import MAZE_MIXES, pointmaze_mix
from practicum.rl.ssar.trust import (
    is_sparse,
    report_of_mask,
    return_quantiles,
    trust,
    trust_trajectories,
)


def episodes_of(returns, length=100, sparse=False):
    """A log whose episodes have these returns, all in the last step."""
    returns = np.asarray(returns, float)
    n = len(returns) * length
    rng = np.random.default_rng(0)
    states = rng.normal(size=(len(returns), length + 1, 2))
    rewards = np.zeros((len(returns), length))
    rewards[:, -1] = returns
    if not sparse:  # small amounts that cancel, so that the reward has many values
        wobble = rng.normal(size=rewards.shape) * 1e-3
        rewards += wobble - wobble.mean(axis=1, keepdims=True)
    return OfflineDataset.from_arrays(
        states[:, :-1].reshape(n, 2), rng.uniform(-1, 1, (n, 1)), rewards.ravel(),
        np.zeros(n), timeouts=np.tile(np.arange(length) == length - 1, len(returns)),
        next_observations=states[:, 1:].reshape(n, 2), name="log", force=True,
    )  # fmt: skip


# --- logs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mean"),
    [  # of the paper file: expert -160, medium -460, random -1170, mixed-anti as a whole -1474
        ("expert", -160),
        ("medium", -460),
        ("mixed-20", 0.2 * -160 + 0.8 * -1170),
        ("mixed-anti", -1474),
    ],
)
def test_mean_returns_of_the_pendulum_sets(name, mean):
    data = pendulum_mix(name, episodes=400, rng=np.random.default_rng(0))
    assert abs(data.returns().mean() - mean) < 0.08 * abs(mean)


def test_the_pendulum_sets_are_made_of_100_episodes_of_200_steps():
    for name in MIXES:
        data = pendulum_mix(name, rng=0)
        assert (len(data), len(data.episodes)) == (20_000, 100)
        assert not data.terminals.any()  # time limits only: values go on
        assert (np.abs(data.actions) <= 1).all()
        assert data.action_high.tolist() == [2]
        assert data.fingerprint == pendulum_mix(name, rng=0).fingerprint
        assert data.fingerprint != pendulum_mix(name, rng=1).fingerprint


def test_a_fifth_of_the_mixed_sets_is_the_experts():
    good, bad = np.split(pendulum_mix("mixed-20", rng=0).returns(), [20])
    assert good.min() > -400
    assert np.median(bad) < -1000
    good, bad = np.split(pendulum_mix("mixed-anti", rng=0).returns(), [20])
    assert good.min() > -400
    assert bad.max() < -1000


def test_the_maze_sets_are_sparse_and_a_fifth_of_the_mixed_ones_reaches_the_goal():
    for name in MAZE_MIXES:
        data = pointmaze_mix(name, rng=0)
        assert set(np.unique(data.rewards)) <= {0.0, 1.0}
        assert (data.rewards[data.terminals] == 1).all()
        assert data.rewards.sum() == data.terminals.sum()
        assert data.fingerprint == pointmaze_mix(name, rng=0).fingerprint
        assert is_sparse(data)
    assert pointmaze_mix("expert", rng=0).returns().mean() == 1
    for name in ("mixed-20", "mixed-anti"):
        assert abs(pointmaze_mix(name, 200, rng=0).returns().mean() - 0.2) < 0.02


def test_bad_input_names_of_sets():
    for make in (pendulum_mix, pointmaze_mix):
        with pytest.raises(InputError, match=r"no \w+ set") as caught:
            make("mixed20")
        assert "did you mean 'mixed-20'?" in caught.value.hint
        with pytest.raises(InputError, match="at least one"):
            make("expert", 0)


# --- trust -------------------------------------------------------------------------------------


def test_anchor_9_returns_1_5_9_with_reference_5_trust_only_the_third():
    with pytest.warns(UserWarning, match="only 1 of 3"):
        report = trust_trajectories(episodes_of([1, 4, 9]), ref_return=5)
    assert report.trusted_episodes.tolist() == [False, False, True]
    assert report.trusted.sum() == 100
    exactly = episodes_of([1, 5, 9], sparse=True)  # strictly above: the second is not trusted
    with pytest.warns(UserWarning, match="only 1 of 3"):
        report = trust_trajectories(exactly, ref_return=5)
    assert report.trusted_episodes.tolist() == [False, False, True]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=11, max_size=150, unique=True))
def test_the_default_splits_returns_where_the_two_groups_are_tightest(returns):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that everything is trusted, say
        report = trust_trajectories(episodes_of(returns, length=2))
    ordered, least = np.sort(returns), max(-(-len(returns) // 10), 10)
    spread = {  # by brute force: the squares left within the groups
        k: ordered[:-k].var() * (len(returns) - k) + ordered[-k:].var() * k
        for k in range(least, len(returns))
    }
    kept = int(report.trusted_episodes.sum())
    assert kept >= least
    assert spread[kept] <= min(spread.values()) + 1e-6
    best = ordered[-kept:]
    assert sorted(np.array(returns)[report.trusted_episodes]) == list(best)
    assert abs(report.cut - best[0]) < 1e-2


def test_the_default_trusts_all_good_drivers_and_not_the_lucky_tenth():
    mixed = trust_trajectories(pendulum_mix("mixed-20", rng=0))
    assert 18 <= mixed.trusted_episodes.sum() <= 24
    expert = trust_trajectories(pendulum_mix("expert", rng=0))
    assert expert.trusted_episodes.sum() > 40


def test_sparse_rewards_trust_the_episodes_that_end_in_success():
    data = pointmaze_mix("mixed-20", rng=0)
    report = trust_trajectories(data)
    np.testing.assert_array_equal(report.trusted_episodes, data.returns() > 0)
    assert "ends in success" in report.rule
    assert "in 20 of 100 episodes" in report.describe()
    costly = episodes_of([0, -1] * 20, sparse=True)  # -1 a failure, 0 a success, as some logs do
    assert trust_trajectories(costly, sparse=True).trusted_episodes.sum() == 20


def test_bad_input_sparse_without_success():
    data = pointmaze_mix("mixed-20", rng=0)
    failures = data.subset((data.returns() == 0)[data.episode_of])
    with pytest.raises(InputError, match="no success to trust"):
        trust_trajectories(failures, sparse=True)


def test_bad_input_reference_above_the_best_lists_the_quantiles():
    data = pendulum_mix("mixed-20", rng=0)
    with pytest.raises(InputError, match="ref_return=0 is not below the best return") as caught:
        trust_trajectories(data, ref_return=0)
    assert return_quantiles(data.returns()) in caught.value.hint
    assert "90 %" in caught.value.hint


def test_bad_input_reference_below_the_lowest_warns_that_selection_is_off():
    with pytest.warns(UserWarning, match="selection is off"):
        report = trust_trajectories(pendulum_mix("mixed-20", rng=0), ref_return=-1e5)
    assert report.share == 1
    assert "selection is off" in report.notes[0]


def test_few_trusted_episodes_are_warned_of():
    data = pendulum_mix("mixed-20", rng=0)
    fourth = np.sort(data.returns())[-5]
    with pytest.warns(UserWarning, match="only 4 of 100 episodes"):
        assert trust(data, "traj", ref_return=fourth).trusted_episodes.sum() == 4


def test_own_rules_and_masks():
    data = pendulum_mix("mixed-20", rng=0)
    by_episode = trust(data, lambda d: d.returns() > -500)
    by_row = trust(data, (data.returns() > -500)[data.episode_of])
    np.testing.assert_array_equal(by_episode.trusted, by_row.trusted)
    assert trust(data, "all").share == 1
    np.testing.assert_array_equal(trust(data, "auto").trusted, trust_trajectories(data).trusted)


def test_bad_input_rules_and_masks():
    data = pendulum_mix("expert", 10, rng=0)
    with pytest.raises(InputError, match="'trj' is not known"):
        trust(data, "trj")
    with pytest.raises(InputError, match=r"shape \(7,\)"):
        trust(data, np.ones(7, bool))
    with pytest.raises(InputError, match="holds int64"):
        trust(data, np.ones(10, int))
    with pytest.raises(InputError, match="nothing is trusted"):
        report_of_mask(data, np.zeros(10, bool), "own", "none")


def test_the_report_gives_the_trusted_beside_the_others():
    text = trust(pendulum_mix("mixed-20", rng=0), ref_return=-500).describe()
    assert "4,000 of 20,000 transitions (20 %) in 20 of 100 episodes: return above -500" in text
    assert "of the others" in text


def test_an_agent_and_a_comparison_take_d4rls_dictionary():
    log = pendulum_mix("mixed-20", 20, rng=0)
    given = {
        "observations": log.observations, "actions": log.actions, "rewards": log.rewards,
        "next_observations": log.next_observations, "terminals": log.terminals,
        "timeouts": log.timeouts,
    }  # fmt: skip
    agents = [
        SSAR(steps=4, hidden=(16, 16), batch=16).fit(data)
        for data in (given, OfflineDataset.from_arrays(**given))
    ]
    np.testing.assert_array_equal(*(a.predict(log.observations[:9]) for a in agents))
    tiny = Setting(steps=4, hidden=16, checkpoints=1)
    done = compare_arms(given, ["bc"], seeds=1, setting=tiny)
    assert np.isfinite(done["bc"][0]["estimate"])
