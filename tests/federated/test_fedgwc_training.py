"""Local training does not depend on the stack; the ways to run a federation agree."""

import numpy as np
import pytest

from practicum.data.clients import LabelledImages, client_data, digits, partition
from practicum.errors import InputError
from practicum.federated.fedgwc import ClusterTree, LocalSGD, train_tree
from practicum.federated.fedgwc.baselines import run_cfl, run_ifca
from practicum.federated.fedgwc.experiments import Settings, measure, run_all
from practicum.federated.fedgwc.training import Cohort, cohorts_of, models_of, run_cohorts


@pytest.fixture(scope="module")
def plan():
    return partition(digits().labels, 12, "conflict", n_per_client=100, seed=1)


@pytest.fixture(scope="module")
def data(plan):
    return client_data(digits(), plan, n_test=30)


def test_numbers_do_not_depend_on_the_stack(data):
    sgd = LocalSGD(data, steps=4, batch_size=16)
    rng = np.random.default_rng(0)
    models = rng.normal(size=(60, *sgd.shape)).astype(np.float32)
    clients = rng.integers(12, size=60)
    together, losses = sgd.train(models, clients, round=3)
    for lane in (0, 17, 59):
        one, loss = LocalSGD(data, steps=4, batch_size=16).train(
            models[lane : lane + 1], clients[lane : lane + 1], round=3
        )
        np.testing.assert_array_equal(one[0], together[lane])
        np.testing.assert_array_equal(loss[0], losses[lane])


def test_a_client_alone_computes_what_it_computes_among_others(data):
    everyone = LocalSGD(data, steps=3)
    alone = LocalSGD(data.only(7), steps=3, ids=np.array([7]))
    start = everyone.initial()[None]
    ours, theirs = (sgd.train(start, np.array([7]), 5) for sgd in (everyone, alone))
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_the_gradient_is_that_of_cross_entropy(data):
    """One step on all of a client's data against finite differences of its loss."""
    n = data.train_x.shape[1]
    sgd = LocalSGD(data, steps=1, batch_size=n, learning_rate=1.0)
    rng = np.random.default_rng(0)
    start = (0.1 * rng.normal(size=sgd.shape)).astype(np.float32)
    moved, losses = sgd.train(start[None], np.array([4]), 0)
    gradient = (start - moved[0]).astype(float)
    assert losses[0, 0] == pytest.approx(sgd.losses(start[None], np.array([4]))[0], rel=1e-5)
    for i, j in [(0, 3), (5, 20), (9, 64)]:
        ends = []
        for sign in (1, -1):
            nudged = start.copy()
            nudged[i, j] += sign * 1e-2
            ends.append(sgd.losses(nudged[None], np.array([4]))[0])
        assert gradient[i, j] == pytest.approx((ends[0] - ends[1]) / 2e-2, abs=2e-3)


def test_the_proximal_term_holds_the_model_back(data):
    free, held = (LocalSGD(data, steps=20, proximal=mu) for mu in (0.0, 1.0))
    start = free.initial()[None]
    far, near = (np.linalg.norm(s.train(start, np.array([0]), 0)[0]) for s in (free, held))
    assert near < 0.9 * far


def test_small_clients_fill_their_batches(data):
    sgd = LocalSGD(data, steps=3, batch_size=500)
    assert np.isfinite(sgd.train(sgd.initial()[None], np.array([0]), 0)[1]).all()


def test_a_diverging_client_is_left_out_of_the_average(data):
    """It does not stop the run, and the others' model is what they alone would give."""

    class Broken(LocalSGD):
        def train(self, models, clients, round):
            trained, losses = super().train(models, clients, round)
            trained[clients == 2] = np.nan
            losses[clients == 2] = np.nan
            return trained, losses

    sgd = Broken(data, steps=2)
    whole = Cohort(np.arange(12), sgd.initial(), 6)
    seen = []
    run_cohorts(sgd, [whole], 12, observe=lambda c, t, clients, losses: seen.append(losses))
    assert np.isfinite(whole.model).all()
    assert np.isnan(seen[0][2]).all()
    others = Cohort(np.delete(np.arange(12), 2), sgd.initial(), 6)
    run_cohorts(LocalSGD(data, steps=2), [others], 12)
    np.testing.assert_array_equal(whole.model, others.model)


def test_until_it_splits_the_tree_is_federated_averaging(data):
    sgd = LocalSGD(data, steps=2)
    tree = ClusterTree(12, 4, estimator="ema", eps=1e-12)
    models = train_tree(tree, sgd, budget=40, initial=sgd.initial())
    whole = Cohort(np.arange(12), sgd.initial(), 10)
    run_cohorts(LocalSGD(data, steps=2), [whole], 4)
    np.testing.assert_array_equal(models, np.repeat(whole.model[None], 12, 0))


def test_cohorts_side_by_side_equal_cohorts_one_after_the_other(data):
    sgd = LocalSGD(data, steps=2)
    labels = data.groups
    together = cohorts_of(labels, sgd.initial(), 80, 4)
    run_cohorts(sgd, together, 4)
    for cohort in cohorts_of(labels, sgd.initial(), 80, 4):
        run_cohorts(sgd, [cohort], 4)
        twin = next(c for c in together if c.members[0] == cohort.members[0])
        np.testing.assert_array_equal(twin.model, cohort.model)


def test_budgets_are_spent_and_not_exceeded(data):
    sgd = LocalSGD(data, steps=1)
    for labels in (np.zeros(12, int), data.groups, np.arange(12)):
        cohorts = cohorts_of(labels, sgd.initial(), 96, 4)
        spent = sum(c.rounds * c.updates_per_round(4) for c in cohorts)
        assert spent == 96


def test_true_groups_beat_one_model_where_labels_contradict(data):
    settings = Settings(per_round=4, rounds=120, split_at=60)
    outcomes, log = run_all(
        lambda mu: LocalSGD(data, batch_size=16, learning_rate=0.1, proximal=mu),
        data.groups,
        settings,
        0,
    )
    cells = measure(outcomes, data, log, truth=True)
    assert cells["oracle"]["accuracy"] > cells["fedavg"]["accuracy"] + 0.2
    assert cells["joint"]["ari_split"] == 1
    # equal groupings are trained on equal draws
    assert cells["joint"]["accuracy"] == cells["oracle"]["accuracy"]
    assert cells["ifca"]["ari"] == cells["cfl"]["ari"] == 1
    assert cells["shuffled"]["accuracy"] < cells["oracle"]["accuracy"]


def test_ifca_without_a_spread_start_keeps_one_model(data):
    sgd = LocalSGD(data, steps=2)
    found = run_ifca(sgd, 2, rounds=3, per_round=4, init_scale=0.0)
    assert len(np.unique(found.labels)) == 1


def test_models_of_everybody(data):
    halves = cohorts_of(data.groups, np.zeros(3, np.float32), 0, 4)
    halves[1].model = np.ones(3, np.float32)
    np.testing.assert_array_equal(models_of(halves, 12)[:, 0], data.groups)


def test_the_convolutional_network_trains_clients_alone_and_together(monkeypatch):
    torch = pytest.importorskip("torch")
    from practicum.federated.fedgwc.cnn import LocalCNN

    rng = np.random.default_rng(0)
    images = LabelledImages(rng.random((120, 16, 16, 3), np.float32), np.arange(120) % 3, 3, "r")
    held = client_data(images, partition(images.labels, 4, "two", n_per_client=20), 8)
    cnn = LocalCNN(held, steps=3, batch_size=6, device="cpu")
    start = np.stack([cnn.initial()] * 3)
    models, losses = cnn.train(start, np.array([0, 2, 3]), 1)
    one, loss = cnn.train(start[:1], np.array([2]), 1)
    np.testing.assert_allclose(one[0], models[1], atol=1e-5)
    np.testing.assert_allclose(loss[0], losses[1], atol=1e-5)
    # against one plain torch step without augmentation
    plain = LocalCNN(held, steps=1, batch_size=12, augment=False, weight_decay=0.0, device="cpu")
    moved, _ = plain.train(start[:1], np.array([0]), 0)
    net = plain._net
    out = net(plain._x[0])
    torch.nn.functional.cross_entropy(out, plain._y[0]).backward()
    expected = torch.cat([(p - 0.01 * p.grad).reshape(-1) for p in net.parameters()])
    np.testing.assert_allclose(moved[0], expected.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: LocalSGD(d, steps=0), "steps 0"),
        (lambda d: LocalSGD(d, learning_rate=-1.0), "learning_rate -1"),
        (lambda d: run_cfl(LocalSGD(d), 5, 6), "split_at is 6"),
        (lambda d: run_ifca(LocalSGD(d), 0, 5, 3), "n_groups is 0"),
        (lambda d: Settings(per_round=3, rounds=5, split_at=5), "split_at is 5 of 5"),
        (lambda d: train_tree(ClusterTree(12, 4), LocalSGD(d), 3), "does not cover one round"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(data, call, message):
    with pytest.raises(InputError, match=message):
        call(data)
