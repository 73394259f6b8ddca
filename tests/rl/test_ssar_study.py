"""The study: its grid, its claims (each can fail), stacks that do not change numbers, bad input."""

import numpy as np
import pytest

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.rl.ssar import experiments
from practicum.rl.ssar.pendulum import pendulum_mix
from practicum.rl.ssar.study import (
    DECAYS,
    IDENTITY,
    LOCOMOTION,
    MAZE,
    MIXED,
    ONLINE,
    PENDULUM,
    SsarStudy,
)
from practicum.study import Outcome, Results, Scale, Store, run_study
from practicum.study.runner import judge

STUDY = SsarStudy()


def outcome(dataset, arm, seed, metrics, curves=None, **params):
    return Outcome(STUDY.trial(dataset, arm, seed, **params), metrics, curves or {})


def cells(dataset, arms, seeds=6, spread=5.0):
    """Returns of arms around given means; of tuned arms by setting, the best being last."""
    rng = np.random.default_rng(0)
    for arm, mean in arms.items():
        for seed in range(seeds):
            value = mean + spread * rng.standard_normal()
            curves = {}
            if arm in ("td3bc-tuned", "cql-tuned"):
                count = len(experiments.ALPHAS if arm == "td3bc-tuned" else experiments.CQL_ALPHAS)
                curves["by_setting"] = value - 100.0 * np.arange(count)[::-1]
            metrics = {"return": value}
            if arm.startswith("ssar"):
                metrics["beta_rank"] = 0.5 + 0.05 * rng.standard_normal()
            yield outcome(dataset, arm, seed, metrics, curves)


GOOD = {  # as the paper has it
    "ssar-td3bc": -200, "td3bc": -900, "td3bc-tuned": -600, "selection-only": -400,
    "adaptive-only": -700, "ssar-cql": -300, "cql-tuned": -700, "filtered-bc": -450, "bc": -1000,
}  # fmt: skip
EXPERT = {"ssar-td3bc": -160, "td3bc": -165, "td3bc-tuned": -170}


def good():
    found = [o for d in MIXED for o in cells(d, GOOD)]
    found += cells("expert", EXPERT)
    found += cells(MAZE, {"ssar-td3bc": 0.9, "td3bc-tuned": 0.4, "filtered-bc": 0.8}, spread=0.02)
    found += [outcome(IDENTITY, "ssar-cql", s, {"identity_error": 1e-15}) for s in range(5)]
    found += online({"decayed": (-300, -200), "fixed": (-300, -350), "no pull": (-900, -300)})
    return found


def online(values, seeds=6):
    rng = np.random.default_rng(1)
    for decay in DECAYS:
        early, area = values[decay]
        for seed in range(seeds):
            jitter = 5 * rng.standard_normal()
            yield outcome(
                ONLINE, "ssar-td3bc", seed,
                {
                    "online_early": early + jitter, "online_area": area + jitter,
                    "online_late": area + jitter, "online_before": -350.0,
                },
                decay=decay,
            )  # fmt: skip


def verdicts(outcomes):
    return judge(STUDY, Results(outcomes, Scale("cpu")))


def without(outcomes, dataset=None, arm=None):
    return [
        o
        for o in outcomes
        if not ((dataset is None or o.trial.dataset == dataset)
                and (arm is None or o.trial.arm == arm))
    ]  # fmt: skip


def test_results_as_the_papers_reproduce_every_claim():
    found = verdicts(good())
    assert {k: v.status for k, v in found.items()} == dict.fromkeys(STUDY.claims, "reproduced")
    assert "selection alone reaches 71 % of the gain" in found["C4"].sentence


def replaced(dataset, arms):
    rest = good()
    for arm in arms:
        rest = without(rest, dataset, arm)
    return rest + list(cells(dataset, arms))


def test_c1_fails_when_a_tuned_base_is_as_good():
    worse = without(good(), "expert")
    for d in MIXED:
        worse = without(worse, d, "td3bc-tuned") + list(cells(d, {"td3bc-tuned": -100}))
        worse = without(worse, d, "cql-tuned") + list(cells(d, {"cql-tuned": -100}))
    assert verdicts(worse)["C1"].status == "not reproduced"


def test_c1_is_partly_when_ahead_on_one_set_only():
    mixed = replaced("mixed-20", {"td3bc-tuned": 300, "cql-tuned": 300})
    assert verdicts(mixed)["C1"].status == "partly"


def test_c1_takes_the_best_alpha_in_hindsight():
    found = verdicts(good())["C1"].sentence
    assert "base at its best alpha 40 -60" in found or "base at its best alpha 40 -59" in found


def test_c2_fails_when_expert_data_gain_more():
    assert verdicts(replaced("expert", {"td3bc-tuned": -900}))["C2"].status == "not reproduced"


def test_c3_fails_without_gain_in_the_maze():
    worse = without(good(), MAZE, "td3bc-tuned")
    worse += cells(MAZE, {"td3bc-tuned": 0.95}, spread=0.01)
    assert verdicts(worse)["C3"].status == "not reproduced"


def test_c4_is_partly_when_selection_explains_all():
    worse = good()
    for d in MIXED:
        for arm, mean in (("selection-only", -150), ("adaptive-only", -950)):
            worse = without(worse, d, arm) + list(cells(d, {arm: mean}))
    found = verdicts(worse)["C4"]
    assert found.status == "partly"
    assert "reaches 107 % of the gain" in found.sentence


def test_c4_fails_when_both_hurt():
    worse = good()
    for d in MIXED:
        for arm in ("selection-only", "adaptive-only", "ssar-td3bc"):
            worse = without(worse, d, arm) + list(cells(d, {arm: -1500 + 50 * (arm[0] == "a")}))
    assert verdicts(worse)["C4"].status == "not reproduced"


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"decayed": (-900, -400), "fixed": (-300, -350), "no pull": (-300, -300)},
         "not reproduced"),
        ({"decayed": (-300, -400), "fixed": (-300, -350), "no pull": (-900, -300)}, "partly"),
    ],
)  # fmt: skip
def test_c5_fails_without_drop_avoidance_or_gain(values, status):
    assert verdicts(without(good(), ONLINE) + list(online(values)))["C5"].status == status


def test_c6_fails_on_a_single_error():
    worse = [*good(), outcome(IDENTITY, "ssar-cql", 9, {"identity_error": 1e-9})]
    assert verdicts(worse)["C6"].status == "not reproduced"


def test_c7_fails_when_beta_runs_against_the_distance():
    worse = [
        Outcome(o.trial, {**o.metrics, "beta_rank": -o.metrics["beta_rank"]}, o.curves)
        if "beta_rank" in o.metrics
        else o
        for o in good()
    ]
    assert verdicts(worse)["C7"].status == "not reproduced"


def test_claims_and_figures_survive_what_is_missing():
    every = good()
    for part in ([], every[:1], every[::3], without(every, arm="ssar-td3bc")):
        found = verdicts(part)
        assert all("Could not be judged" not in v.sentence for v in found.values())
        STUDY.figures(Results(part, Scale("cpu")))


# --- the grid and its stacks ----------------------------------------------------------------------


def test_the_grid():
    grid = list(STUDY.trials(Scale("cpu")))
    assert {t.dataset for t in grid} == {*PENDULUM, MAZE, ONLINE, IDENTITY}
    assert len({t.seed for t in grid if t.dataset == "mixed-20"}) == 5
    groups = {STUDY.group(t) for t in grid} - {None}
    assert ("mixed-20", "td3") in groups
    assert len(groups) < 25
    paper = list(STUDY.trials(Scale("paper")))
    assert {t.dataset for t in paper} == {*LOCOMOTION, IDENTITY}


def test_numbers_do_not_depend_on_the_group(tmp_path):
    """All cells of two families at once, and one by one: the same bits."""
    grid = [t for t in STUDY.trials(Scale("smoke")) if t.dataset in ("mixed-20", ONLINE)]
    for family in ("td3", "cql", ONLINE):
        chosen = [t for t in grid if (STUDY.group(t) or "")[-1] == family or
                  STUDY.group(t) == family]  # fmt: skip
        together = list(STUDY.run_many(chosen))
        for trial, numbers in list(zip(chosen, together, strict=True))[::3]:
            alone = STUDY.run(trial)
            assert alone.keys() == numbers.keys()
            for name, value in numbers.items():
                np.testing.assert_array_equal(np.asarray(alone[name]), value, err_msg=name)


def test_the_papers_own_setting_at_a_tiny_size(monkeypatch):
    """A locomotion cell of the paper's grid, on a Minari set made here with few steps."""
    grid = [t for t in STUDY.trials(Scale("paper")) if t.dataset == LOCOMOTION[0]]
    assert {t["steps"] for t in grid} == {1_000_000}
    assert {t["hidden"] for t in grid} == {256}
    small = {"steps": 4, "cql_steps": 4, "hidden": 16, "batch": 32, "cql_batch": 32,
             "n_actions": 2, "checkpoints": 2, "episodes": 16}  # fmt: skip
    data = pendulum_mix("medium", 10, rng=0)
    monkeypatch.setattr(
        "practicum.rl.ssar.study.OfflineDataset.from_minari", classmethod(lambda cls, name: data)
    )
    chosen = {t.arm: t for t in grid if t.arm in ("ssar-td3bc", "ssar-cql", "filtered-bc")}
    for arm, trial in chosen.items():
        tiny = STUDY.trial(trial.dataset, arm, 0, **(dict(trial.params) | small))
        assert np.isfinite(STUDY.run(tiny)["return"])


# --- a person's own log ---------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.npz"
    pendulum_mix("mixed-20", 20, rng=0).to_npz(path)
    return UserData.of([path])


def test_on_a_log_with_and_without_an_environment(log, tmp_path):
    for env, measure in (("", "estimate"), ("Pendulum-v1", "return")):
        study = SsarStudy.on(log, env=env, steps=8)
        assert next(iter(study.measures)) == measure
        with Store(tmp_path / f"{measure}.sqlite") as store:
            run = run_study(study, Scale("smoke", 2), store, kind="compare")
        assert run.failures == []
        assert measure in run.results.metrics
        assert study.figures(run.results)


def test_refuses_bad_input(log, tmp_path):
    for bad, words in (
        ({"steps": -1}, "steps"),
        ({"gamma": 1.0}, "gamma"),
        ({"env": "PointMaze"}, "PointMaze"),
        ({"action_bounds": "wide"}, "action_bounds"),
    ):
        with pytest.raises(InputError, match=words):
            SsarStudy.on(log, **bad)
    broken = tmp_path / "nan.npz"
    data = pendulum_mix("mixed-20", 20, rng=0)
    rewards = data.rewards.copy()
    rewards[7] = np.nan
    np.savez(broken, observations=data.observations, actions=data.actions, rewards=rewards,
             next_observations=data.next_observations, terminals=data.terminals,
             timeouts=data.timeouts)  # fmt: skip
    with pytest.raises(InputError, match=r"rewards.*7"):
        SsarStudy.on(UserData.of([broken]))
