"""The anchors of the paper's card: closed forms, special cases, identities, published numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.optimize.optimistic_ftrl import (
    FTRL,
    OGD,
    Ader,
    Ball,
    Box,
    CappedSimplex,
    CustomLosses,
    Fixed,
    Greedy,
    Hedge,
    L1Ball,
    LinearCosts,
    OptFPRL,
    OptimisticOGD,
    Product,
    Simplex,
    path_kappa,
    run_oco,
    run_parallel,
)
from practicum.optimize.optimistic_ftrl.experiments import (
    as_published,
    scenario_costs,
    scenario_hints,
)

DOMAINS = {
    "ball": lambda d: Ball(1.5, d),
    "box": lambda d: Box(-1.0, 2.0, dim=d),
    "simplex": Simplex,
    "capped simplex": lambda d: CappedSimplex(d, cap=2.0 / d),
    "l1 ball": lambda d: L1Ball(1.0, d),
    "product": lambda d: Product([Ball(1.0, 1), Simplex(d - 1)]),
}
RULES = ("recursive", "et", "observed_path", "known_path")


def make(domain, rule="recursive", **settings):
    if rule == "known_path":
        settings["path_length"] = 7.0
    return OptFPRL(domain, rule, **settings)


def play(learner, costs, hints=None):
    """Actions of a learner, by its public interface alone."""
    actions = []
    for t, cost in enumerate(costs):
        actions.append(learner.predict(None if hints is None else hints[t]))
        learner.update(cost)
    return np.array(actions)


def draw(seed, T=60, d=4, quality=1.0):
    rng = np.random.default_rng(seed)
    costs = rng.normal(size=(T, d)) + np.sign(np.sin(np.arange(T) / 7))[:, None]
    return costs, costs + quality * rng.normal(size=(T, d))


def regret(costs, actions, R=2.0):
    """Average dynamic regret on a ball around 0, written without the library."""
    return ((costs * actions).sum(axis=1) + R * np.linalg.norm(costs, axis=1)).mean()


# --- 1 to 6: what the update is ------------------------------------------------------------------


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("rule", ["recursive", "et"])
def test_recursion_equals_the_argmin_form_with_explicit_p(name, rule):
    """Algorithm of the card: explicit p, normal-cone vector, own sigma; against the recursion."""
    costs, hints = draw(1)
    X = DOMAINS[name](4)
    learner = make(X, rule)
    p, s, E, delta_sum, R, c = np.zeros(4), 0.0, 0.0, 0.0, X.radius, X.center
    for g, h in zip(costs, hints, strict=True):
        if s > 0:
            z = -(p + h) / s
            w = X.project(z + c) - c
            outside = np.linalg.norm(z - w) > 1e-12
        else:
            w, outside = X.linear_min(p + h) - c, bool((p + h).any())
        np.testing.assert_allclose(learner.predict(h), w + c, atol=1e-12)
        cone = -(p + h + s * w) if outside else np.zeros(4)
        before = p
        p = p + g + cone
        E += ((g - h) ** 2).sum()

        def objective(v, p=p, s=s):
            return p @ v + s / 2 * v @ v

        best = X.project(-p / s + c) - c if s > 0 else X.linear_min(p) - c
        delta = objective(w) - objective(best)
        assert delta >= -1e-9
        # the same delta as defined: h_{0:t-1}(x) + <p_t, x>, minus its minimum
        p_t = p - before
        assert delta == pytest.approx(
            before @ w + p_t @ w + s / 2 * w @ w - objective(best), abs=1e-9
        )
        delta_sum += delta
        s = delta_sum / (8 * R**2) if rule == "recursive" else np.sqrt(E) / (4 * R)
        learner.update(g)
        assert learner.sigma_ == pytest.approx(s, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["ball", "box", "simplex"])
def test_constant_sigma_without_hints_is_gradient_descent(name):
    costs, _ = draw(2)
    X = DOMAINS[name](4)
    pruned = play(OptFPRL(X, "constant", sigma=2.5), costs)
    np.testing.assert_allclose(pruned, play(OGD(X, step=1 / 2.5), costs), atol=1e-12)
    x = X.center  # and the descent itself, written out
    for action, g in zip(pruned, costs, strict=True):
        np.testing.assert_allclose(action, x, atol=1e-12)
        x = X.project(x - g / 2.5)


@pytest.mark.parametrize("name", DOMAINS)
def test_without_pruning_it_is_dual_averaging(name):
    costs, hints = draw(3)
    X = DOMAINS[name](4)
    lazy = play(OptFPRL(X, "constant", sigma=1.7, prune=0.0), costs, hints)
    total = np.cumsum(costs, axis=0) - costs
    expected = X.project(-(total + hints) / 1.7 + X.center)
    np.testing.assert_allclose(lazy, expected, atol=1e-12)
    np.testing.assert_allclose(lazy, play(FTRL(X, "constant", sigma=1.7), costs, hints), atol=0)


def test_interior_runs_need_no_pruning():
    """As long as the minimiser never leaves the set, OptFPRL is FTRL."""
    costs, hints = draw(4)
    X = Ball(1e4, 4)
    a, b = (OptFPRL(X, "constant", sigma=1.0, prune=p) for p in (1.0, 0.0))
    np.testing.assert_allclose(play(a, costs, hints), play(b, costs, hints), atol=1e-9)
    assert a.n_pruned_ == 0


def test_partial_pruning_lies_between_lazy_and_greedy():
    costs, hints = draw(5)
    X = Simplex(4)
    half = OptFPRL(X, "constant", sigma=1.0, prune=0.5)
    p = np.zeros(4)
    for g, h in zip(costs, hints, strict=True):
        w = half.predict(h) - X.center
        p = 0.5 * (g - h - w) + 0.5 * (p + g)
        half.update(g)
        np.testing.assert_allclose(half._p, p, atol=1e-12)


@pytest.mark.parametrize("rate", [0.1, 1.0, 30.0])
def test_entropy_geometry_is_hedge(rate):
    costs, hints = draw(6)
    X = Simplex(4)
    ours = OptFPRL(X, "constant", sigma=1 / rate, geometry="entropy")
    np.testing.assert_allclose(play(ours, costs), play(Hedge(X, rate=rate), costs), atol=1e-12)
    told = OptFPRL(X, "constant", sigma=1 / rate, geometry="entropy")
    hedge = Hedge(X, rate=rate, optimistic=True)
    np.testing.assert_allclose(play(told, costs, hints), play(hedge, costs, hints), atol=1e-12)
    weights = np.exp(-rate * (np.cumsum(costs, axis=0) - costs))  # exponential weights themselves
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(play(Hedge(X, rate=rate), costs), weights, atol=1e-12)


def test_entropy_geometry_with_the_recursive_rule_is_adahedge():
    """de Rooij et al. (2014), written out: eta = ln d / sum of mixability gaps."""
    costs, _ = draw(7)
    X = Simplex(4)
    hedge = play(Hedge(X), costs)
    np.testing.assert_allclose(
        play(OptFPRL(X, "recursive", geometry="entropy"), costs), hedge, atol=1e-12
    )
    total, gaps = np.zeros(4), 0.0
    for action, g in zip(hedge, costs, strict=True):
        weights = (total == total.min()) * 1.0
        if gaps:
            weights = np.exp(-(total - total.min()) * np.log(4) / gaps)
        weights /= weights.sum()
        np.testing.assert_allclose(action, weights, atol=1e-12)
        mixed = (total + g).min() - total.min()
        if gaps:
            eta = np.log(4) / gaps
            mixed = -np.log(weights @ np.exp(-eta * (g - g.min()))) / eta + g.min()
        gaps += weights @ g - mixed
        total = total + g


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", DOMAINS)
def test_the_state_stays_small(name, rule):
    """||p_{1:t}|| <= R sigma_{1:t-1} + ||e_t|| in every round."""
    costs, hints = draw(8)
    learner = make(DOMAINS[name](4), rule)
    done = run_oco(learner, costs, hints)
    limit = learner.domain.radius * done.sigma + done.errors
    assert (np.linalg.norm(done.states, axis=1) <= limit * (1 + 1e-12)).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", DOMAINS)
def test_perfect_hints_cost_nothing(name, rule):
    costs, _ = draw(9)
    done = run_oco(make(DOMAINS[name](4), rule), costs, lambda past: costs[past.t])
    assert abs(done.regret[-1]) < 1e-12 * len(costs)
    np.testing.assert_array_equal(done.actions[0], done.learner.domain.linear_min(costs[0]))
    assert done.learner.sigma_ == 0


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-6, 0.3, 1.0, 17.0, 1e8]))
def test_actions_do_not_depend_on_the_scale_of_costs(seed, scale):
    costs, hints = draw(seed, T=25)
    for rule in RULES:
        for X in (Ball(2.0, 4), Simplex(4)):
            a, b = make(X, rule), make(X, rule)
            np.testing.assert_allclose(
                play(a, costs, hints), play(b, scale * costs, scale * hints), atol=1e-6
            )
            assert b.sigma_ == pytest.approx(scale * a.sigma_, rel=1e-6)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_rotated_costs_rotate_the_actions_on_a_ball(seed):
    costs, hints = draw(seed, T=25)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))
    for rule in ("recursive", "et"):
        a = play(OptFPRL(Ball(1.0, 4), rule), costs, hints)
        b = play(OptFPRL(Ball(1.0, 4), rule), costs @ Q, hints @ Q)
        np.testing.assert_allclose(a @ Q, b, atol=1e-8)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(DOMAINS)))
def test_errors_cost_at_most_what_the_theory_says(seed, name):
    """0 <= delta_t <= min(2 R eps, eps^2 / (2 sigma)), and their sum <= sqrt(12) R sqrt(E)."""
    costs, hints = draw(seed, T=40, quality=2.0)
    learner = OptFPRL(DOMAINS[name](4))
    done = run_oco(learner, costs, hints)
    R, gaps = learner.domain.radius, done.gaps()
    assert (gaps >= 0).all()
    assert (gaps <= 2 * R * done.errors + 1e-9).all()
    later = done.sigma > 0
    limit = done.errors[later] ** 2 / (2 * done.sigma[later])
    assert (gaps[later] <= limit * (1 + 1e-9) + 1e-9).all()
    assert gaps.sum() <= np.sqrt(12) * R * np.sqrt(done.E) * (1 + 1e-9)
    assert learner.gap_ == pytest.approx(gaps.sum(), rel=1e-9)


# --- 8: the published numbers --------------------------------------------------------------------

STATED = {  # scenario: et, recursive, OGD, FTRL(et) of the card
    1: (0.0285, 0.0048, 0.0753, 3.2032),
    2: (0.2072, 0.0201, 0.5707, 5.6049),
    3: (0.4500, 0.0730, 1.2233, 10.4068),
    4: (3.9065, 2.2594, 7.4372, 8.0683),
    5: (0.8141, 0.7480, 0.8000, 0.8018),
}


@pytest.fixture(scope="module")
def together():
    """All five scenarios advanced as parallel runs: costs (5000, 5, 16)."""
    return np.stack([scenario_costs(k) for k in STATED], axis=1)


@pytest.mark.parametrize("arm", ["et", "recursive", "ogd", "ftrl"])
def test_scenarios_to_four_decimals(together, arm):
    X = Ball(2.0, 16)
    makers = {
        "et": lambda: OptFPRL(X, "et", n_runs=5),
        "recursive": lambda: OptFPRL(X, n_runs=5),
        "ogd": lambda: OGD(X, n_runs=5),
        "ftrl": lambda: FTRL(X, n_runs=5),
    }
    loss = run_parallel(makers[arm](), together).loss
    best = -2 * np.linalg.norm(together, axis=-1).sum(axis=0)
    column = list(makers).index(arm)
    expected = [STATED[k][column] for k in STATED]
    np.testing.assert_allclose((loss - best) / 5000, expected, atol=5.1e-5)


def test_scenario_6_to_four_decimals():
    costs = scenario_costs(6)
    hints = scenario_hints(6, costs)
    X = Ball(2.0, 16)
    assert regret(costs, play(OptFPRL(X, "et"), costs, hints)) == pytest.approx(0.8643, abs=5e-5)
    assert regret(costs, play(OptFPRL(X), costs, hints)) == pytest.approx(0.6487, abs=5e-5)


def test_published_program_reproduces_the_committed_results():
    """0.53428 and 3.14840: committed optfprl.npz and oogd.npz; 7.940 and 0.021: the figures."""
    costs = as_published(scenario_costs(6))
    hints = scenario_hints(6, costs)
    X = Ball(2.0, 16)
    official = OptFPRL(X, "et", variant="official_code")
    assert regret(costs, play(official, costs, hints)) == pytest.approx(0.53428, abs=5e-5)
    stale = OptimisticOGD(X, "official_code")
    assert regret(costs, play(stale, costs, hints)) == pytest.approx(3.1484, abs=2e-4)
    assert regret(costs, play(FTRL(X), costs, hints)) == pytest.approx(7.940, abs=1e-3)


def test_stale_pruning_vector_gives_the_published_curves(together):
    official = OptFPRL(Ball(2.0, 16), "et", variant="official_code", n_runs=5)
    best = -2 * np.linalg.norm(together, axis=-1).sum(axis=0)
    average = (run_parallel(official, together).loss - best) / 5000
    np.testing.assert_allclose(average[:4], [0.0175, 0.1164, 0.2075, 2.1908], atol=5.1e-5)
    assert average[4] == pytest.approx(1.44, abs=0.005)
    shifted = as_published(scenario_costs(1))
    one = OptFPRL(Ball(2.0, 16), "et", variant="official_code")
    assert regret(shifted, play(one, shifted)) == pytest.approx(0.021, abs=5e-4)


# --- rules, baselines, many runs -----------------------------------------------------------------


def test_kappa_minimises_its_bound():
    R, P = 1.3, 40.0
    kappa = path_kappa(R, P)

    def slope(k):
        return np.sqrt(2) / k + k * (R**2 / 2 + R * P)

    assert kappa <= 1 / (4 * R)
    assert slope(kappa) <= min(slope(kappa * 1.01), slope(kappa * 0.99))
    assert path_kappa(R, 0.0) == 1 / (4 * R)


def test_observed_path_follows_the_minimisers_seen():
    costs = np.array([[1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    learner = OptFPRL(Ball(1.0, 2), "observed_path")
    path = 0.0
    corner = [np.array(c) for c in ([-1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, -1.0])]
    sigma = 0.0
    for t, g in enumerate(costs):
        learner.predict()
        learner.update(g)
        path += np.linalg.norm(corner[t] - corner[t - 1]) if t else 0.0
        sigma = max(sigma, path_kappa(1.0, path) * np.sqrt(t + 1.0))
        assert learner.sigma_ == pytest.approx(sigma)


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize(
    "kind", ["recursive", "et", "observed_path", "ftrl", "ogd", "optogd", "ader", "greedy", "fixed"]
)
def test_many_runs_are_single_runs_to_the_bit(name, kind):
    rng = np.random.default_rng(10)
    costs = rng.normal(size=(40, 7, 4))
    costs[:10, 3] = 0.0  # a run that starts late
    hints = costs + rng.normal(size=costs.shape)
    X = DOMAINS[name](4)
    makers = {
        "ftrl": lambda n: FTRL(X, n_runs=n),
        "ogd": lambda n: OGD(X, n_runs=n),
        "optogd": lambda n: OptimisticOGD(X, n_runs=n),
        "ader": lambda n: Ader(X, 40, 5.0, n_runs=n),
        "greedy": lambda n: Greedy(X, n_runs=n),
        "fixed": lambda n: Fixed(X, n_runs=n),
    }
    maker = makers.get(kind, lambda n: make(X, kind, n_runs=n))
    together = play(maker(7), costs, hints)
    for b in (0, 3, 6):
        np.testing.assert_array_equal(play(maker(None), costs[:, b], hints[:, b]), together[:, b])


def test_ader_copies_and_weights():
    """Two rounds by hand: steps, prior, and the weight update on linearised losses."""
    X = Ball(1.0, 1)
    learner = Ader(X, horizon=10, grad_bound=2.0)
    N = int(np.ceil(0.5 * np.log2(1 + 10 / 2))) + 1
    steps = (2 / 2.0) * np.sqrt(7 / 80) * 2.0 ** np.arange(N)
    np.testing.assert_allclose(learner.steps, steps)
    i = np.arange(1, N + 1)
    weights = (1 + 1 / N) / (i * (i + 1))
    np.testing.assert_allclose(weights.sum(), 1.0)
    assert learner.predict()[0] == 0.0
    learner.update(np.array([1.5]))
    copies = np.clip(-steps * 1.5, -1, 1)
    assert learner.predict()[0] == pytest.approx(weights @ copies)
    learner.update(np.array([-1.0]))
    rate = np.sqrt(2 / (10 * 4.0**2))
    weights = weights * np.exp(-rate * -1.0 * copies)
    weights /= weights.sum()
    copies = np.clip(copies + steps, -1, 1)
    assert learner.predict()[0] == pytest.approx(weights @ copies)


def test_the_hint_may_come_with_the_update():
    costs, hints = draw(11)
    a = play(OptFPRL(Ball(1.0, 4)), costs, hints)
    learner, b = OptFPRL(Ball(1.0, 4)), []
    b.append(learner.predict(hints[0]))
    for t in range(len(costs)):
        learner.update(costs[t], hints[t + 1] if t + 1 < len(costs) else None)
        if t + 1 < len(costs):
            b.append(learner.predict())
    np.testing.assert_array_equal(a, np.array(b))


def test_restart_forgets_everything():
    costs, hints = draw(12)
    learner = OptFPRL(Simplex(4))
    first = play(learner, costs, hints)
    learner.restart()
    np.testing.assert_array_equal(first, play(learner, costs, hints))


def test_all_zero_costs_keep_the_centre():
    for rule in RULES:
        done = run_oco(make(Simplex(3), rule), np.zeros((20, 3)))
        np.testing.assert_array_equal(done.actions, np.full((20, 3), 1 / 3))
        assert done.learner.sigma_ == 0
        assert "centre" in done.notes[0]


def test_nonlinear_losses_use_the_gradient_at_the_action():
    target = np.array([0.3, -0.2])
    losses = CustomLosses(
        lambda t, x: float(((x - target) ** 2).sum() / 2), lambda t, x: x - target, 400, 2,
        minimizers=np.tile(target, (400, 1)),
    )  # fmt: skip
    done = run_oco(OptFPRL(Ball(1.0, 2)), losses)
    assert done.regret[-1] == pytest.approx(done.losses.sum())
    assert np.linalg.norm(done.actions[-1] - target) < 0.05
    assert done.regret[-1] <= done.bounds()["paper"]


def test_late_gradients_are_used_late():
    costs, _ = draw(13, T=30)
    X = Ball(1.0, 4)
    done = run_oco(OGD(X, step=0.1), costs, delay=3)
    np.testing.assert_array_equal(done.actions[:4], np.zeros((4, 4)))
    x = np.zeros(4)
    for t in range(3, 29):
        x = X.project(x - 0.1 * costs[t - 3])
        np.testing.assert_allclose(done.actions[t + 1], x, atol=1e-12)
    switch = np.where(np.arange(300) < 150, -1.0, 1.0)[:, None]
    quick, late = (run_oco(OptFPRL(Ball(1.0, 1)), switch, delay=k) for k in (0, 20))
    assert 0 <= quick.average_regret < late.average_regret < 0.3


def test_linear_costs_and_arrays_are_the_same_stream():
    costs, _ = draw(14)
    a = run_oco(OptFPRL(Simplex(4)), costs)
    b = run_oco(OptFPRL(Simplex(4)), LinearCosts(costs))
    np.testing.assert_array_equal(a.losses, b.losses)
