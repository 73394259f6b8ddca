"""Groups from matrices and logs; the clusters of a running federation."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from practicum.errors import InputError
from practicum.federated.fedgwc import (
    ClusterTree,
    LossClusterer,
    LossLog,
    as_loss_log,
    count_groups,
    gaussian_rewards,
    interaction_groups,
    published_split,
    split_by_losses,
    split_evidence,
)
from practicum.federated.fedgwc.baselines import descent_groups, trajectory_groups, update_groups
from practicum.federated.fedgwc.grouping import first_member_order, spectral_groups
from practicum.federated.fedgwc.tree_plot import WHOLE, draw_splits


def two_sided_log(seed=0, n_clients=12, per_round=6, rounds=240, noise=0.1):
    """Two groups whose losses move against each other."""
    rng, log = np.random.default_rng(seed), LossLog(n_clients)
    side = np.where(np.arange(n_clients) % 2, 1.0, -1.0)
    for t in range(rounds):
        clients = rng.choice(n_clients, per_round, replace=False)
        drift = 0.3 * rng.normal() * side[clients]
        log.add(t, clients, np.exp(drift + noise * rng.normal(size=per_round))[:, None])
    return log, (side > 0).astype(int)


@pytest.mark.parametrize("estimator", ["joint", "centred", "comovement"])
def test_our_estimators_find_two_groups_and_their_number(estimator):
    log, truth = two_sided_log(rounds=600)
    model = LossClusterer(estimator=estimator).fit(log)
    assert model.n_clusters_ == 2
    assert adjusted_rand_score(truth, model.labels_) == 1


def test_a_frame_and_a_log_give_the_same_groups():
    log, _ = two_sided_log()
    np.testing.assert_array_equal(
        LossClusterer(2).fit(log).labels_, LossClusterer(2).fit_predict(log.to_frame())
    )


def test_anchor_9_relabelling_clients_permutes_the_groups():
    log, truth = two_sided_log(seed=3)
    order = np.random.default_rng(0).permutation(12)
    other = LossLog(12)
    for t, (clients, losses, sizes) in enumerate(log):
        other.add(t, np.argsort(order)[clients], losses, sizes)
    labels, moved = LossClusterer(2).fit(log).labels_, LossClusterer(2).fit(other).labels_
    assert adjusted_rand_score(labels[order], moved) == 1
    assert adjusted_rand_score(truth, labels) == 1


def waves(groupings, seed=0, rounds=300, noise=0.1):
    """Round t moves the clients by the grouping whose turn it is."""
    k = len(groupings[0])
    rng, log = np.random.default_rng(seed), LossLog(k)
    for t in range(rounds):
        drift = 0.3 * rng.normal() * groupings[t % len(groupings)]
        log.add(t, np.arange(k), np.exp(drift + noise * rng.normal(size=k))[:, None])
    return log


def test_the_evidence_says_why_clients_are_split_or_not():
    halves = np.where(np.arange(12) % 2, 1.0, -1.0)
    blocks = np.where(np.arange(12) < 6, 1.0, -1.0)
    found = split_evidence(waves([halves]), "comovement")
    assert (found.reason, found.proposed, found.agreement) == ("groups", 2, 1.0)
    np.testing.assert_array_equal(found.labels, np.arange(12) % 2)
    # even rounds speak for one grouping, odd rounds for another: nothing repeats
    torn = split_evidence(waves([halves, blocks]), "comovement")
    assert torn.reason == "unstable"
    assert torn.agreement < 0.5
    assert torn.labels.max() == 0
    # three of forty that move together are no cut through the federation
    few = split_evidence(waves([np.eye(40)[:3].sum(0)], noise=0.3), "comovement")
    assert few.reason == "weak"
    assert few.share < 0.42
    assert split_evidence(waves([np.zeros(12)]), "comovement").reason == "noise"
    np.testing.assert_array_equal(split_by_losses(waves([halves])), np.arange(12) % 2)


def test_the_clusterer_takes_what_scikit_learn_takes():
    log, truth = two_sided_log()
    for state in (None, 0, np.random.RandomState(1)):
        assert adjusted_rand_score(truth, LossClusterer(random_state=state).fit(log).labels_) == 1
    columns = log.to_frame().to_dict("list")
    assert LossClusterer().fit(columns).evidence_.reason == "groups"
    assert LossClusterer(2).fit(log).evidence_ is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "0 groups of 12"),
        ({"n_clusters": 2.5}, r"2\.5 groups of 12"),
        ({"view": "diagonal"}, "'column' or 'row'"),
        ({"gamma": 0.0}, "gamma is 0"),
        ({"max_clusters": 0}, "max_clusters is 0"),
        ({"min_co_samples": -1}, "min_co_samples is -1"),
        ({"random_state": -1}, "random_state is -1"),
    ],
)
def test_bad_input_parameters_are_refused_whatever_the_estimator(options, message):
    log, _ = two_sided_log()
    model = LossClusterer().set_params(**options)
    with pytest.raises(InputError, match=message):
        model.fit(log)


def test_bad_input_a_tree_is_refused_before_the_run_not_at_its_first_split():
    with pytest.raises(InputError, match="view is 'diagonal'"):
        ClusterTree(12, 4, estimator="ema", view="diagonal")
    with pytest.raises(InputError, match="max_clusters is 0"):
        ClusterTree(12, 4, max_clusters=0)


@pytest.mark.parametrize("column", ["round", "client", "step"])
def test_bad_input_a_loss_without_its_place_is_named(column):
    frame = two_sided_log(rounds=20)[0].to_frame().astype({column: float})
    frame.loc[3, column] = np.nan
    with pytest.raises(InputError, match=f"column {column}, row 4: nothing there"):
        as_loss_log(frame)


def test_alike_clients_are_not_split():
    rng = np.random.default_rng(0)
    for seed in range(5):
        log = LossLog(16)
        rng = np.random.default_rng(seed)
        for t in range(300):
            clients = rng.choice(16, 5, replace=False)
            log.add(t, clients, np.exp(0.2 * rng.normal(size=(5, 4))))
        assert LossClusterer().fit(log).n_clusters_ == 1


def test_three_planted_groups_are_counted_and_found():
    truth = np.arange(18) % 3
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.normal(size=(18, 18))
    matrix = (truth[:, None] == truth[None, :]) - 1 / 3 + (noise + noise.T) / 2
    np.fill_diagonal(matrix, 0)
    assert count_groups(matrix, rng) == 3
    assert adjusted_rand_score(truth, interaction_groups(matrix, 3)) == 1


@pytest.mark.parametrize(
    ("n_clients", "per_round", "tried"),
    [(100, 10, [2, 3, 4]), (24, 6, [2, 3, 4]), (12, 4, [2, 3]), (12, 7, []), (20, 10, [2])],
)
def test_the_published_rule_tries_so_many_groups(monkeypatch, n_clients, per_round, tried):
    """The upper limit min(floor(K/m) + 1, 5) is exclusive; below K/m = 2 there is none."""
    asked = []

    def note(affinity, n_groups, seed):
        asked.append(n_groups)
        return np.arange(len(affinity)) % n_groups

    monkeypatch.setattr("practicum.federated.fedgwc.grouping.spectral_groups", note)
    affinity = np.random.default_rng(0).random((n_clients, n_clients))
    published_split((affinity + affinity.T) / 2, per_round)
    assert asked == tried


def test_the_published_rule_splits_blocks_and_leaves_a_uniform_affinity():
    blocks = np.kron(np.eye(2), np.ones((8, 8))) + 0.01
    np.fill_diagonal(blocks, 0)
    assert adjusted_rand_score(np.arange(16) // 8, published_split(blocks, per_round=4)) == 1
    noise = np.random.default_rng(0).uniform(0.98, 1, (24, 24))
    assert published_split((noise + noise.T) / 2, per_round=6).max() == 0


def test_spectral_groups_of_blocks():
    blocks = np.kron(np.eye(3), np.ones((4, 4))) + 0.01
    assert adjusted_rand_score(np.arange(12) // 4, spectral_groups(blocks, 3)) == 1


def test_groups_are_numbered_by_first_member():
    assert first_member_order(np.array([5, 5, 1, 3])).tolist() == [0, 0, 1, 2]


def test_cheap_groupings():
    log = LossLog(6)
    slow = np.array([[2.0, 1.9], [2.1, 2.0], [2.0, 1.9]])
    for t in range(30):
        log.add(t, np.arange(6), np.vstack([slow, slow - [[0.0, 1.0]]]))
    truth = [0, 0, 0, 1, 1, 1]
    assert descent_groups(log, 2).tolist() == truth
    assert trajectory_groups(log, 2).tolist() == truth
    updates = np.vstack([np.tile([1.0, 0.0], (3, 1)), np.tile([-1.0, 0.1], (3, 1))])
    assert update_groups(updates).tolist() == truth


# --- the tree ------------------------------------------------------------------------------------


def feed(tree, truth, rounds, seed=0):
    rng = np.random.default_rng(seed)
    side = np.where(truth, 1.0, -1.0)
    for t in range(rounds):
        for name in list(tree.clusters):
            clients = tree.sample(name, t)
            wave = 0.3 * rng.normal()
            noise = 0.1 * rng.normal(size=len(clients))
            tree.observe(name, t, clients, np.exp(side[clients] * wave + noise)[:, None])


def test_a_tree_splits_once_and_then_stays():
    truth = np.arange(16) % 2
    tree = ClusterTree(16, 5)
    feed(tree, truth, 700)
    assert adjusted_rand_score(truth, tree.labels) == 1
    assert sorted(tree.clusters) == ["0-0", "0-1"]
    assert tree.cluster_of(int(tree.clusters["0-1"][0])) == "0-1"


def test_a_tree_remembers_its_splits_and_draws_them():
    tree = ClusterTree(12, 6)
    rng, before = np.random.default_rng(0), None
    for t in range(200):
        for name in list(tree.clusters):
            clients = tree.sample(name, t)
            drift = 0.3 * rng.normal() * np.where(clients % 2, 1, -1)
            noise = 0.1 * rng.normal(size=len(clients))
            if tree.observe(name, t, clients, np.exp(drift + noise)[:, None]):
                before = t + 1  # rounds that the whole federation trained
    at, labels = tree.path()
    assert at == [before]
    assert tree.rounds == 200
    np.testing.assert_array_equal(labels, [np.zeros(12), np.arange(12) % 2])
    bars = tree.plot(names=[f"s{k}" for k in range(12)]).data
    assert [(bar.x[0], bar.x[1]) for bar in bars] == [(0, before), (before, 200), (before, 200)]
    assert bars[1].text == f"6 clients, rounds {before} to 200: s0, s2, s4, s6, s8, s10"


def test_a_split_of_the_last_round_is_seen():
    whole, *halves = draw_splits([50], np.array([[0, 0, 0, 0], [0, 1, 0, 1]]), 50).data
    assert whole.fillcolor == WHOLE
    assert [bar.name for bar in halves] == ["2 clients"] * 2
    assert all(max(bar.x) > 50 and bar.fillcolor != WHOLE for bar in halves)


def test_a_picture_of_splits_within_splits():
    """Two clusters split in one round; a bar spans its members, who lie side by side."""
    labels = np.array([[0, 0, 0, 0, 0], [0, 1, 0, 1, 1], [0, 1, 2, 1, 1], [0, 1, 2, 1, 3]])
    bars = draw_splits([10, 20, 20], labels, 50, groups=np.array([0, 1, 0, 1, 1])).data
    shown = {(bar.x[0], bar.x[1], bar.name) for bar in bars if bar.fill == "toself"}
    assert shown == {
        (0, 10, "5 clients"),
        (10, 20, "2 clients"),
        (10, 20, "3 clients"),
        (20, 50, "1 client"),
        (20, 50, "2 clients"),
    }
    for bar in bars:
        if bar.fill == "toself":
            assert bar.y[2] - bar.y[0] == pytest.approx(int(bar.name.split()[0]) - 0.1)
    assert sorted(bar.name for bar in bars if bar.fill is None) == ["true group 0", "true group 1"]
    with pytest.raises(InputError, match="one more expected"):
        draw_splits([10], labels, 50)
    with pytest.raises(InputError, match="2 names for 5 clients"):
        draw_splits([10, 20, 20], labels, 50, names=["a", "b"])


def test_a_published_child_inherits_its_block_and_small_children_are_never_split():
    tree = ClusterTree(12, 4, estimator="ema", eps=1.0)  # settles at once
    truth = np.arange(12) % 2
    rng = np.random.default_rng(0)
    before = None
    for t in range(400):
        if list(tree.clusters) != ["0"]:
            break
        before = tree.interaction()
        clients = tree.sample("0", t)
        level = np.where(truth[clients], 0.2, 2.0)
        tree.observe("0", t, clients, (level + 0.05 * rng.normal(size=4))[:, None])
    for name, members in tree.clusters.items():
        if name != "0":
            unmoved = tree.interaction(name)
            assert unmoved.shape == (len(members), len(members))
            assert np.isclose(unmoved, before[np.ix_(members, members)], atol=0.2).all()
            if len(members) <= 4:
                assert tree.observe(name, 0, members[:3], np.ones((min(3, len(members)), 1))) == []


def test_exploring_samples_everybody_equally_often():
    tree = ClusterTree(9, 3, explore=True)
    counts = np.bincount(np.concatenate([tree.sample("0", t) for t in range(60)]), minlength=9)
    assert counts.min() >= 17


def test_sampling_leaves_out_who_is_not_there():
    tree = ClusterTree(6, 3)
    assert set(tree.sample("0", 0, np.array([1, 4]))) == {1, 4}
    assert len(tree.sample("0", 0, np.array([], dtype=int))) == 0


# --- bad input -----------------------------------------------------------------------------------


def frame(rows):
    return pd.DataFrame(rows, columns=["round", "client", "step", "loss"])


def test_bad_input_fewer_than_three_clients_a_round_or_no_step():
    with pytest.raises(InputError, match="need 3 at least"):
        ClusterTree(10, 2)
    with pytest.raises(InputError, match="no local step"):
        LossLog(3).add(0, np.arange(3), np.ones((3, 0)))
    pairs = frame([(t, (t + i) % 4, 0, 1.0) for t in range(20) for i in range(2)])
    with pytest.raises(InputError, match="no round has 3 clients"):
        LossClusterer().fit(pairs)


def test_bad_input_a_ratio_below_two_warns_that_no_split_is_possible():
    with pytest.warns(UserWarning, match="no split is possible"):
        ClusterTree(7, 4, estimator="ema")
    log, _ = two_sided_log()
    with pytest.warns(UserWarning, match="splits nothing"):
        LossClusterer(estimator="ema").fit(two_sided_log(n_clients=10)[0])
    assert LossClusterer(estimator="ema").fit(log).labels_.shape == (12,)


def test_bad_input_too_few_rounds_says_how_many():
    log, _ = two_sided_log(rounds=12)
    with pytest.raises(InputError, match=r"at least 10 are needed.*rounds of this kind would do"):
        LossClusterer().fit(log)


def test_bad_input_pairs_that_never_met_are_listed():
    log = LossLog(5)
    rng = np.random.default_rng(0)
    for t in range(90):
        clients = np.array([[0, 1, 2], [0, 3, 4], [1, 3, 2]][t % 3])
        log.add(t, clients, np.exp(rng.normal(size=(3, 2))))
    with pytest.warns(UserWarning, match="never sampled together: 1-4, 2-4"):
        LossClusterer(2).fit(log)


def test_bad_input_diverged_losses_are_left_out_and_counted():
    rows = [(t, c, s, 1.0 + c) for t in range(5) for c in range(4) for s in range(2)]
    rows[3] = (*rows[3][:3], np.nan)
    rows[20] = (*rows[20][:3], np.inf)
    with pytest.warns(UserWarning, match="left out"):
        log = as_loss_log(frame(rows))
    assert log.excluded.sum() == 2
    assert len(log) == 18
    tree = ClusterTree(4, 3)
    rewards = tree.rewards_of(np.array([[1.0], [1.1], [0.9], [np.nan]]), np.ones(4))
    assert np.isnan(rewards[3])
    assert np.isfinite(rewards[:3]).all()


def test_one_diverged_client_would_have_flattened_every_other_reward():
    """Why diverged reports are left out."""
    fine = np.array([[1.0], [1.2], [0.7], [1.4]])
    blown = np.vstack([fine, [[1e6]]])
    assert gaussian_rewards(blown)[:4].min() > 0.88
    assert np.ptp(gaussian_rewards(blown)[:4]) < 1e-5 < np.ptp(gaussian_rewards(fine))


def test_bad_input_duplicates_and_missing_steps_are_named():
    rows = [(t, c, s, 1.0) for t in range(4) for c in "abc" for s in range(2)]
    with pytest.raises(InputError, match="round 0, client a, step 0 occurs twice"):
        LossClusterer().fit(frame([*rows, rows[0]]))
    with pytest.raises(InputError, match="client a reports 1 of 2 steps"):
        LossClusterer().fit(frame(rows[1:]))
    with pytest.raises(InputError, match="no column loss"):
        LossClusterer().fit(frame(rows).drop(columns="loss"))


def test_bad_input_a_client_that_reports_sums_is_pointed_out():
    rows = [(t, c, 0, 64.0 if c == 2 else 1.0) for t in range(30) for c in range(4)]
    with pytest.warns(UserWarning, match="client 2 reports losses of about 64"):
        LossClusterer(2).fit(frame(rows))


def test_bad_input_unknown_estimators_and_views():
    log, _ = two_sided_log()
    with pytest.raises(InputError, match="joint, centred, comovement, ema"):
        LossClusterer(estimator="magic").fit(log)
    with pytest.raises(InputError, match="'column' or 'row'"):
        LossClusterer(estimator="ema", view="diagonal").fit(log)
