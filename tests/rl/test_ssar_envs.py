"""Simulators against Gymnasium's own, and evaluation of many policies at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.data.offline import read_offline
from practicum.errors import InputError
from practicum.rl.ssar.builder import OnlineSettings, build, train_online, write_minari
from practicum.rl.ssar.evaluation import evaluate, open_batch, random_returns
from practicum.rl.ssar.pendulum import Pendulum, expert, pendulum_mix
from practicum.rl.ssar.pointmaze import GOAL, WALL_END, WALL_HALF, PointMaze, pointmaze_mix, wander

gym = pytest.importorskip("gymnasium")


def gains(*values):
    """A stack of linear policies, each with its own gain: elementwise, so no sum is reordered."""
    k = np.array(values, np.float32)[:, None]

    def act(observations):
        return np.clip(k[..., None] * observations[..., 2:3] * observations[..., :1], -1, 1)

    return act


# --- simulators --------------------------------------------------------------------------------


def test_the_pendulum_is_gymnasiums_step_for_step():
    env, sim, rng = gym.make("Pendulum-v1").unwrapped, Pendulum(), np.random.default_rng(0)
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        state = np.tile(env.state, (7, 1))
        np.testing.assert_array_equal(sim.observe(state)[3], observation)
        for _ in range(200):
            action = rng.uniform(-3, 3, 1).astype(np.float32)
            observation, reward, *_ = env.step(action)
            state, rewards, terminated = sim.step(state, np.tile(action, (7, 1)))
            np.testing.assert_array_equal(state, np.tile(env.state, (7, 1)))
            # its scalar u**2 in float32 rounds differently from an array's now and then
            np.testing.assert_allclose(rewards, reward, rtol=0, atol=1e-9)
            assert not terminated.any()
            np.testing.assert_array_equal(sim.observe(state)[0], observation)


def test_the_pendulum_starts_where_gymnasiums_does():
    starts = Pendulum().start(np.random.default_rng(0), 10_000)
    assert (np.abs(starts) <= [np.pi, 1]).all()
    assert (np.abs(starts).max(axis=0) > [3.13, 0.99]).all()
    assert Pendulum.horizon == gym.spec("Pendulum-v1").max_episode_steps


def test_the_experts_pump_and_hold():
    sim, state = Pendulum(), np.array([[np.pi - 0.01, 0.0], [0.3, 0.0]])
    for _ in range(199):
        state, reward, _ = sim.step(
            state, expert(state, np.random.default_rng(0)).astype(np.float32)
        )
    assert (reward > -1e-2).all()


@settings(max_examples=200, deadline=None)
@given(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), st.tuples(st.floats(-3, 3), st.floats(-3, 3)))
def test_no_step_leads_into_a_wall_or_out_of_the_maze(place, action):
    x, y = place
    if x < WALL_END and abs(y) < WALL_HALF:
        return
    state, reward, reached = PointMaze().step(np.array([place]), np.array([action]))
    (x, y) = state[0]
    assert max(abs(x), abs(y)) <= 1
    assert not (x < WALL_END and abs(y) < WALL_HALF)
    assert np.abs(state[0] - place).max() <= 0.1 + 1e-12
    assert reward[0] == reached[0] == (np.hypot(*(state[0] - GOAL)) < 0.2)
    if x < WALL_END:  # never through the wall
        assert y * place[1] > 0 or place[0] >= WALL_END


def test_the_maze_cannot_be_solved_by_walking_straight_at_the_goal():
    def straight(observations):
        return np.sign(GOAL.astype(np.float32) - observations)

    assert not evaluate(straight, PointMaze(), episodes=20).terminated.any()


# --- evaluation --------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["Pendulum-v1", "gymnasium:Pendulum-v1"])
def test_a_policy_earns_the_same_alone_and_in_a_stack(env):
    stack = evaluate(gains(1, -0.5, 2, 0), env, policies=4, episodes=5, seed=3)
    for i, gain in enumerate((1, -0.5, 2, 0)):
        alone = evaluate(gains(gain), env, policies=1, episodes=5, seed=3)
        np.testing.assert_array_equal(alone.returns[0], stack.returns[i])
    again = evaluate(gains(1, -0.5, 2, 0), env, policies=4, episodes=5, seed=3)
    np.testing.assert_array_equal(again.returns, stack.returns)
    other = evaluate(gains(1, -0.5, 2, 0), env, policies=4, episodes=5, seed=4)
    assert (other.returns != stack.returns).any()


def test_more_episodes_leave_the_first_as_they_are():
    few, many = (evaluate(gains(1), "Pendulum-v1", episodes=e).returns[0] for e in (5, 9))
    np.testing.assert_array_equal(few, many[:5])


def test_ours_and_gymnasiums_pendulum_agree():
    ours, theirs = (
        evaluate(gains(1), env, episodes=60).returns[0]
        for env in ("Pendulum-v1", "gymnasium:Pendulum-v1")
    )
    spread = np.hypot(ours.std(), theirs.std()) / np.sqrt(60)
    assert abs(ours.mean() - theirs.mean()) < 4 * spread


def test_an_episode_counts_only_up_to_its_end():
    """Episodes of different lengths: what a finished one goes on to earn is left out."""
    rng = np.random.default_rng(0)

    def walk(observations):
        from practicum.rl.ssar.pointmaze import waypoints

        return waypoints(observations.astype(float), rng, 0.8)

    result = evaluate(walk, PointMaze(), policies=3, episodes=40)
    assert set(np.unique(result.returns)) <= {0.0, 1.0}
    np.testing.assert_array_equal(result.returns == 1, result.terminated)
    assert len(np.unique(result.lengths)) > 5


def test_a_stream_of_episodes_starts_anew_where_one_is_over():
    batch = open_batch(PointMaze(horizon=3), 2, 4)
    batch.reset([0, 0])
    for _ in range(3):
        step = batch.step(np.ones((2, 4, 2)))
    assert step.truncated.all()
    over = step.truncated.copy()
    over[1, 2:] = False
    fresh = batch.reset_where(over)
    np.testing.assert_array_equal(fresh[1, 2:], step.observations[1, 2:])
    assert (np.abs(fresh[0] - [-0.7, -0.6]) <= 0.1501).all()
    np.testing.assert_array_equal(fresh[0, :2], fresh[1, :2])  # each policy's stream is its own


def test_the_gymnasium_batch_starts_anew_where_one_is_over():
    batch = open_batch(lambda: gym.make("Pendulum-v1", max_episode_steps=4), 1, 3)
    first = batch.reset([5])
    for _ in range(4):
        step = batch.step(np.zeros((1, 3, 1)))
    assert step.truncated.all()
    assert (batch.reset_where(step.truncated) != first).any()
    assert not batch.step(np.zeros((1, 3, 1))).truncated.any()
    batch.close()


def test_torch_policies_and_other_environments():
    torch = pytest.importorskip("torch")

    def push(observations):
        return torch.ones(*observations.shape[:-1], 1)

    result = evaluate(push, "MountainCarContinuous-v0", policies=2, episodes=2)
    assert (result.lengths == 999).all()
    assert result.env == "MountainCarContinuous-v0"


def test_the_random_policy_is_the_reference():
    assert -1350 < random_returns("Pendulum-v1", episodes=200).mean() < -1120
    assert random_returns(PointMaze()).mean() < 0.05


def test_the_data_say_what_plus_one_means():
    """Bounds narrower than the environment's scale the actions down."""
    data = pendulum_mix("expert", 5, rng=0)
    half = type(data).from_arrays(
        data.observations, data.from_unit(data.actions) / 2, data.rewards, data.terminals,
        timeouts=data.timeouts, next_observations=data.next_observations, action_bounds=(-1, 1),
    )  # fmt: skip

    def full(observations):
        return np.ones((*observations.shape[:-1], 1))

    wide, narrow = (evaluate(full, "Pendulum-v1", data=d).returns for d in (data, half))
    assert (wide != narrow).all()


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["Pendulum-v1", "gymnasium:Pendulum-v1"])
def test_bad_input_spaces_that_do_not_match_the_data(env):
    data = pointmaze_mix("expert", 30, rng=0)
    with pytest.raises(InputError, match=r"shape \(3,\) in the environment and \(2,\) in pointm"):
        open_batch(env, 1, 1, data)
    with pytest.raises(InputError, match="observations have shape"):
        random_returns("PointMaze", data=pendulum_mix("expert", 10, rng=0))


def test_bad_input_environments():
    with pytest.raises(InputError, match="cannot make this environment") as caught:
        open_batch("Pendulm-v1", 1, 1)
    assert "did you mean 'Pendulum-v1'?" in caught.value.hint
    with pytest.raises(InputError, match="action space Discrete"):
        open_batch("CartPole-v1", 1, 1)
    with pytest.raises(InputError, match="at least one of each"):
        open_batch("Pendulum-v1", 0, 1)


def test_bad_input_policies():
    with pytest.raises(InputError, match="policy gave actions of shape"):
        evaluate(lambda o: np.zeros(3), "Pendulum-v1")
    with pytest.raises(InputError, match="did it diverge"):
        evaluate(lambda o: np.full((*o.shape[:-1], 1), np.nan), "Pendulum-v1")


def test_wandering_hardly_ever_reaches_the_goal():
    rng = np.random.default_rng(0)
    result = evaluate(lambda o: wander(o.astype(float), rng), PointMaze(), episodes=200)
    assert result.terminated.mean() < 0.05


# --- logs made by training online --------------------------------------------------------------

TINY = {"warmup": 100, "check_every": 100, "check_episodes": 1, "hidden": (16,), "batch": 32}


@pytest.mark.filterwarnings("ignore:.*too few")
def test_the_builder_records_every_stage_of_a_training_as_minari_sets(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    pytest.importorskip("mujoco")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    told = []
    settings = OnlineSettings(steps=300, transitions=250, **TINY)
    made = build("HalfCheetah-v5", settings=settings, progress=lambda *a: told.append(a))
    assert [step for step, _ in told] == [100, 200, 300]
    assert list(made) == ["random", "medium", "medium-replay", "expert"]
    assert len(made["expert"].data) == len(made["random"].data) == 250
    assert len(made["medium-replay"].data) == made["medium"].step
    for level, built in made.items():
        assert built.data.observations.shape[1] == 17
        write_minari(built.data, f"practicum/cheetah/{level}-v0", reference=(-280.0, 12000.0))
        data = read_offline(f"practicum/cheetah/{level}-v0", force=True)
        assert data.fingerprint == built.data.fingerprint
        assert data.env_id == "HalfCheetah-v5"
    again = build("HalfCheetah-v5", ["expert"], settings)["expert"].data
    assert again.fingerprint == made["expert"].data.fingerprint  # one seed, one log
    theirs = minari.load_dataset("practicum/cheetah/medium-v0", download=False)
    assert minari.get_normalized_score(theirs, np.array([-280.0])) == 0


@pytest.mark.slow
def test_the_online_trainer_learns_the_pendulum():
    settings = OnlineSettings(
        steps=9000, warmup=1000, check_every=1000, hidden=(64, 64), batch=64, lr=1e-3
    )
    _, stages = train_online("Pendulum-v1", settings)
    assert stages[0].mean_return < -900
    assert max(stage.mean_return for stage in stages) > -250


def test_a_short_training_is_warned_of():
    with pytest.warns(UserWarning, match="300 steps of training were too few"):
        build(PointMaze(), ["expert"], OnlineSettings(steps=300, transitions=50, **TINY))


def test_sets_of_our_own_simulators_are_stored_too(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = pointmaze_mix("mixed-20", 20, rng=0)
    write_minari(data, "maze/mixed-v0")
    again = read_offline("maze/mixed-v0")
    assert again.fingerprint == data.fingerprint
    with pytest.raises(InputError, match="is there already"):
        write_minari(data, "maze/mixed-v0")
    write_minari(pointmaze_mix("expert", 30, rng=0), "maze/mixed-v0", overwrite=True)
    assert read_offline("maze/mixed-v0").returns().mean() == 1


def test_bad_input_of_the_builder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(InputError, match="level 'meduim' is not known"):
        build("Pendulum-v1", ["meduim"])
    with pytest.raises(InputError, match="leaves nothing of steps"):
        OnlineSettings(steps=100)
    with pytest.raises(InputError, match="batch=0"):
        OnlineSettings(batch=0)
    with pytest.raises(InputError, match="is no Minari id"):
        write_minari(pendulum_mix("expert", 5, rng=0), "a b c!")
    with pytest.raises(InputError, match="cannot make this environment"):
        build("Hoper-v5", ["random"])
