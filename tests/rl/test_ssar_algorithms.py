"""Anchors of the paper file, learners, estimators, bad input."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from practicum.data.offline import OfflineDataset
from practicum.errors import InputError
from practicum.models.stacked import single_thread
from practicum.rl.ssar import (
    CQL,
    IQL,
    SSAR,
    TD3BC,
    Baseline,
    BehaviourCloning,
    Normalizer,
    Pendulum,
    Regularization,
    Replay,
    Setting,
    Sizes,
    compare_arms,
    cosine_decay,
    finetune_online,
    fitted_q_evaluation,
    linear_decay,
    pendulum_mix,
    policy_of,
    train,
    trust_by_advantage,
    trust_trajectories,
)
from practicum.rl.ssar.experiments import Job, build_stack, family_of, run_jobs
from practicum.rl.ssar.iql import expectile_loss
from practicum.rl.ssar.learner import seed_of
from practicum.rl.ssar.online import kept_rows
from practicum.rl.ssar.regularizer import (
    Coefficient,
    ThresholdSchedule,
    conservative_gap,
    deterministic_margin,
    gaussian_edge,
    gaussian_log_density,
    gaussian_margin,
    scaled_beta_rate,
    tanh_log_density,
)
from practicum.rl.ssar.td3bc import policy_loss

PLAIN = Regularization(0.4, adaptive=False, select=False, restrict=False)
TINY = Sizes(3, 1, hidden=(16, 16), beta_hidden=(16, 16), steps=40)


@pytest.fixture(autouse=True)
def _one_thread():
    with single_thread():
        yield


@pytest.fixture(scope="module")
def log():
    return pendulum_mix("mixed-20", 20, rng=0)


def batch_of(log, n=64, members=1, trusted=None):
    masks = None if trusted is None else [trusted] * members
    return Replay([log], [0] * members, [0] * members, batch=n, trusted=masks).sample()


# --- the anchors of the paper file ----------------------------------------------------------------


def test_anchor_1_the_identity():
    gap = conservative_gap(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 2).item()
    assert gap == pytest.approx(0.40760596, abs=1e-8)
    policy = np.exp([1, 2, 3]) / np.exp([1, 2, 3]).sum()
    assert gap == pytest.approx(-math.log(policy[2]), abs=1e-12)


@settings(deadline=None, max_examples=50)
@given(arrays(np.float64, (4, 5), elements=st.floats(-50, 50)), st.integers(0, 4))
def test_the_identity_holds_for_any_table(q, action):
    log_policy = torch.log_softmax(torch.as_tensor(q), dim=-1)[:, action]
    gap = conservative_gap(torch.as_tensor(q), action)
    torch.testing.assert_close(gap, -log_policy, rtol=0, atol=1e-12)


def coefficient(rules, lr=1e-3, period=1):
    return Coefficient(rules, [0] * len(rules), 3, (16, 16), lr, period)


def test_anchor_2_beta_starts_at_beta0_and_stays_inside():
    assert 1.5 * 0.4 / (1 + math.exp(-0.6931)) == pytest.approx(0.39999, abs=1e-5)
    beta = coefficient([Regularization(0.4)])
    assert beta(torch.zeros(1, 8, 3))[0, 0].item() == pytest.approx(0.39999, abs=1e-5)
    with torch.no_grad():
        for p in beta.network.parameters():
            p.mul_(50)
    far = beta(1000 * torch.randn(1, 512, 3))
    assert far.min() >= 0
    assert far.max() <= 0.6


@pytest.mark.parametrize(("action", "margin"), [(0.7, 0.0), (0.8, -0.05), (0.6, 0.03)])
def test_anchor_3_margin_of_a_deterministic_policy(action, margin):
    pi, a = torch.tensor([[[0.5]]]), torch.tensor([[[action]]])
    found = deterministic_margin(pi, a, torch.tensor([2.0])).item()
    assert found == pytest.approx(margin, abs=1e-6)


@pytest.mark.parametrize(("action", "rises"), [(0.8, True), (0.6, False)])
def test_anchor_3_beta_moves_as_the_margin_says(action, rises):
    beta = coefficient([Regularization(0.4)])
    s, trusted = torch.randn(1, 64, 3), torch.ones(1, 64)
    before = beta(s).mean()
    margin = deterministic_margin(
        torch.full((1, 64, 1), 0.5), torch.full((1, 64, 1), action), torch.tensor([2.0])
    )
    for _ in range(5):
        beta.teach(s, margin, trusted)
    assert (beta(s).mean() > before) == rises


def test_anchor_4_the_distance_is_clamped():
    far = deterministic_margin(torch.tensor([[[0.9]]]), torch.tensor([[[-0.9]]]), torch.zeros(1))
    assert far.item() == pytest.approx(-1.0, abs=1e-6)


def test_anchor_5_without_trust_and_adaptivity_it_is_td3bc(log):
    """The published loss -lambda Q + MSE, lambda = alpha/mean|Q|, is ours times alpha."""
    alpha = 2.5
    learner = TD3BC(TINY, [0], [PLAIN])
    batch = batch_of(log)
    action = learner.policy(batch.states).tanh()
    q = learner.critic(torch.cat([batch.states, action], -1), copy=0).squeeze(-1)
    weight = learner.coefficient.weight(batch.states, batch.trusted)
    assert torch.equal(weight, torch.full_like(weight, 1 / alpha))
    ours = torch.autograd.grad(
        policy_loss(q, action, batch.actions, weight).sum(),
        list(learner.policy.parameters()),
        retain_graph=True,
    )
    published = -alpha / q.abs().mean().detach() * q.mean() + (action - batch.actions).pow(2).mean()
    theirs = torch.autograd.grad(published, list(learner.policy.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(alpha * a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [TD3BC, CQL])
def test_anchor_6_no_trusted_pair_no_constraint(log, kind):
    learner = kind(TINY, [0], [Regularization(0.4)])
    batch = batch_of(log, trusted=np.zeros(len(log), bool))
    assert (learner.coefficient.weight(batch.states, batch.trusted) == 0).all()
    for _ in range(4):
        learner.update(batch)
    for net in learner.networks().values():
        assert all(torch.isfinite(p).all() for p in net.parameters())
    pi = learner.act(batch.states)
    pull = policy_loss(torch.ones(1, 64), pi, batch.actions, torch.zeros(1, 64))
    assert pull.item() == -1.0, "only -mean Q / mean|Q| is left"


def test_anchor_7_the_threshold_schedule():
    schedule = ThresholdSchedule(torch.tensor([1.0, 1.0]), torch.tensor([3.0, 1.5]), 2)
    seen = [schedule.n.clone()]
    for _ in range(40):
        schedule.see(torch.full((2, 4), -0.1), torch.ones(2, 4))
        seen.append(schedule.n.clone())
    path = torch.stack(seen)
    assert (path.diff(dim=0) >= 0).all()
    assert torch.equal(path[20], torch.tensor([3.0, 1.5])), "ten increments, exactly"
    assert torch.equal(path[-1], path[20])
    schedule = ThresholdSchedule(torch.tensor([1.0]), torch.tensor([3.0]), 1)
    for margin in (-1.0, 1.0, -1.0, -1.0):
        schedule.see(torch.full((1, 4), margin), torch.ones(1, 4))
    assert schedule.n.item() == pytest.approx(1.2)
    assert schedule.stopped.all()


def test_the_schedule_looks_at_trusted_pairs_only():
    schedule = ThresholdSchedule(torch.tensor([1.0]), torch.tensor([3.0]), 1)
    margin, counted = torch.tensor([[5.0, -1.0]]), torch.tensor([[0.0, 1.0]])
    schedule.see(margin, counted)
    assert schedule.n.item() == pytest.approx(1.2)
    schedule.see(margin, 0 * counted)
    assert schedule.n.item() == pytest.approx(1.2), "no trusted pair: nothing is learned"


def test_anchor_8_the_edge_of_a_plain_gaussian():
    """With a tiny std the tanh is linear and unclipped: -n^2/2 - log(s sqrt(2 pi))."""
    n, s = 1.5, 1e-3
    z = torch.zeros(1, 1, 1, dtype=torch.float64)
    expected = -(n**2) / 2 - math.log(s * math.sqrt(2 * math.pi))
    assert gaussian_edge(z, z + math.log(s), n).item() == pytest.approx(expected, abs=1e-5)
    edges = [
        gaussian_log_density(z + sign * n * s, z, z + math.log(s)).item() for sign in (1.0, -1.0)
    ]
    assert edges[0] == edges[1] == pytest.approx(expected, abs=1e-12)


def test_anchor_9_selection_by_return():
    rewards, ends = np.repeat([1.0, 5.0, 9.0], 4) / 4, np.tile([0, 0, 0, 1], 3)
    states = np.random.default_rng(0).normal(size=(13, 2))
    data = OfflineDataset.from_arrays(
        states[:-1], 0.1 * states[:-1, :1].clip(-1, 1), rewards, ends,
        next_observations=states[1:], force=True,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = trust_trajectories(data, ref_return=5.0)
    assert report.trusted_episodes.tolist() == [False, False, True]


def test_anchor_10_decay():
    assert linear_decay(100_000, 400_000) == 0.75
    assert cosine_decay(100_000, 400_000) == pytest.approx(0.92388, abs=1e-5)
    assert linear_decay(10**9, 400_000) == cosine_decay(10**9, 400_000) == 0
    assert linear_decay(10**9, -1) == cosine_decay(10**9, -1) == 1


# --- the pieces -----------------------------------------------------------------------------------


def test_tanh_density_integrates_to_one():
    a = torch.linspace(-0.9999, 0.9999, 20_001, dtype=torch.float64)[:, None]
    m, ls = torch.full_like(a, 0.3), torch.full_like(a, -0.5)
    mass = torch.trapezoid(tanh_log_density(a, m, ls).exp()[:, 0], a[:, 0])
    assert mass.item() == pytest.approx(1, abs=1e-3)


def test_gaussian_margin_has_the_sign_of_the_distance():
    mean, log_std = torch.zeros(1, 3, 1), torch.full((1, 3, 1), -3.0)
    a = torch.tensor([[[0.0], [0.049], [0.3]]])
    margin = gaussian_margin(a, mean, log_std, torch.ones(1))[0]
    assert margin[0] > margin[1] > 0 > margin[2]
    worst = gaussian_margin(torch.full((1, 3, 1), -1.0), mean, log_std, torch.ones(1))
    assert (worst >= -500).all(), "floored at ten deviations"


def test_beta_rate_keeps_the_published_movement():
    assert scaled_beta_rate(500_000, 512) == 3e-8
    assert scaled_beta_rate(5000, 64) == pytest.approx(2.4e-5)
    assert scaled_beta_rate(1_000_000, 512, 1e-8, 1e6) == 1e-8


def test_expectile_half_is_half_the_squared_error():
    u = torch.randn(3, 50)
    torch.testing.assert_close(
        expectile_loss(u, torch.full((3,), 0.5)), 0.5 * u.square().mean(dim=1)
    )


def test_switches_do_what_they_say():
    rules = [
        Regularization(0.4),
        Regularization(0.4, restrict=False),
        Regularization(0.4, adaptive=False, select=False, restrict=True),
        PLAIN,
    ]
    beta = coefficient(rules)
    s, trusted = torch.randn(4, 32, 3), torch.zeros(4, 32)
    trusted[:, :16] = 1
    weight = beta.weight(s, trusted)
    assert (weight[0, 16:] == 0).all()
    assert (weight[1, 16:] > 0).all()
    assert (weight[2, 16:] == 0).all()
    assert (weight[2, :16] == torch.tensor(0.4)).all()
    assert (weight[3] == torch.tensor(0.4)).all()
    before = beta(s)
    beta.teach(s, torch.full((4, 32), -1.0), 0 * trusted)  # nothing trusted teaches nothing
    assert torch.equal(beta(s)[2:], before[2:])
    beta.frozen = True
    beta.teach(s, torch.full((4, 32), -1.0), trusted)
    beta.scale = torch.full((4,), 0.5)
    torch.testing.assert_close(beta(s)[3], torch.full((32,), 0.2))


def test_only_trusted_pairs_teach_a_selective_beta():
    selective, open_to_all = (coefficient([Regularization(0.4, select=on)]) for on in (True, False))
    s = torch.randn(1, 32, 3)
    trusted = (torch.arange(32) < 16).float()[None]
    margin = torch.where(trusted > 0, 1.0, -9.0)  # the trusted say fall, the others rise
    before = selective(s).mean()
    for _ in range(10):
        selective.teach(s, margin, trusted)
        open_to_all.teach(s, margin, trusted)
    assert selective(s).mean() < before < open_to_all(s).mean()


# --- learners -------------------------------------------------------------------------------------


def learners():
    both = [Regularization(0.4), PLAIN]
    return {
        "td3bc": lambda seeds, k: TD3BC(TINY, seeds, [both[i % 2] for i in k]),
        "cql": lambda seeds, k: CQL(TINY, seeds, [both[i % 2] for i in k], n_actions=2),
        "iql": lambda seeds, k: IQL(TINY, seeds, [0.7 + 0.05 * (i % 2) for i in k]),
        "bc": lambda seeds, k: BehaviourCloning(TINY, seeds),
    }


@pytest.mark.parametrize("kind", ["td3bc", "cql", "iql", "bc"])
def test_a_member_trains_the_same_alone_and_in_a_stack(log, kind):
    """The contract of run_many: to the last bit, whoever else is in the stack."""
    logs = [log, pendulum_mix("expert", 10, rng=1)]
    members = [(seed, k) for seed in (0, 1) for k in (0, 1)]

    def go(chosen):
        seeds, rules = [m[0] for m in chosen], [m[1] for m in chosen]
        sets = sorted(set(seeds))
        learner = learners()[kind](seeds, rules)
        of = [sets.index(s) for s in seeds]
        masks = [logs[s].observations[:, 0] > 0 for s in seeds]
        replay = Replay([logs[s] for s in sets], of, seeds, batch=32, trusted=masks)
        train(learner, replay, 25)
        policy = policy_of(learner, replay)
        return learner, policy(np.stack([log.observations[:16]] * len(seeds)))

    whole, acts = go(members)
    for chosen in ([0], [3], [1, 2]):
        part, own = go([members[i] for i in chosen])
        np.testing.assert_array_equal(own, acts[chosen])
        for name, net in whole.networks().items():
            pairs = zip(
                net.select(chosen).parameters(), part.networks()[name].parameters(), strict=True
            )
            assert all(torch.equal(a, b) for a, b in pairs), name


def test_cloning_recovers_a_linear_driver():
    rng = np.random.default_rng(0)
    s = rng.normal(size=(4001, 2)).astype(np.float32)
    after, s = s[1:], s[:-1]
    a = np.tanh(s @ np.array([[0.8], [-0.4]]))
    data = OfflineDataset.from_arrays(
        s, a, np.zeros(4000) + s[:, 0], np.zeros(4000), next_observations=after,
        timeouts=np.arange(4000) % 50 == 49,
    )  # fmt: skip
    learner = BehaviourCloning(Sizes(2, 1, hidden=(32, 32), lr=3e-3), [0])
    replay = Replay([data], [0], [0], batch=128)
    train(learner, replay, 400)
    off = policy_of(learner, replay)(s[None, :512]) - a[None, :512]
    assert np.sqrt((off**2).mean()) < 0.05


def test_fitted_q_evaluation_of_a_known_value():
    """Reward 1 for ever: every policy is worth 1/(1 - gamma), whatever it does."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=(2001, 3)).astype(np.float32)
    data = OfflineDataset.from_arrays(
        s[:-1], rng.uniform(-1, 1, (2000, 1)), np.ones(2000), np.zeros(2000),
        next_observations=s[1:], timeouts=np.arange(2000) % 100 == 99,
    )  # fmt: skip
    sizes = Sizes(3, 1, hidden=(32, 32), gamma=0.8, tau=0.02, lr=2e-3)
    learner = BehaviourCloning(sizes, [0, 1])
    replay = Replay([data], [0, 0], [0, 1], batch=64)
    found = fitted_q_evaluation(learner, replay, 800, [data.observations] * 2)
    np.testing.assert_allclose(found, 5.0, atol=0.25)


def test_terminals_stop_the_bootstrap_and_timeouts_do_not():
    s = np.zeros((64, 1), np.float32)
    flags = np.ones(64, bool)
    for terminals, timeouts, going in ((flags, ~flags, 0), (~flags, flags, 1)):
        data = OfflineDataset(s, s, s[:, 0], s, terminals, timeouts, -s[0] - 1, s[0] + 1)
        assert (Replay([data], [0], [0], batch=32).sample().going == going).all()


def test_trust_by_advantage_finds_the_better_action():
    """A bandit: action's sign decides the reward; half of the log does the right thing."""
    rng = np.random.default_rng(0)
    s, a = rng.normal(size=(3000, 2)), rng.uniform(-1, 1, (3000, 1))
    reward = np.sign(a[:, 0] * s[:, 0])
    data = OfflineDataset.from_arrays(s, a, reward, np.ones(3000), next_observations=s)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = trust_by_advantage(data, steps=800, hidden=(32, 32), batch=128, expectile=0.5)
    clear = np.abs(a[:, 0] * s[:, 0]) > 0.2
    assert (report.trusted == (reward > 0))[clear].mean() > 0.9


# --- estimators -----------------------------------------------------------------------------------


def small(**kw):
    return {"steps": 30, "hidden": (16, 16), "batch": 32, "gamma": 0.97, **kw}


AGENTS = {
    "ssar-td3bc": lambda: SSAR(**small(seeds=2, beta_hidden=(16,))),
    "ssar-cql": lambda: SSAR("cql", **small(seeds=2, beta_hidden=(16,))),
    "td3bc": lambda: SSAR(select=False, adaptive=False, restrict=False, **small()),
    "iql": lambda: Baseline("iql", **small(seeds=2)),
    "bc": lambda: Baseline("bc", **small()),
    "filtered-bc": lambda: Baseline("filtered-bc", **small()),
}


@pytest.mark.parametrize("name", AGENTS)
def test_saved_policies_act_bit_identically(log, name, tmp_path):
    agent = AGENTS[name]().fit(log)
    agent.save(tmp_path / "p.safetensors")
    loaded = type(agent).load(tmp_path / "p.safetensors")
    obs = log.observations[:100]
    for seed in range(agent.seeds):
        np.testing.assert_array_equal(loaded.predict(obs, seed), agent.predict(obs, seed))
    own, theirs = (x.evaluate(Pendulum(30), 16).returns for x in (agent, loaded))
    np.testing.assert_array_equal(own, theirs)
    if "bc" not in name or name.endswith("td3bc"):
        q = [x.q(obs, log.from_unit(log.actions[:100])) for x in (agent, loaded)]
        np.testing.assert_array_equal(*q)
    if name.startswith("ssar"):
        np.testing.assert_array_equal(agent.beta(obs), loaded.beta(obs))


def test_predict_speaks_the_units_of_the_log(log):
    agent = AGENTS["bc"]().fit(log)
    actions = agent.predict(log.observations[:50])
    assert np.abs(actions).max() <= 2
    assert actions.shape == (50, 1)
    one = agent.as_policy()(log.observations[0])
    assert one.shape == (1,)
    np.testing.assert_allclose(one, actions[0], atol=1e-6)


def test_history_and_estimate(log):
    agent = SSAR(**small(seeds=2, beta_hidden=(16,))).fit(log, Pendulum(20), eval_every=10)
    assert agent.history_["step"].tolist() == [10, 20, 30]
    for key in ("return", "q", "beta", "beta_low", "beta_high", "n"):
        assert agent.history_[key].shape == (3, 2), key
    assert agent.estimate(steps=5).shape == (2,)
    assert agent.trust_report_.share == trust_trajectories(log).share


def test_finetune_goes_on_and_decays(log):
    agent = SSAR(**small(seeds=2, beta_hidden=(16,))).fit(log)
    beta = agent.learner_.coefficient.network.weights[0].clone()
    agent.finetune(Pendulum(20), 40, decay_steps=80, eval_every=20, eval_episodes=2)
    assert agent.online_history_["step"].tolist() == [0, 20, 40]
    assert agent.online_history_["return"].shape == (3, 2)
    assert torch.equal(agent.learner_.coefficient.network.weights[0], beta), "frozen"
    assert agent.learner_.coefficient.scale.tolist() == [0.5, 0.5]


def test_a_loaded_agent_needs_the_log_to_go_on(log, tmp_path):
    SSAR(**small()).fit(log).save(tmp_path / "p")
    loaded = SSAR.load(tmp_path / "p")
    with pytest.raises(InputError, match="holds no log"):
        loaded.finetune(Pendulum(20), 5)
    loaded.finetune(Pendulum(20), 5, data=log, eval_episodes=1)


def test_online_buffer(log):
    rng = np.random.default_rng(0)
    shares = [kept_rows(log, b, rng).mean() for b in ("all", "half", "part", "none")]
    assert shares == [1, 0.5, 1, 0]
    replay = Replay([log], [0], [0], batch=32, room=2, keep=[kept_rows(log, "none", rng)])
    s = np.ones((1, 3), np.float32)
    replay.add(s, np.ones((1, 1)), np.ones(1), 2 * s, np.zeros(1, bool))
    batch = replay.sample()
    assert (batch.actions == 1).all()
    assert (batch.trusted == 1).all()
    norm = Normalizer.of(log.observations)
    np.testing.assert_allclose(batch.next_states[0, 0], norm(2 * s[0]), rtol=1e-6)


def test_td3bc_is_ssar_with_its_switches_off(log):
    one = SSAR(select=False, adaptive=False, restrict=False, **small()).fit(log)
    learner = TD3BC(one.learner_.sizes, [0], [PLAIN])
    train(learner, Replay([log], [0], [0], batch=32), 30)
    for a, b in zip(one.learner_.policy.parameters(), learner.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_selecting_members_keeps_their_policies(log):
    learner = TD3BC(TINY, [0, 1], [Regularization(0.4), PLAIN])
    replay = Replay([log], [0, 0], [0, 1], batch=32)
    train(learner, replay, 10)
    chosen = learner.select([1, 0, 0])
    s = torch.randn(3, 32, 3)
    expected = torch.stack([learner.act(s[[i, i]])[k] for i, k in enumerate((1, 0, 0))])
    assert torch.equal(chosen.act(s), expected)
    assert torch.equal(chosen.coefficient(s)[1:], torch.stack(
        [learner.coefficient(s[[i, i]])[0] for i in (1, 2)]
    ))  # fmt: skip
    train(chosen, Replay([log], [0] * 3, [0, 1, 2], batch=32), 2)


# --- arms side by side ----------------------------------------------------------------------------


def test_compare_arms_pairs_and_estimates(log):
    tiny = Setting(steps=12, cql_steps=6, hidden=16, batch=32, cql_batch=32, checkpoints=3)
    arms = ["ssar-td3bc", "td3bc-tuned", "ssar-cql", "iql", "bc", "filtered-bc"]
    done = compare_arms(log, arms, seeds=2, setting=tiny, env=Pendulum(20))
    for arm in arms:
        assert len(done[arm]) == 2
        assert done[arm][0]["returns"].shape == (3,)
    assert done["td3bc-tuned"][0]["by_setting"].shape == (4,)
    blind = compare_arms(log, ["bc", "td3bc"], seeds=2, setting=tiny)
    assert "estimate" in blind["bc"][0]
    assert "return" not in blind["bc"][0]


def test_tuned_arms_share_members_and_take_the_best(log):
    jobs = [Job(arm, log, 3) for arm in ("td3bc", "td3bc-tuned", "ssar-td3bc")]
    stack = build_stack(jobs, Setting(hidden=16))
    assert stack.of_job == [[0], [1, 0, 2, 3], [4]]
    assert stack.learner.members == 5
    tiny = Setting(steps=12, hidden=16, batch=32, checkpoints=3)
    one, tuned, _ = run_jobs(jobs, tiny, Pendulum(20))
    assert tuned["by_setting"][1] == pytest.approx(one["return"])
    assert tuned["return"] == tuned["by_setting"][tuned["chosen"]]


# --- bad input ------------------------------------------------------------------------------------


def test_refuses_bad_arguments():
    for bad, words in (
        ({"base": "sac"}, "td3bc or cql"),
        ({"beta0": -1.0}, "beta0"),
        ({"n_start": 4.0}, "n_start"),
        ({"beta_lr": "fast"}, "beta_lr"),
        ({"gamma": 1.5}, "discount"),
        ({"steps": 0}, "steps"),
        ({"seeds": 0}, "seeds"),
        ({"reward_scale": 0.0}, "reward_scale"),
    ):
        with pytest.raises(InputError, match=words):
            SSAR(**bad)
    with pytest.raises(InputError, match="filtered-bc"):
        Baseline("td3")
    with pytest.raises(InputError, match="expectiles"):
        IQL(TINY, [0], [1.0])
    with pytest.raises(InputError, match="no arm"):
        family_of("td3")


def test_refuses_bad_input_to_a_policy(log, tmp_path):
    agent = SSAR(**small())
    with pytest.raises(InputError, match="not fitted"):
        agent.predict(log.observations[:1])
    agent.fit(log)
    with pytest.raises(InputError, match="the log has 3 columns"):
        agent.predict(np.zeros((2, 4), np.float32))
    with pytest.raises(InputError, match="row 1 holds NaN"):
        agent.predict(np.array([[0, 0, 0], [0, np.nan, 0]], np.float32))
    with pytest.raises(InputError, match="there are 1 policies"):
        agent.predict(log.observations[:1], seed=1)
    with pytest.raises(InputError, match="one of all, half"):
        agent.finetune(Pendulum(20), 5, buffer="most")
    with pytest.raises(InputError, match=r"\(2,\).*\(3,\)|\(3,\).*\(2,\)"):
        agent.evaluate("PointMaze")
    with pytest.raises(InputError, match="has no critic"):
        Baseline("bc", **small()).fit(log).q(log.observations[:2], log.actions[:2])
    agent.save(tmp_path / "p")
    with pytest.raises(InputError, match="holds no Baseline"):
        Baseline.load(tmp_path / "p")
    with pytest.raises(InputError, match="no such file"):
        SSAR.load(tmp_path / "missing")


def test_refuses_members_that_do_not_fit(log):
    with pytest.raises(InputError, match="2 members"):
        train(BehaviourCloning(TINY, [0, 1]), Replay([log], [0], [0], batch=32), 1)
    with pytest.raises(InputError, match="trust bits"):
        Replay([log], [0], [0], trusted=[np.ones(5, bool)])
    replay = Replay([log], [0], [0], batch=32, room=5)
    with pytest.raises(InputError, match="no pull"):
        finetune_online(BehaviourCloning(TINY, [0]), replay, Pendulum(20), 5, decays=[], seeds=[0])
    assert seed_of(1, 2) != seed_of(2, 1)
