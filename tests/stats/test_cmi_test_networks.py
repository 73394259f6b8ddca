"""The published networks: their loss, stacking, and the published test end to end."""

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.stats.cmi_test import ConditionalMeanTest, GaussianDesign

torch = pytest.importorskip("torch")
from practicum.stats.cmi_test import GenerativeNetwork, NetworkRegressor  # noqa: E402
from practicum.stats.cmi_test.networks import _Kernels  # noqa: E402


def data(seed, n=40, d=2, q=3):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, q))
    return z[:, :d] + 0.5 * rng.normal(size=(n, d)), z


def published_loss(x, z, draws, laplace_share):
    """``lambda_1 find_loss_g + lambda_2 find_loss_l`` of the official notebook, whole batch."""
    n = len(x)
    total = 0.0
    for share, p in ((1.0, 2), (laplace_share, 1)):

        def distance(a, b, p=p):
            return (
                torch.linalg.vector_norm(a[..., :, None, :] - b[..., None, :, :], ord=p, dim=-1)
                ** p
            )

        factor = 2.0 if p == 2 else 1.0
        of_z = distance(z, z)
        weight = torch.exp(-of_z / (factor * of_z.median())) * (1 - torch.eye(n))
        of_x = distance(x, x)
        sigma = factor * of_x.median()
        u = torch.exp(-of_x / sigma)
        cross = torch.exp(-distance(x, draws) / sigma).mean(0)
        u = u - cross - cross.T + torch.exp(-distance(draws, draws) / sigma).mean(0)
        total = total + share * (u * weight).sum() / n
    return total


def test_the_gradient_is_that_of_the_published_loss():
    x, z = (torch.from_numpy(a.astype(np.float32)) for a in data(0, n=12))
    start = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 12, 2)).astype(np.float32))
    wanted = start.clone().requires_grad_()
    published_loss(x, z, wanted, 0.25).backward()
    ours = start[None].clone().requires_grad_()
    rows = torch.arange(12)[None]
    _Kernels(x[None], z[None]).loss(ours, x[None], rows, 0.25).backward()
    np.testing.assert_allclose(ours.grad[0], wanted.grad, atol=2e-6)


@pytest.mark.parametrize("make", [GenerativeNetwork, NetworkRegressor])
@pytest.mark.parametrize("outputs", [1, 2])
def test_what_a_network_learns_does_not_depend_on_its_neighbours(make, outputs):
    tasks = [data(s, d=outputs) for s in range(3)]
    network = make(epochs=5)
    together = network.fit_stack(tasks, [7, 8, 9])
    alone = network.fit_stack(tasks[1:2], [8])[0]
    for a, b in zip(together[1].weights_, alone.weights_):
        np.testing.assert_allclose(a, b, atol=1e-6)  # BLAS may order sums by the stack's size


def test_tasks_of_different_sizes_are_stacked_by_size():
    network = NetworkRegressor(epochs=3)
    fits = network.fit_stack([data(0), data(1, n=30), data(2)], [0, 1, 2])
    single = network.fit_stack([data(1, n=30)], [1])[0]
    np.testing.assert_allclose(fits[1].weights_[0], single.weights_[0], atol=1e-6)


def test_the_generator_learns_mean_and_spread():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 1))
    x = 2 * z + 0.7 * rng.normal(size=(200, 1))
    network = GenerativeNetwork(epochs=250, seed=1).fit(x, z)
    draws = network.sample(np.array([[1.0]]), 2000, rng)
    assert draws.mean() == pytest.approx(2, abs=0.5)
    assert 0.3 < draws.std() < 1.2


def test_the_regression_learns():
    x, z = data(0, n=200, d=1)
    network = NetworkRegressor(epochs=600).fit(z, x[:, 0])
    assert 1 - np.mean((network.predict(z) - x[:, 0]) ** 2) / x.var() > 0.6


def test_the_published_test_end_to_end():
    """Its settings, with few epochs: contiguous halves, own scales, multipliers, no all-pairs."""
    x, y, z = GaussianDesign("linear-dense", 2.0, d=3).draw(120, np.random.default_rng(0))
    test = ConditionalMeanTest(
        generator=GenerativeNetwork(40),
        regression=NetworkRegressor(40),
        preset="paper",
        n_check=2,
        random_state=0,
    ).fit(x, y, z)
    r = test.result_
    assert (r.folds, r.draws, len(r.null), r.null_kind, r.preset) == (
        2,
        100,
        1000,
        "multiplier",
        "paper",
    )
    assert test.pvalue_ < 0.05
    assert r.mmd_reference is not None
    assert r.size_check in (0.0, 0.5, 1.0)
    again = ConditionalMeanTest(**test.get_params(deep=False)).fit(x, y, z)
    assert again.pvalue_ == test.pvalue_


def test_no_conclusion_from_a_generator_that_misses():
    """One epoch: the draws do not follow Z, and the result says so instead of a verdict."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(150, 1))
    x = 3 * z + 0.3 * rng.normal(size=(150, 1))
    y = z[:, 0] + rng.normal(size=150)
    test = ConditionalMeanTest(
        generator=GenerativeNetwork(1), draws=20, coordinates="raw", n_check=0, random_state=0
    ).fit(x, y, z)
    assert not test.result_.conclusive
    assert "No conclusion" in test.result_.sentence()


def test_bad_input_epochs_and_lengths():
    x, z = data(0)
    with pytest.raises(InputError, match="epochs=0"):
        GenerativeNetwork(0)
    with pytest.raises(InputError, match="seeds"):
        NetworkRegressor(1).fit_stack([(x, z)], [1, 2])
