"""The estimator, its losses and its neighbours: what they learn, keep, refuse."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from practicum.errors import InputError
from practicum.generative.discrete_markov import (
    DMPM,
    RBM,
    BernoulliMixture,
    BitTable,
    ChowLiuTree,
    IndependentBits,
    MaskedDiffusion,
    correlation_error,
    cut_table,
    exact,
    frechet,
    process,
    sliced_wasserstein,
)
from practicum.generative.discrete_markov.networks import (
    BitMLP,
    BitUNet,
    Training,
    bit_loss,
    flip_logits,
    path_kl,
    train_denoiser,
)
from practicum.generative.discrete_markov.study import DiscreteMarkovStudy, codeword_law
from practicum.models.training import (
    Averaged,
    load_checkpoint,
    resolve_device,
    save_checkpoint,
    torch,
)
from practicum.study import Results, Scale
from practicum.study.spec import Outcome

RNG = np.random.default_rng(0)
FIRST = RNG.random(600) < 0.5
X = np.column_stack([FIRST, FIRST, ~FIRST, RNG.random(600) < 0.2])  # three agree, one is free
SMALL = {"hidden": 32, "layers": 2, "steps": 600, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return DMPM(**SMALL).fit(X)


class Oracle(torch.nn.Module):
    """The exact denoiser as a network: what flip_logits does is undone."""

    def __init__(self, mu0):
        super().__init__()
        self.law = torch.from_numpy(mu0.ravel())
        self.states = torch.from_numpy(exact.states(mu0.ndim))
        self.here = torch.nn.Parameter(torch.zeros(1))  # says which device

    def forward(self, signs, t):
        a = torch.exp(-2 * t.double())[:, None]
        differs = (signs > 0)[:, None] != self.states
        kernel = torch.where(differs, (1 - a[..., None]) / 2, (1 + a[..., None]) / 2).prod(dim=2)
        posterior = kernel * self.law
        posterior /= posterior.sum(dim=1, keepdim=True)
        d = (posterior[..., None] * differs).sum(dim=1)
        return (signs * (torch.log((1 - a) / (1 + a)) - torch.logit(d))).to(t.dtype)


def test_with_the_exact_denoiser_the_bound_is_tight():
    """Data average of the bound = -(entropy + KL of the horizon's law to uniform)."""
    mu0 = RNG.dirichlet(np.full(8, 2.0)).reshape(2, 2, 2)
    model = DMPM(steps=1, hidden=2, layers=1)
    model.table_, model.n_features_in_, model.network_ = None, 3, Oracle(mu0)
    rows = np.repeat(exact.states(3), 2000, axis=0)
    bounds = model.log_likelihood_bound(rows, n_times=64).reshape(8, 2000)
    noise = bounds.std(axis=1) / np.sqrt(2000)  # Monte-Carlo standard error, state by state
    left = exact.kl_from_uniform(exact.forward(mu0, 3.0))
    se = np.sqrt((mu0.ravel() ** 2) @ noise**2)
    assert se < 0.03
    exactly = -(exact.entropy(mu0) + left)
    assert mu0.ravel() @ bounds.mean(axis=1) == pytest.approx(exactly, abs=4 * se)
    assert (bounds.mean(axis=1) <= np.log(mu0.ravel()) + 4 * noise).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_is_a_bound_whatever_the_network(seed):
    mu0 = codeword_law(np.random.default_rng(seed), d=4, words=3)
    rows = exact.states(4)[np.random.default_rng(1).choice(16, 400, p=mu0.ravel())]
    model = DMPM(hidden=16, layers=1, steps=50 * (1 + seed), random_state=seed).fit(rows)
    bounds = model.log_likelihood_bound(np.repeat(exact.states(4), 60, axis=0), n_times=64)
    average = float(mu0.ravel() @ bounds.reshape(16, 60).mean(axis=1))
    assert average <= -exact.entropy(mu0) + 0.02


def test_the_bound_of_one_row_is_its_integral_also_where_a_bit_depends_on_itself():
    """Against all flips and a fine grid of times; a random network, which no flip leaves alone."""
    model = DMPM(hidden=8, layers=1, steps=1, lr=1e-6, random_state=3).fit(X[:, :3])
    with torch.no_grad():
        for weight in model.network_.parameters():
            weight.mul_(3.0)
    flips = torch.from_numpy(exact.states(3))
    u = (torch.arange(4000) + 0.5) / 4000
    t = 3.0 * u.square()
    total = torch.zeros(4000)
    with torch.inference_mode():
        for flipped in flips:
            chance = (1 - torch.exp(-2 * t)) / 2
            p = torch.where(flipped, chance[:, None], 1 - chance[:, None]).prod(dim=1)
            every = flipped.expand(4000, 3)
            total += p * path_kl(flip_logits(model.network_, every, t), every, t)
    rest = np.exp(-6.0)
    start = 3 * ((1 + rest) / 2 * np.log1p(rest) + (1 - rest) / 2 * np.log1p(-rest))
    exactly = -float((6.0 * u * total).mean()) - start  # of the row 0 0 0
    bounds = model.log_likelihood_bound(np.zeros((300, 3)), n_times=64)
    assert bounds.mean() == pytest.approx(exactly, abs=4 * bounds.std() / np.sqrt(300))
    assert bounds.std() < 0.5


def test_bounds_tell_rows_apart():
    """The same rows bounded with other noise come in the same order, or `rate` says nothing."""
    law = codeword_law(np.random.default_rng(0), d=8, words=3)
    rows = exact.states(8)[np.random.default_rng(1).choice(256, 1500, p=law.ravel())]
    model = DMPM(hidden=32, layers=2, steps=400, random_state=0).fit(rows)
    one, other = (model.log_likelihood_bound(rows[:300], n) for n in (64, 65))
    assert np.corrcoef(one, other)[0, 1] > 0.9  # .24 before flips were averaged over


def test_complete_rows_are_not_drawn_again(fitted, monkeypatch):
    holes = X[:50].astype(float)
    holes[[3, 7], 1] = np.nan
    drawn = []
    draw = fitted._draw
    monkeypatch.setattr(fitted, "_draw", lambda n, *rest: drawn.append(n) or draw(n, *rest))
    filled = fitted.impute(holes, n_draws=4, steps=4, random_state=0)
    assert drawn == [8]
    assert filled.shape == (4, 50, 4)
    there = ~np.isnan(holes)
    assert (filled[:, there] == X[:50][there]).all()
    assert (fitted.impute(X[:5], n_draws=2) == X[:5]).all()
    assert drawn == [8]


def test_it_learns_that_bits_agree(fitted):
    drawn = fitted.sample(2000, steps=16, random_state=1)
    agree = (drawn[:, 0] == drawn[:, 1]) & (drawn[:, 0] != drawn[:, 2])
    assert agree.mean() > 0.95
    assert drawn[:, 0].mean() == pytest.approx(FIRST.mean(), abs=0.06)
    assert drawn[:, 3].mean() == pytest.approx(X[:, 3].mean(), abs=0.06)


def test_a_point_mass_is_returned():
    point = np.tile(np.array([True, False, True, True, False]), (50, 1))
    with pytest.warns(UserWarning, match="all rows are equal"):
        model = DMPM(**SMALL).fit(point)
    drawn = model.sample(1000, steps=32, random_state=0)
    assert (drawn == point[0]).all(axis=1).mean() > 0.99


def test_missing_bits_follow_the_known_ones(fitted):
    holes = np.array([[1.0, np.nan, np.nan, np.nan], [0.0, np.nan, np.nan, 1.0]])
    filled = fitted.impute(holes, n_draws=200, random_state=0)
    assert filled.shape == (200, 2, 4)
    share = filled.mean(axis=0)
    assert share[0, 0] == 1
    assert share[1, 3] == 1
    # nearer to certainty than to chance: conditioning by replacement is approximate
    assert share[0, 1] > 0.75
    assert share[0, 2] < 0.25
    assert share[1, 1] < 0.25


def test_rounds_bring_missing_bits_to_agree(fitted):
    """One round is replacement, which conditions too weakly on bits that decide the others."""
    holes = np.array([[1.0, np.nan, np.nan, np.nan]])
    agree = {
        rounds: fitted.impute(holes, n_draws=400, rounds=rounds, random_state=0)[:, 0, 1].mean()
        for rounds in (1, 8)
    }
    assert agree[8] > agree[1] + 0.1


def test_rows_without_holes_come_back(fitted):
    np.testing.assert_array_equal(fitted.sample(given=X[:5].astype(float), steps=4), X[:5])


def test_the_same_seed_is_the_same_model():
    one, other = (DMPM(**{**SMALL, "steps": 40}).fit(X) for _ in range(2))
    np.testing.assert_array_equal(
        one.sample(50, steps=4, random_state=3), other.sample(50, steps=4, random_state=3)
    )


def test_a_saved_model_draws_the_same_bits(fitted, tmp_path):
    fitted.save(tmp_path / "m.safetensors")
    loaded = DMPM.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(
        loaded.sample(50, steps=4, random_state=3), fitted.sample(50, steps=4, random_state=3)
    )
    assert loaded.get_params() == fitted.get_params()


def test_arrays_sparse_and_frames_are_the_same_data(fitted):
    for same in (X.astype(int), sp.csr_matrix(X.astype(int)), X.astype(float)):
        model = DMPM(**{**SMALL, "steps": 20}).fit(same)
        reference = DMPM(**{**SMALL, "steps": 20}).fit(X)
        np.testing.assert_array_equal(
            model.sample(9, steps=2, random_state=0), reference.sample(9, steps=2, random_state=0)
        )


def test_a_frame_keeps_its_words():
    frame = pd.DataFrame({"vote": np.where(FIRST, "yes", "no"), "won": FIRST, "x": FIRST * 1})
    model = DMPM(**{**SMALL, "steps": 30}).fit(frame)
    drawn = model.sample_frame(20, steps=2, random_state=0)
    assert set(drawn["vote"]) <= {"yes", "no"}
    assert list(drawn) == ["vote", "won", "x"]
    assert model.score(frame) < 0


def test_relabelled_bits_train_alike():
    """Losses are equivariant: flipping a column flips what is learned of it."""
    t, flipped = torch.tensor([0.3]), torch.tensor([[True, False]])
    z = torch.tensor([[0.2, -0.4]])
    for loss in ("elbo", "ce", "l2", "score_l2"):
        one = bit_loss(z, flipped, t, t, loss)
        other = bit_loss(z.flip(1), flipped.flip(1), t, t, loss)
        assert one.item() == pytest.approx(other.item())


def test_path_kl_is_zero_where_the_rate_is_right():
    t = torch.tensor([0.5])
    sure = torch.tensor([[40.0, -40.0]])
    assert path_kl(sure, torch.tensor([[True, False]]), t).item() == pytest.approx(0, abs=1e-4)
    assert path_kl(-sure, torch.tensor([[True, False]]), t).item() > 1


@pytest.mark.parametrize("law", ["quadratic", "linear", "cosine"])
@pytest.mark.parametrize("loss", ["elbo", "ce", "l2", "score_l2"])
def test_every_loss_and_law_of_times_trains(loss, law):
    model = DMPM(**{**SMALL, "steps": 30, "loss": loss, "time_law": law}).fit(X)
    assert np.isfinite(model.loss_curve_).all()
    assert model.sample(5, steps=3).shape == (5, 4)


def test_images_go_through_a_unet():
    from sklearn.datasets import load_digits

    digits = load_digits().images[:64] > 7  # (n, 8, 8)
    model = DMPM(image_shape=(8, 8), hidden=32, steps=3, batch_size=16, random_state=0)
    with pytest.warns(UserWarning, match="constant"):
        model.fit(digits)
    assert model.sample(2, steps=2).shape == (2, 64)


def test_flip_probability_and_score_agree(fitted):
    d = fitted.flip_probability(X[:3], 0.5)
    assert d.shape == (3, 4)
    assert ((d > 0) & (d < 1)).all()
    np.testing.assert_allclose(
        fitted.discrete_score(X[:3], 0.5), process.discrete_score(d, np.exp(-1.0))
    )


def test_a_network_that_knows_nothing_says_so():
    """The offset alone is the denoiser of uniform bits."""
    net = BitMLP(2, 4, 1)
    for p in net.parameters():
        torch.nn.init.zeros_(p)
    t = torch.tensor([0.8])
    d = torch.sigmoid(flip_logits(net, torch.zeros(1, 2, dtype=torch.bool), t))
    assert d[0, 0].item() == pytest.approx((1 - np.exp(-1.6)) / 2, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "data", "words"),
    [
        ({}, [[0, 2], [1, 0]], "bits are 0 or 1"),
        ({}, [[0.3, 0.9], [1, 0]], "choose a threshold"),
        ({}, [[0, np.nan], [1, 0]], "is missing"),
        ({}, pd.DataFrame({"a": ["x", "y", "z"]}), "3 levels"),
        ({}, pd.DataFrame({"a": [1.5, 2.5, 3.5]}), "--cut"),
        ({}, np.array([["a", "b"]]), "words"),
        ({}, np.zeros((0, 3)), "shape"),
        ({"horizon": 0.5}, X, "remember"),
        ({"steps": 0}, X, "at least 1"),
        ({"lr": -1.0}, X, "lr"),
        ({"loss": "best"}, X, "not known"),
        ({"time_law": "cubic"}, X, "not known"),
        ({"image_shape": (3, 3)}, X, "is not 4 bits"),
        ({"device": "tpu9"}, X, "not known"),
        ({}, np.zeros((3, 2001), bool), "image_shape"),
    ],
)
def test_fit_refuses_bad_input(settings, data, words):
    model = DMPM(**{**SMALL, "steps": 2, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match=words):
            model.fit(data)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.sample(5, steps=0), "at least one call"),
        (lambda m: m.sample(5, sampler="best"), "not known"),
        (lambda m: m.sample(0), "at least 1"),
        (lambda m: m.sample(given=[[0, 1]]), "2 bits a row"),
        (lambda m: m.impute([[0, 1, 0, 3]]), "bits are 0 or 1"),
        (lambda m: m.impute(X.astype(float), n_draws=0), "at least 1"),
        (lambda m: m.sample(given=X.astype(float), rounds=0), "at least 1"),
        (lambda m: m.flip_probability(X, 0.0), "expected a time"),
        (lambda m: m.log_likelihood_bound(X, 0), "at least 1"),
    ],
)
def test_a_fitted_model_refuses_bad_input(fitted, call, words):
    with pytest.raises(InputError, match=words):
        call(fitted)


def test_constant_columns_are_named():
    with pytest.warns(UserWarning, match=r"1 of 2 columns are constant \(2\)"):
        DMPM(**{**SMALL, "steps": 2}).fit(np.array([[0, 1], [1, 1], [0, 1]]))


def test_binarize_is_a_threshold():
    model = DMPM(**{**SMALL, "steps": 2}, binarize=0.5).fit([[0.2, 0.9], [0.7, 0.1]])
    assert model.n_features_in_ == 2


# --- tables --------------------------------------------------------------------------------------


def test_a_table_goes_there_and_back():
    frame = pd.DataFrame({"a": ["yes", "no", "yes"], "b": [1, 0, 0], "c": [2.5, 9.0, 2.5]})
    table = BitTable.of(frame)
    bits = table.encode(frame)
    assert bits[:, 0].tolist() == [1, 0, 1]
    pd.testing.assert_frame_equal(table.decode(bits == 1), frame, check_dtype=False)
    assert BitTable.from_json(table.to_json()) == table


def test_unknown_levels_and_columns_are_named():
    table = BitTable.of(pd.DataFrame({"a": ["x", "y"]}))
    with pytest.raises(InputError, match=r"column 'a', row 2: found 'z'"):
        table.encode(pd.DataFrame({"a": ["x", "z"]}))
    with pytest.raises(InputError, match="columns missing: 'a'"):
        table.encode(pd.DataFrame({"b": ["x"]}))


def test_any_table_becomes_questions():
    frame = pd.DataFrame(
        {"h": [1.0, 2.0, 3.0, 9.0], "colour": ["r", "g", "b", "r"], "s": [0, 1, 1, 0]}
    )
    with pytest.warns(UserWarning, match="h, colour"):
        cut = cut_table(frame)
    assert list(cut) == ["h > 2.5", "colour = b", "colour = g", "colour = r", "s"]
    assert cut["h > 2.5"].tolist() == [False, False, True, True]
    with pytest.raises(InputError, match="levels"):
        cut_table(pd.DataFrame({"name": [f"n{i}" for i in range(30)]}))


# --- neighbours ----------------------------------------------------------------------------------


def test_the_tree_is_exact_on_a_chain():
    rng = np.random.default_rng(0)
    x = np.zeros((20_000, 4), bool)
    x[:, 0] = rng.random(len(x)) < 0.5
    for j in range(1, 4):
        x[:, j] = x[:, j - 1] ^ (rng.random(len(x)) < 0.1)
    drawn = ChowLiuTree().fit(x).sample(20_000, rng)
    law, found = exact.empirical_law(x), exact.empirical_law(drawn)
    assert exact.total_variation(law, found) < 0.03


def test_the_trees_likelihood_is_a_law():
    tree = ChowLiuTree().fit(X)
    p = np.exp(tree.log_likelihood(exact.states(4)))
    assert p.sum() == pytest.approx(1.0)
    drawn = exact.empirical_law(tree.sample(40_000, np.random.default_rng(0)))
    assert exact.total_variation(drawn, p.reshape((2,) * 4)) < 0.01
    row = np.array([True, True, False, False])  # such bits are a tree: the law is the shares
    share = (row == X).all(axis=1).mean()
    assert tree.log_likelihood(row[None])[0] == pytest.approx(np.log(share), abs=0.01)


def test_the_mixture_finds_its_own_law():
    rng = np.random.default_rng(1)
    law = codeword_law(np.random.default_rng(5), d=6, words=3)
    x = exact.states(6)[rng.choice(64, 5000, p=law.ravel())]
    model = BernoulliMixture(rng=rng).fit(x)
    assert exact.total_variation(exact.empirical_law(model.sample(20_000, rng)), law) < 0.1
    independent = IndependentBits().fit(x)
    assert model.log_likelihood(x).mean() > independent.log_likelihood(x).mean() + 0.3


def test_the_rbm_sees_pairs():
    rng = np.random.default_rng(0)
    drawn = RBM(16, n_iter=20, gibbs=100).fit(X).sample(2000, rng)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.8


def test_masked_diffusion_learns_and_bounds():
    model = MaskedDiffusion(32, 2, steps=600, random_state=0).fit(X)
    drawn = model.sample(2000, np.random.default_rng(0), nfe=16)
    assert (drawn[:, 0] == drawn[:, 1]).mean() > 0.9
    q = X[:, 3].mean()
    entropy = np.log(2) - q * np.log(q) - (1 - q) * np.log(1 - q)
    assert model.log_likelihood_bound(X).mean() == pytest.approx(-entropy, abs=0.15)
    with pytest.raises(InputError, match="at least one"):
        model.sample(2, np.random.default_rng(0), nfe=0)


def test_distances_vanish_on_the_same_sample_and_see_dependence():
    rng = np.random.default_rng(0)
    shuffled = rng.permuted(X, axis=0)
    assert sliced_wasserstein(X, X, rng) == 0
    assert correlation_error(X, X) == 0
    assert correlation_error(shuffled, X) == pytest.approx(1, abs=0.1)
    assert sliced_wasserstein(X, shuffled, rng) > 0.05
    a = rng.normal(size=(4000, 3))
    assert frechet(a, 2 * a) == pytest.approx(3, abs=0.2)  # (2 - 1)^2 a dimension
    for distance in (lambda p, q: sliced_wasserstein(p, q, rng), correlation_error):
        with pytest.raises(InputError, match="same bits"):
            distance(X, X[:, :2])


# --- claims --------------------------------------------------------------------------------------


def results(cells):
    """Outcomes of made-up cells: dataset, arm -> one curve or number a seed."""
    study, outcomes = DiscreteMarkovStudy(), []
    for (dataset, arm), values in cells.items():
        for seed, value in enumerate(values):
            trial = study.trial(dataset, arm, seed)
            if np.ndim(value):
                outcomes.append(Outcome(trial, {}, {"frechet_by_calls": np.array(value)}))
            else:
                outcomes.append(Outcome(trial, {"tv": value, "floor": 0.0}))
    return Results(outcomes, Scale("cpu"))


NOISE = np.random.default_rng(0).normal(0, 0.01, (8, 5))


@pytest.mark.parametrize(
    ("gain", "status"),  # masked minus DMPM at 4, 8, 16, 32 and 64 calls
    [
        ([0.2] * 5, "reproduced"),
        ([-0.2] * 5, "not reproduced"),
        ([-0.2, -0.2, -0.2, 0.2, 0.2], "partly"),
        ([-0.2, -0.2, -0.2, 0.0, 0.0], "inconclusive"),
    ],
)
def test_competitive_is_refuted_only_at_every_budget(gain, status):
    cells = {("digits", "dmpm"): 1 + NOISE, ("digits", "masked"): 1 - NOISE + np.array(gain)}
    assert DiscreteMarkovStudy.claims["C6"](results(cells)).status == status


@pytest.mark.parametrize(("ours", "status"), [(0.2, "reproduced"), (0.6, "not reproduced")])
def test_learning_is_half_of_independent_bits(ours, status):
    cells = {}
    for dataset in ("codewords", "parity"):
        cells[dataset, "dmpm"] = ours + NOISE[:, 0]
        cells[dataset, "independent"] = 0.7 + NOISE[:, 1]
    assert DiscreteMarkovStudy.claims["C5a"](results(cells)).status == status


@pytest.mark.parametrize(("ours", "status"), [(0.2, "reproduced"), (0.4, "not reproduced")])
def test_the_best_classical_model_is_the_one_to_beat(ours, status):
    cells = {}
    for dataset in ("codewords", "parity"):
        cells[dataset, "dmpm"] = ours + NOISE[:, 0]
        cells[dataset, "mixture"] = 0.3 + NOISE[:, 1]
        cells[dataset, "tree"] = 0.6 + NOISE[:, 2]
    assert DiscreteMarkovStudy.claims["C5b"](results(cells)).status == status


@pytest.mark.parametrize("name", ["identity_error", "mean_score", "flow_error"])
def test_one_identity_that_fails_refutes_the_theorem(name):
    study = DiscreteMarkovStudy()
    exactly = {"identity_error": 1e-15, "mean_score": 1e-16, "flow_error": 1e-16}
    for wrong, status in ((1e-15, "reproduced"), (1e-6, "not reproduced")):
        outcomes = [
            Outcome(study.trial("identities", "dmpm", seed), {**exactly, name: wrong})
            for seed in range(3)
        ]
        assert study.claims["C1"](Results(outcomes, Scale("cpu"))).status == status


# --- habits of training --------------------------------------------------------------------------


def test_averaged_weights_lag_behind():
    net = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(net.weight)
    average = Averaged(net, 0.9)
    torch.nn.init.ones_(net.weight)
    for _ in range(200):
        average.update(net)
    average.copy_to(net)
    assert net.weight.item() == pytest.approx(1, abs=1e-4)


def test_a_training_that_diverges_is_an_error():
    net = BitMLP(4, 8, 1)
    with pytest.raises(InputError, match="diverged"):
        train_denoiser(
            net, torch.from_numpy(X), horizon=3.0, loss="score_l2", time_law="linear",
            training=Training(steps=400, lr=1e30, clip=1e30), seed=0,
        )  # fmt: skip


def test_checkpoints_are_checked(tmp_path):
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, {"w": torch.ones(2)}, {"a": 1})
    state, config = load_checkpoint(path)
    assert state["w"].tolist() == [1, 1]
    assert config == {"a": 1}
    with pytest.raises(InputError, match="holds a None, not a DMPM"):
        DMPM.load(path)
    with pytest.raises(InputError, match="no such file"):
        load_checkpoint(tmp_path / "none")
    (tmp_path / "junk").write_bytes(b"junk" * 99)
    with pytest.raises(InputError, match="no model"):
        load_checkpoint(tmp_path / "junk")
    with pytest.raises(InputError, match="cannot write"):
        save_checkpoint(tmp_path / "no" / "where", {}, {})
    assert not list(tmp_path.glob(".*"))


def test_devices_by_name():
    assert resolve_device("cpu").type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="not on this machine"):
            resolve_device("cuda")


def test_unets_need_images_that_halve():
    with pytest.raises(InputError, match="halve"):
        BitUNet((7, 8))


def test_a_paper_scale_cell_at_tiny_size():
    study = DiscreteMarkovStudy()
    trial = study.trial(
        "digits", "dmpm", 0, rows=0, unet=True, hidden=32, steps=2, drawn=20, passes=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = study.run(trial)
    assert metrics["frechet_by_calls"].shape == (5,)


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture
def votes(tmp_path):
    frame = pd.DataFrame(np.where(X, "yes", "no"), columns=["a", "b", "c", "d"])
    frame.to_csv(tmp_path / "votes.csv", index=False)
    frame.iloc[0, 1] = None
    frame.to_csv(tmp_path / "holes.csv", index=False)
    return frame


def test_the_command_fits_draws_fills_and_rates(practicum, votes, tmp_path):
    use = ("use", "discrete-markov")
    done = practicum(*use, "fit", "votes.csv", "--steps", 300, "--hidden", 32, "--out", "m.st")
    assert "Log-likelihood of 60 rows held out" in done.stdout
    practicum(*use, "sample", "m.st", "-n", 30, "--nfe", 4, "--out", "s.csv")
    drawn = pd.read_csv(tmp_path / "s.csv")
    assert drawn.shape == (30, 4)
    assert set(drawn["a"]) <= {"yes", "no"}
    done = practicum(*use, "impute", "m.st", "holes.csv", "--draws", 3)
    assert "1 empty cells in 1 of 600 rows" in done.stdout
    filled = pd.read_csv(tmp_path / "imputed.csv")
    assert len(filled) == 1800
    assert filled["b"].notna().all()
    practicum(*use, "rate", "m.st", "votes.csv")
    assert (pd.read_csv(tmp_path / "rated.csv")["log_likelihood_bound"] < 0).all()


def test_fit_says_why_a_model_is_not_ahead(practicum, tmp_path):
    """Bits of chance: there is nothing to know, and more steps make it worse."""
    chance = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (100, 10)))
    chance.columns = [f"q{j}" for j in range(10)]
    chance.to_csv(tmp_path / "chance.csv", index=False)
    use = ("use", "discrete-markov", "fit", "chance.csv", "--holdout", 0.3)
    done = practicum(*use, "--steps", 1500)
    assert "a Chow-Liu tree" in done.stdout
    assert "The model knows less than the marginals (-" in done.stdout
    assert "it has learned its own rows by heart" in done.stdout
    assert "Fewer --steps" in done.stdout
    done = practicum(*use, "--steps", 1)
    assert "more --steps, or more rows." in done.stdout


def test_fitting_tells_how_far_it_is(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from practicum.generative.discrete_markov.command import app

    monkeypatch.setattr("practicum.study.command.SECONDS_BETWEEN_LINES", 0)
    pd.DataFrame(RNG.random((80, 3)) < 0.5).to_csv(tmp_path / "t.csv", index=False)
    words = ("--steps", "60", "--hidden", "16", "--out", str(tmp_path / "m.st"))
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), *words])
    first, last = done.stderr.splitlines()
    assert re.match(r"1 of 60 steps, loss \d\.\d{3}", first)
    assert re.match(r"51 of 60 steps, loss \d\.\d{3}", last)


def test_rare_levels_and_cut_tables_go_through_every_command(practicum, tmp_path):
    frame = pd.DataFrame({"size": RNG.normal(size=80), "seen": np.where(FIRST[:80], "yes", "no")})
    frame["rare"] = ["yes"] + ["no"] * 79
    frame.to_csv(tmp_path / "t.csv", index=False)
    use = ("use", "discrete-markov")
    practicum(*use, "fit", "t.csv", "--cut", "--steps", 5, "--out", "new/m.st", "--seed", 1)
    practicum(*use, "rate", "new/m.st", "t.csv")
    frame.loc[3, "size"] = None
    frame.to_csv(tmp_path / "holes.csv", index=False)
    assert "1 empty cells in 1 of 80" in practicum(*use, "impute", "new/m.st", "holes.csv").stdout


def test_a_damaged_model_is_refused(fitted, tmp_path):
    state = {**fitted.network_.state_dict()}
    state["body.0.bias"] = state["body.0.bias"] * np.nan
    save_checkpoint(tmp_path / "d", state, {"model": "DMPM"})
    with pytest.raises(InputError, match="damaged"):
        DMPM.load(tmp_path / "d")


def test_the_command_refuses_bad_input_in_one_line(practicum, votes, tmp_path):
    pd.DataFrame({"x": [1.5, 2.5, 3.5]}).to_csv(tmp_path / "numbers.csv", index=False)
    for arguments, words in (
        (("fit", "holes.csv"), "empty cells"),
        (("fit", "numbers.csv"), "numbers.csv: column 'x' has 3 levels"),
        (("fit", "none.csv"), "no such file"),
        (("fit", "votes.csv", "--holdout", 2), "--holdout"),
        (("sample", "votes.csv"), "no model"),
        (("fit", "votes.csv", "--out", "."), "is a folder"),
    ):
        done = practicum("use", "discrete-markov", *arguments, code=2)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        assert len(errors) == 1
        assert words in errors[0]
