"""Logged control data from every kind of source, and what is refused, warned of or rebuilt."""

import dataclasses
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import install_import_hook

with install_import_hook("practicum.data.offline", "beartype.beartype"):
    import practicum.data.offline  # noqa: F401
from practicum.data.offline import OfflineDataset, read_offline
from practicum.errors import InputError

EPISODES, STEPS = 24, 50


def log(episodes=EPISODES, steps=STEPS, ds=3, da=2, seed=0):
    """Arrays as a person logs them: one episode after the other, each cut off after ``steps``."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(episodes, steps + 1, ds))
    n = episodes * steps
    return {
        "observations": states[:, :-1].reshape(n, ds).copy(),
        "actions": rng.uniform(-1, 1, (n, da)),
        "rewards": rng.normal(size=n),
        "next_observations": states[:, 1:].reshape(n, ds),
        "terminals": np.zeros(n),
        "timeouts": np.tile(np.arange(steps) == steps - 1, episodes),
    }


def made(**changes):
    arrays = log() | changes
    return OfflineDataset.from_arrays(**{k: v for k, v in arrays.items() if v is not None})


def refused(**changes):
    with pytest.raises(InputError) as caught:
        made(name="log.npz", **changes)
    assert caught.value.message.startswith("log.npz"), caught.value.message
    return caught.value


# --- what is read ------------------------------------------------------------------------------


def test_a_clean_log_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = made()
    assert (len(data), data.episodes.shape, data.notes) == (1200, (EPISODES, 2), ())
    assert data.observations.dtype == data.actions.dtype == data.rewards.dtype == np.float32
    assert (data.episode_lengths() == STEPS).all()
    np.testing.assert_allclose(
        data.returns(), log()["rewards"].reshape(EPISODES, STEPS).sum(1), 1e-4
    )
    assert (data.episode_of == np.arange(1200) // STEPS).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from("tcj")), min_size=1, max_size=12))
def test_episodes_end_at_terminals_timeouts_and_jumps(parts):
    """However episodes end, their boundaries and returns are those of a plain loop."""
    rng = np.random.default_rng(0)
    obs, nxt, done, cut = [], [], [], []
    for length, how in parts:
        walk = rng.normal(size=(length + 1, 2))
        obs += [*walk[:-1]]
        nxt += [*walk[1:]]
        done += [False] * (length - 1) + [how == "t"]
        cut += [False] * (length - 1) + [how == "c"]
    rewards = rng.normal(size=len(obs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = OfflineDataset.from_arrays(
            np.array(obs), np.zeros((len(obs), 1)), rewards, np.array(done),
            timeouts=np.array(cut), next_observations=np.array(nxt), force=True,
        )  # fmt: skip
    assert data.episode_lengths().tolist() == [length for length, _ in parts]
    starts = np.cumsum([0, *(length for length, _ in parts)])
    sums = [rewards[a:b].sum() for a, b in pairwise(starts)]
    np.testing.assert_allclose(data.returns(), sums, rtol=1e-5, atol=1e-6)


def test_a_step_of_a_millionth_is_no_jump():
    arrays = log(1, 1200)
    arrays["observations"][600] += 1e-8
    arrays["timeouts"][:] = False
    with pytest.warns(UserWarning, match="one episode"):
        assert len(OfflineDataset.from_arrays(**arrays).episodes) == 1
    arrays["observations"][600] += 1e-3
    assert len(OfflineDataset.from_arrays(**arrays).episodes) == 2


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-1e3, 1e3), st.floats(0.01, 1e3), st.lists(st.floats(0, 1), min_size=1, max_size=5)
)
def test_actions_are_mapped_affinely_and_back(low, width, shares):
    data = made(actions=np.zeros((1200, 1)))
    data = dataclasses.replace(
        data, action_low=np.float32([low]), action_high=np.float32([low + width])
    )
    users = low + width * np.array(shares)[:, None]
    unit = data.to_unit(users)
    assert (np.abs(unit) <= 1).all()
    np.testing.assert_allclose(data.from_unit(unit), users, atol=1e-4 * (abs(low) + width))
    assert data.from_unit(np.float32([[-1]])).item() == np.float32(low)


def test_bounds_per_column_and_from_the_data():
    actions = np.stack([np.linspace(0, 10, 1200), np.linspace(-5, 5, 1200)], axis=1)
    data = made(actions=actions, action_bounds=([0, -5], [10, 5]))
    assert data.action_high.tolist() == [10, 5]
    assert (data.actions[[0, -1]] == [[-1, -1], [1, 1]]).all()
    assert made(actions=actions, action_bounds="data").fingerprint == data.fingerprint


def test_the_fingerprint_tells_contents_apart():
    one, other = made(), made(rewards=log()["rewards"] + 1)
    assert one.fingerprint == made().fingerprint != other.fingerprint
    assert len(one.fingerprint) == 16


def test_a_subset_keeps_episodes_apart():
    data = made()
    kept = data.subset(data.episode_of % 2 == 0)
    assert len(kept.episodes) == EPISODES // 2
    np.testing.assert_array_equal(kept.returns(), data.returns()[::2])
    with pytest.raises(InputError, match="no transition is left"):
        data.subset(np.zeros(1200, bool))


def test_the_description_says_size_ends_returns_and_bounds():
    text = made(name="pump").describe()
    assert "pump: 1,200 transitions in 24 episodes of 50 steps" in text
    assert "0 episodes end in a terminal state, 24 are cut off" in text
    assert "bounds [-1, 1], [-1, 1]" in text
    assert "highest" in text


# --- next observations that are missing --------------------------------------------------------


def test_missing_next_observations_are_rebuilt_and_what_is_lost_is_counted():
    with pytest.warns(UserWarning, match=r"24 of 1200 steps .* were dropped") as said:
        data = made(next_observations=None, force=True)
    assert str(said[0].message).split(": ", 1)[1] in data.notes
    assert (data.episode_lengths() == STEPS - 1).all()
    whole = made()
    kept = ~whole.timeouts
    np.testing.assert_array_equal(data.next_observations, whole.next_observations[kept])
    assert data.timeouts.sum() == EPISODES


def test_a_terminal_step_is_kept_without_a_next_observation():
    arrays = log()
    arrays["terminals"], arrays["timeouts"] = arrays["timeouts"], None
    with pytest.warns(UserWarning, match=r"0 of 1200 steps"):
        data = made(**arrays | {"next_observations": None})
    assert data.terminals.sum() == EPISODES
    np.testing.assert_allclose(data.returns(), made().returns())


def test_next_observations_beyond_a_terminal_state_may_be_empty():
    arrays = log()
    arrays["terminals"], arrays["timeouts"] = arrays["timeouts"], None
    arrays["next_observations"][arrays["terminals"]] = np.nan
    with pytest.warns(UserWarning, match="time limits"):
        assert np.isfinite(made(**arrays).next_observations).all()


def test_every_episode_one_step_long_cannot_be_rebuilt():
    error = refused(next_observations=None, timeouts=np.ones(1200))
    assert "cannot be rebuilt" in error.message


# --- bad input ---------------------------------------------------------------------------------


def test_bad_input_no_terminals_and_no_timeouts():
    error = refused(terminals=None, timeouts=None)
    assert "neither terminals nor timeouts" in error.message
    assert "episode=" in error.hint
    assert "jumps=True" in error.hint


def test_without_terminals_episodes_may_come_from_jumps_or_numbers():
    plain = {"terminals": None, "timeouts": None}
    with pytest.warns(UserWarning, match="24 episodes told apart by jumps"):
        assert len(made(**plain, jumps=True).episodes) == EPISODES
    names = np.repeat([f"run {i}" for i in range(EPISODES)], STEPS)
    with pytest.warns(UserWarning, match="no terminals"):
        assert len(made(**plain, episode=names).episodes) == EPISODES
    error = refused(**plain, jumps=True, next_observations=None)
    assert "next_observations" in error.message


def test_interleaved_episodes_are_brought_together():
    arrays = log()
    order = np.arange(1200).reshape(EPISODES, STEPS).T.ravel()  # two dozen machines, one clock
    mixed = {k: v[order] for k, v in arrays.items() if k not in ("terminals", "timeouts")}
    with pytest.warns(UserWarning, match="do not lie together"):
        data = made(**mixed, terminals=None, timeouts=None, episode=order // STEPS)
    np.testing.assert_allclose(data.returns(), made().returns())


def test_a_wrong_length_of_episode_numbers_is_refused():
    assert "episode has 7 rows" in refused(terminals=None, timeouts=None, episode=range(7)).message


@pytest.mark.parametrize(
    ("what", "value", "found"),
    [
        ("rewards", np.zeros(7), "rewards has shape (7,), expected (1200,)"),
        ("rewards", np.zeros((1200, 2)), "rewards has shape (1200, 2)"),
        ("actions", np.zeros((7, 2)), "actions has shape (7, 2), observations (1200, 3)"),
        ("observations", np.zeros((1200, 8, 8)), "observations has shape (1200, 8, 8)"),
        ("observations", np.zeros((0, 3)), "observations has shape (0, 3)"),
        ("next_observations", np.zeros((1200, 4)), "next_observations has shape (1200, 4)"),
        ("terminals", np.zeros(7), "terminals has shape (7,)"),
        ("terminals", np.full(1200, 3), "terminals holds 3 in row 0"),
        ("observations", np.array([["a"]] * 1200), "numbers are expected"),
        ("rewards", np.array([None] * 1200), "numbers are expected"),
    ],
)
def test_bad_input_wrong_shapes_are_refused_by_name(what, value, found):
    assert found in refused(**{what: value}).message


@pytest.mark.parametrize("what", ["observations", "actions", "rewards", "next_observations"])
def test_bad_input_nan_rows_are_refused_with_their_indices(what):
    array = log()[what].copy()
    array[[3, 17]] = np.nan
    array[40] = np.inf
    error = refused(**{what: array})
    assert f"{what} is NaN or infinite in 3 of 1200 rows: rows 3, 17, 40" in error.message


def test_many_nan_rows_are_counted_and_some_named():
    assert "18, 19 and 1,180 more (counted" in refused(rewards=np.full(1200, np.nan)).message


def test_bad_input_actions_outside_the_bounds():
    actions = log()["actions"]
    actions[7, 1] = 2.5
    error = refused(actions=actions)
    assert "outside [-1, 1] in 1 of 1200 rows: column 1" in error.message
    assert "2.5" in error.message
    assert "first in row 7" in error.message
    assert "action_bounds=(low, high)" in error.hint
    assert "outside [-2, 2]" in refused(actions=actions, action_bounds=(-2, 2)).message
    assert made(actions=actions, action_bounds=(-2.5, 2.5)).actions[7, 1] == 1


@pytest.mark.parametrize("actions", [np.zeros(1200, int), np.zeros((1200, 2), np.int8)])
def test_bad_input_discrete_actions(actions):
    error = refused(actions=actions)
    assert "discrete actions are not supported" in error.message
    assert "DiscreteCQL" in error.hint


def test_whole_numbers_with_bounds_are_a_continuous_control():
    actions = np.random.default_rng(0).integers(-3, 4, (1200, 1))
    assert made(actions=actions, action_bounds=(-3, 3)).actions.min() == -1


@pytest.mark.parametrize("bounds", [(1, -1), (0, 0), ([0, 0, 0], 1), (-np.inf, np.inf), "widest"])
def test_bad_input_bounds(bounds):
    with pytest.raises(InputError, match="bounds"):
        made(action_bounds=bounds)


def test_bad_input_constant_columns_and_rewards_are_warned_of():
    actions, observations = log()["actions"], log()["observations"]
    actions[:, 1] = 0.5
    with pytest.warns(UserWarning, match="action column 1 .* never changes"):
        made(actions=actions)
    observations[:, 2] = 7
    with pytest.warns(UserWarning, match="observation column 2 .* never changes"):
        made(observations=observations)
    with pytest.warns(UserWarning, match="the reward is 0 in every row"):
        made(rewards=np.zeros(1200))


def test_bad_input_time_limits_stored_as_terminals():
    ends = log()["timeouts"]
    with pytest.warns(UserWarning, match=r"24 episodes have 50 steps .* look like time limits"):
        assert made(terminals=ends, timeouts=None).terminals.sum() == EPISODES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = made(terminals=ends, timeouts=None, terminals_are_timeouts=True)
    assert data.terminals.sum() == 0
    assert data.timeouts.sum() == EPISODES


def test_bad_input_too_few_transitions():
    arrays = log(episodes=3)
    with pytest.raises(InputError, match="150 transitions, at least 1,000"):
        OfflineDataset.from_arrays(**arrays)
    assert len(OfflineDataset.from_arrays(**arrays, force=True)) == 150


def test_bad_input_shuffled_rows_are_warned_of():
    order = np.random.default_rng(0).permutation(1200)
    with pytest.warns(UserWarning, match="rows look shuffled"):
        made(**{k: v[order] for k, v in log().items()})


# --- NPZ ---------------------------------------------------------------------------------------


def test_npz_and_back(tmp_path):
    np.savez(tmp_path / "log.npz", **log())
    data = read_offline(tmp_path / "log.npz")
    assert (data.name, data.fingerprint) == ("log", made().fingerprint)
    scaled = made(actions=3 * log()["actions"], action_bounds=(-3, 3))
    scaled.to_npz(tmp_path / "again.npz")
    again = read_offline(tmp_path / "again.npz")
    assert again.action_high.tolist() == [3, 3]
    np.testing.assert_allclose(again.actions, scaled.actions, atol=1e-6)


def test_npz_with_other_names(tmp_path):
    arrays = log()
    renamed = {
        "obs": arrays["observations"], "acts": arrays["actions"], "reward": arrays["rewards"],
        "next_obs": arrays["next_observations"], "terminated": arrays["terminals"],
        "truncated": arrays["timeouts"],
    }  # fmt: skip
    np.savez(tmp_path / "log.npz", **renamed)
    data = read_offline(tmp_path / "log.npz")
    assert data.fingerprint == made().fingerprint
    assert "observations from 'obs'" in data.notes[0]
    np.savez(tmp_path / "odd.npz", **{**arrays, "state_log": arrays["observations"]})
    keys = {"observations": "state_log"}
    assert read_offline(tmp_path / "odd.npz", keys=keys).fingerprint == made().fingerprint


def test_npz_that_lacks_an_array_is_refused_with_a_suggestion(tmp_path):
    arrays = log()
    arrays["actionss"] = arrays.pop("actions")
    np.savez(tmp_path / "log.npz", **arrays)
    with pytest.raises(InputError, match="actions is missing; there are") as caught:
        read_offline(tmp_path / "log.npz")
    assert "did you mean 'actionss'?" in caught.value.hint
    with pytest.raises(InputError, match="stat is missing"):
        read_offline(tmp_path / "log.npz", keys={"observations": "stat"})
    with pytest.raises(InputError, match="observation is none of"):
        read_offline(tmp_path / "log.npz", keys={"observation": "stat"})


def test_pickles_are_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    arrays = log() | {"rewards": np.array([Bomb()] * 1200, object)}
    np.savez(tmp_path / "bomb.npz", **arrays)
    with pytest.raises(InputError, match="never unpickled"):
        read_offline(tmp_path / "bomb.npz")
    (tmp_path / "log.pkl").write_bytes(b"\x80\x04.")
    with pytest.raises(InputError, match="not read as logged control data") as caught:
        read_offline(tmp_path / "log.pkl")
    assert "never opened" in caught.value.hint


@pytest.mark.parametrize("name", ["log.npz", "log.h5", "log.csv", "log.parquet"])
@pytest.mark.parametrize("content", [b"", b"junk" * 100, bytes(range(256)) * 8])
def test_bad_input_damaged_files_are_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        read_offline(tmp_path / name)


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / "runs.npz").touch()
    with pytest.raises(InputError, match="no such file") as caught:
        read_offline(tmp_path / "run.npz")
    assert "did you mean" in caught.value.hint
    assert "runs.npz" in caught.value.hint


# --- HDF5 --------------------------------------------------------------------------------------


def test_hdf5_as_d4rl_writes_it(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "d4rl.hdf5", "w") as file:
        for key, value in log().items():
            file[key] = value
        file["infos/qpos"] = np.zeros((1200, 4))
        file["metadata/algorithm"] = "SAC"
    assert read_offline(tmp_path / "d4rl.hdf5").fingerprint == made().fingerprint


def test_hdf5_as_d3rlpy_1_writes_it(tmp_path):
    h5py = pytest.importorskip("h5py")
    arrays = log()
    with h5py.File(tmp_path / "v1.h5", "w") as file:
        for key in ("observations", "actions", "rewards", "terminals"):
            file[key] = arrays[key]
        file["episode_terminals"] = arrays["timeouts"].astype(float)
        file["discrete_action"] = False
    with pytest.warns(UserWarning, match="24 of 1200"):
        data = read_offline(tmp_path / "v1.h5")
    assert len(data.episodes) == EPISODES
    with h5py.File(tmp_path / "v1.h5", "a") as file:
        file["discrete_action"][...] = True
    with pytest.raises(InputError, match="discrete actions are not supported"):
        read_offline(tmp_path / "v1.h5")


def test_hdf5_as_d3rlpy_2_dumps_it(tmp_path):
    d3rlpy = pytest.importorskip("d3rlpy")
    arrays = log()
    buffer = d3rlpy.dataset.MDPDataset(
        arrays["observations"].astype(np.float32), arrays["actions"].astype(np.float32),
        arrays["rewards"], arrays["terminals"], arrays["timeouts"],
    )  # fmt: skip
    with (tmp_path / "v2.h5").open("w+b") as file:
        buffer.dump(file)
    with pytest.warns(UserWarning, match="24 of 1200"):
        data = read_offline(tmp_path / "v2.h5")
    with pytest.warns(UserWarning, match="24 of 1200"):
        assert data.fingerprint == made(next_observations=None).fingerprint


def test_hdf5_without_transitions_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["images"] = np.zeros((3, 3))
    with pytest.raises(InputError, match=r"observations is missing; there are: images"):
        read_offline(tmp_path / "other.h5")
    with h5py.File(tmp_path / "minari.h5", "w") as file:
        file["episode_0/rewards"] = np.zeros(3)
    with pytest.raises(InputError, match="inside of a Minari data set"):
        read_offline(tmp_path / "minari.h5")


# --- Minari ------------------------------------------------------------------------------------


@pytest.fixture
def minari(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "minari").mkdir()
    return pytest.importorskip("minari")


def minari_set(minari, observation, action, episodes=30, steps=40, name="pump/runs-v0"):
    """A set made with Minari's own API."""
    from minari.data_collector import EpisodeBuffer

    for space, seed in ((observation, 0), (action, 1)):
        space.seed(seed)
    buffers = []
    for i in range(episodes):
        seen = [observation.sample() for _ in range(steps + 1)]
        if isinstance(seen[0], dict):
            seen = {k: [s[k] for s in seen] for k in seen[0]}
        last = [j == steps - 1 for j in range(steps)]
        ended = i % 3 == 0
        buffers.append(
            EpisodeBuffer(
                observations=seen,
                actions=[action.sample() for _ in range(steps)],
                rewards=[float(j) for j in range(steps)],
                terminations=[ended and x for x in last],
                truncations=[not ended and x for x in last],
            )
        )
    return minari.create_dataset_from_buffers(
        name, buffers, observation_space=observation, action_space=action,
        algorithm_name="random", code_permalink="none", author="a", author_email="a@b",
    )  # fmt: skip


def box(low, high, *shape):
    from gymnasium import spaces

    return spaces.Box(low, high, shape, np.float32)


def test_a_minari_set_made_with_minaris_api_loads(minari, tmp_path):
    source = minari_set(minari, box(-9, 9, 3), box(-2, 2, 2))
    for asked in ("pump/runs-v0", source, tmp_path / "minari" / "pump" / "runs-v0"):
        data = read_offline(asked)
        assert (len(data), len(data.episodes)) == (1200, 30)
        assert data.terminals.sum() == 10
        assert data.action_high.tolist() == [2, 2]
        assert (data.returns() == 780).all()
    episode = next(source.iterate_episodes())
    np.testing.assert_array_equal(data.observations[:40], episode.observations[:-1])
    np.testing.assert_array_equal(data.next_observations[:40], episode.observations[1:])
    np.testing.assert_allclose(data.from_unit(data.actions[:40]), episode.actions, atol=1e-6)


def test_minari_observations_in_a_dictionary_are_joined(minari):
    from gymnasium import spaces

    source = minari_set(
        minari, spaces.Dict({"goal": box(0, 1, 2), "at": box(5, 6, 3)}), box(-1, 1, 1)
    )
    data = read_offline(source)
    assert data.observations.shape == (1200, 5)
    assert (data.observations[:, :3] >= 5).all()  # "at" comes before "goal"


def test_minari_sets_collected_by_its_wrapper_load(minari):
    gym = pytest.importorskip("gymnasium")
    pytest.importorskip("jax")
    env = minari.DataCollector(gym.make("Pendulum-v1"))
    for seed in range(5):
        env.reset(seed=seed)
        done = False
        while not done:
            *_, done, _ = env.step(env.action_space.sample())
    env.create_dataset("pendulum/random-v0", algorithm_name="random")
    data = read_offline("pendulum/random-v0")
    assert (len(data), data.env_id) == (1000, "Pendulum-v1")


def test_bad_input_minari(minari, tmp_path):
    from gymnasium import spaces

    minari_set(minari, box(-9, 9, 3), box(-2, 2, 2))
    with pytest.raises(InputError, match="no Minari data set of this id") as caught:
        read_offline("pump/run-v0")
    assert "did you mean 'pump/runs-v0'?" in caught.value.hint
    with pytest.raises(InputError, match="not the folder of a Minari data set"):
        read_offline(tmp_path)
    discrete = minari_set(minari, box(-9, 9, 3), spaces.Discrete(3), name="pump/discrete-v0")
    with pytest.raises(InputError, match="discrete actions are not supported"):
        read_offline(discrete)
    images = minari_set(minari, box(0, 1, 4, 4), box(-1, 1, 1), name="pump/images-v0")
    with pytest.raises(InputError, match="observation space"):
        read_offline(images)


# --- damaged files -----------------------------------------------------------------------------


def damaged(content, rng):
    """Cut short, or some bytes changed, near the start or anywhere."""
    content = bytearray(content)
    if rng.random() < 0.3:
        return content[: rng.integers(1, len(content))]
    within = len(content) if rng.random() < 0.5 else min(len(content), 2000)
    for place in rng.integers(within, size=rng.integers(1, 30)):
        content[place] = rng.integers(256)
    return content


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["log.npz", "log.h5", "log.csv", "log.parquet"])
def test_bad_input_damaged_files_are_read_or_refused_by_name(tmp_path, name):
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, **log())
    elif name.endswith("h5"):
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            for key, value in log().items():
                file[key] = value
    elif name.endswith("csv"):
        frame().to_csv(path, index=False)
    else:
        frame().to_parquet(path)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    refusals = []
    for _ in range(40):
        path.write_bytes(damaged(content, rng))
        try:
            read_offline(path)
        except InputError as error:
            refusals.append(error.message)
    assert len(refusals) > 10
    assert all(name in message for message in refusals)


# --- tables ------------------------------------------------------------------------------------


def frame():
    arrays = log()
    columns = {f"obs_{c}": arrays["observations"][:, j] for j, c in enumerate("xyz")}
    columns |= {f"act_{j}": arrays["actions"][:, j] for j in range(2)}
    columns |= {f"next_obs_{c}": arrays["next_observations"][:, j] for j, c in enumerate("xyz")}
    columns |= {"reward": arrays["rewards"], "terminal": 0, "timeout": arrays["timeouts"]}
    return pd.DataFrame(columns | {"episode": np.repeat(np.arange(EPISODES), STEPS), "note": "ok"})


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "log.tsv", "log.jsonl"])
def test_tables(tmp_path, name):
    path, table = tmp_path / name, frame()
    if name.endswith("parquet"):
        table.to_parquet(path)
    elif name.endswith("jsonl"):
        table.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        table.to_csv(path, index=False, sep="\t" if name.endswith("tsv") else ",")
    data = read_offline(path)
    np.testing.assert_allclose(data.next_observations, made().next_observations)
    assert (len(data.episodes), data.name) == (EPISODES, "log")
    assert "observations from obs_x, obs_y, obs_z" in data.notes[0]
    assert "rewards from 'reward'" in data.notes[0]


def test_columns_are_named_by_the_user():
    table = frame().rename(columns={"obs_x": "temp", "act_0": "valve", "reward": "yield"})
    table = table.drop(columns=["next_obs_x", "next_obs_y", "next_obs_z", "obs_y", "obs_z"])
    with pytest.warns(UserWarning, match="rebuilt"):
        data = OfflineDataset.from_dataframe(table, obs="temp", act=["valve"], reward="yield")
    assert (data.observations.shape[1], data.actions.shape[1]) == (1, 1)
    with pytest.raises(InputError, match=r"act \(valv\) is missing") as caught:
        OfflineDataset.from_dataframe(table, obs="temp", act=["valv"], reward="yield")
    assert "valve" in caught.value.hint + caught.value.message
    with pytest.raises(InputError, match="rewards is missing"):
        OfflineDataset.from_dataframe(table, obs="temp", act="valve")


def test_next_columns_are_matched_by_name_not_by_place():
    table = frame()
    order = [c for c in table if not c.startswith("next_")]
    shuffled = table[[*order, "next_obs_z", "next_obs_x", "next_obs_y"]]
    assert OfflineDataset.from_dataframe(shuffled).fingerprint == made().fingerprint
    with pytest.raises(InputError, match="2 columns of next observations"):
        OfflineDataset.from_dataframe(table.drop(columns="next_obs_y"))


def test_bad_input_cells_of_a_table():
    table = frame()
    table.loc[[4, 9], "obs_y"] = np.nan
    with pytest.raises(InputError, match=r"column 'obs_y': empty or NaN in 2 .* rows 4, 9"):
        OfflineDataset.from_dataframe(table)
    table = frame().astype({"reward": object})
    table.loc[7, "reward"] = "high"
    with pytest.raises(InputError, match=r"column 'reward': expected numbers, found 'high' in row"):
        OfflineDataset.from_dataframe(table)


def test_a_dataset_passes_through_and_a_frame_is_read():
    data = made()
    assert read_offline(data) is data
    assert read_offline(frame()).fingerprint == data.fingerprint


def test_a_dictionary_as_d4rl_gives_it_is_read():
    data = made()
    given = {
        "observations": data.observations, "actions": data.actions, "rewards": data.rewards,
        "next_observations": data.next_observations, "terminals": data.terminals,
        "timeouts": data.timeouts, "infos/qpos": [None], "metadata/algorithm": b"SAC",
    }  # fmt: skip
    assert read_offline(given).fingerprint == data.fingerprint
    given["state_log"] = given.pop("observations")
    with pytest.raises(InputError, match="observations is missing"):
        read_offline(given)
    named = read_offline(given, keys={"observations": "state_log"})
    assert named.fingerprint == data.fingerprint


def test_d3rlpys_own_object_is_read():
    d3rlpy = pytest.importorskip("d3rlpy")
    data = made()
    theirs = d3rlpy.dataset.MDPDataset(
        data.observations, data.actions, data.rewards, data.terminals.astype(np.float32),
        timeouts=data.timeouts.astype(np.float32),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="rebuilt"):
        read = read_offline(theirs)
    # its episodes hold no state beyond the last: cut-off ones lose a step
    cut = int(data.timeouts.sum())
    assert len(read) == len(data) - cut
    assert read.terminals.sum() == data.terminals.sum()
    assert len(read.episodes) == len(data.episodes)


@pytest.mark.parametrize("source", [None, 3, [1, 2], np.zeros((3, 3))])
def test_bad_input_what_is_no_log_at_all(source):
    with pytest.raises(InputError, match="not read as logged control data"):
        read_offline(source)
