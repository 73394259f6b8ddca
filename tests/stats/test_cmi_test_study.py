"""The study: every kind of cell at tiny size, the paper's grid, a person's table, the verdicts."""

import numpy as np
import pandas as pd
import pytest

from practicum.data.kinds import UserData
from practicum.errors import InputError
from practicum.stats.cmi_test.study import CENTRE, CORNER, DRAWN, ConditionalMeanStudy
from practicum.study import Outcome, Results, Scale
from practicum.study.compare import study_on

STUDY = ConditionalMeanStudy()


def test_the_papers_grid_holds_its_settings_and_a_cell_of_it_runs_small():
    grid = list(STUDY.trials(Scale("paper", 2)))
    published = [t for t in grid if t.arm == "published"]
    assert {t["epochs"] for t in published} == {1000}
    assert {t["n"] for t in grid if t.dataset == "null"} >= {200, 400, 600, 800}
    small = STUDY.trial("null", "published", 0, n=80, size=0.0, epochs=2)
    assert set(STUDY.run(small)) >= {"false_alarm", "p", "mmd", "conclusive"}


@pytest.mark.parametrize("arm", ["cmi", "exact", "published, exact", "gcm", "pcm", "f-test"])
def test_every_arm_on_the_same_data(arm):
    metrics = STUDY.run(STUDY.trial("linear-dense", arm, 0, n=120, size=1.0))
    assert metrics["power"] == float(metrics["p"] <= 0.05) == 1.0
    assert "false_alarm" in STUDY.run(STUDY.trial("null", arm, 0, n=120, size=0.0))


def test_arms_of_a_seed_see_the_same_rows():
    a, b = (STUDY.trial("null", arm, 3, n=100, size=0.0) for arm in ("cmi", "gcm"))
    np.testing.assert_array_equal(a.rng("data").random(5), b.rng("data").random(5))


def test_images_and_wrong_nuisances():
    assert STUDY.run(STUDY.trial(CENTRE, "cmi", 0, n=200))["power"] in (0.0, 1.0)
    assert STUDY.run(STUDY.trial(CORNER, "cmi", 0, n=120))["false_alarm"] in (0.0, 1.0)
    for arm in ("cmi", "exact"):
        assert STUDY.run(STUDY.trial(DRAWN, arm, 0, n=120))["false_alarm"] in (0.0, 1.0)
    for wrong in ("neither", "both"):
        trial = STUDY.trial("two errors", "exact", 0, n=80, wrong=wrong)
        assert 0 < STUDY.run(trial)["p"] <= 1


def outcomes(dataset, arm, rate, metric, runs=300, **params):
    for seed in range(runs):
        hit = float(seed < rate * runs)
        yield Outcome(STUDY.trial(dataset, arm, seed, **params), {metric: hit, "p": 1 - hit})


def judged(claim, *parts):
    return STUDY.claims[claim](Results([o for part in parts for o in part], Scale("cpu")))


def test_verdicts_follow_the_rates():
    def size(rate):
        return judged(
            "C1",
            *(
                outcomes("null", arm, rate, "false_alarm", 1000, n=n, size=0.0)
                for arm, n in (
                    ("published, exact", 200),
                    ("exact", 200),
                    ("cmi", 200),
                    ("cmi", 400),
                )
            ),
        ).status

    assert size(0.05) == "reproduced"
    assert size(0.2) == "not reproduced"

    def even(ours, gcm):
        return judged(
            "C3",
            *(
                outcomes(f"even-{shape}", arm, rate, "power", n=n, size=0.5)
                for shape in ("sparse", "dense")
                for n in (200, 400)
                for arm, rate in (("cmi", ours), ("gcm", gcm), ("pcm", 0.5))
            ),
        ).status

    assert even(0.8, 0.05) == "reproduced"
    assert even(0.2, 0.1) == "not reproduced"

    def errors(single, double):
        rates = {"regression": single, "sampler": single, "both": double}
        return judged(
            "C4",
            *(
                outcomes("two errors", "exact", rate, "false_alarm", 800, n=800, wrong=wrong)
                for wrong, rate in rates.items()
            ),
        ).status

    assert errors(0.05, 0.4) == "reproduced"
    assert errors(0.05, 0.05) == "partly"
    assert errors(0.3, 0.4) == "partly"

    def local(*rates):
        return judged(
            "C5",
            *(
                outcomes("local", "exact", rate, "power", 200, n=n, size=1 / n)
                for n, rate in zip((100, 400, 1600), rates)
            ),
        ).status

    assert local(0.5, 0.52, 0.5) == "reproduced"
    assert local(0.05, 0.5, 0.99) != "reproduced"
    assert local(0.45, 0.52, 0.58) == "partly"  # small, but a trend


def test_networks_are_reported_with_the_size():
    parts = [
        outcomes("null", arm, 0.05, "false_alarm", n=n, size=0.0)
        for arm, n in (("published, exact", 200), ("exact", 200), ("cmi", 200), ("cmi", 400))
    ]
    parts.append(outcomes("null", "published", 0.2, "false_alarm", 10, n=200, size=0.0, epochs=1))
    assert "The networks rejected in 2 of 10 runs at n = 200" in judged("C1", *parts).sentence


def test_images_need_the_centre_and_neither_box_without_an_effect():
    def images(centre, corner, drawn):
        hard = outcomes(DRAWN, "cmi", drawn, "false_alarm", 200, n=1000)
        hard = [Outcome(o.trial, {**o.metrics, "size_check": 0.07}) for o in hard]
        return judged(
            "C6",
            outcomes(CENTRE, "cmi", centre, "power", 60, n=1000),
            outcomes(CORNER, "cmi", corner, "false_alarm", n=400),
            hard,
            outcomes(DRAWN, "exact", 0.05, "false_alarm", 200, n=1000),
        )

    assert images(1.0, 0.05, 0.05).status == "reproduced"
    assert images(0.0, 0.3, 0.3).status == "not reproduced"
    partly = images(1.0, 0.05, 0.5)
    assert partly.status == "partly"
    assert "the test rejects in 10 of 200" in partly.sentence
    assert "(0.07 on average) does not see it" in partly.sentence


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 4)), columns=list("abcd"))
    frame["e"] = frame["a"] + rng.normal(size=150)
    frame["kind"] = rng.choice(["u", "v", "w"], 150)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_persons_table_has_false_alarms_and_power(table):
    study = study_on(ConditionalMeanStudy, UserData.of([table]), {"candidates": "a,b"})
    grid = list(study.trials(Scale("smoke", 2)))
    assert {t.arm for t in grid} == {"cmi", "gcm", "pcm", "f-test"}
    assert set(study.run(grid[0])) == {"power", "false_alarm"}
    power = [study.run(study.trial("table", "cmi", s, n=150))["power"] for s in range(6)]
    assert np.mean(power) > 0.5


def test_a_table_names_the_columns_it_took_and_leaves_out_what_is_ignored(table, tmp_path):
    frame = pd.read_csv(table)
    path = tmp_path / "people.csv"
    frame.assign(name=[f"p{i}" for i in range(150)], flat=1, gap=np.nan).to_csv(path, index=False)

    def on(**options):
        return study_on(ConditionalMeanStudy, UserData.of([path]), options)

    study = on(ignore="name,ga*")
    trial = next(iter(study.trials(Scale("smoke", 1))))
    assert {role: trial[role] for role in "yxz"} == {"y": "e", "x": "a", "z": "b+c+d and 2 more"}
    assert set(study.run(trial)) == {"power", "false_alarm"}
    with pytest.raises(InputError, match="given column 'name' has 150") as caught:
        on(ignore="gap")
    assert "-o ignore=" in caught.value.hint
    with pytest.raises(InputError, match="ignore: no column 'nam'"):
        on(ignore="nam")
    frame.assign(twice=2 * frame["a"]).to_csv(path, index=False)
    with pytest.raises(InputError, match="nothing is left of the candidates"):
        on(candidates="a", response="e")


def test_bad_input_tables(table, tmp_path):
    def on(**options):
        return study_on(ConditionalMeanStudy, UserData.of([table]), options)

    with pytest.raises(InputError, match=r"table\.csv.*no column 'zz'"):
        on(response="zz")
    with pytest.raises(InputError, match="strength"):
        on(strength="-1")
    with pytest.raises(InputError, match="effect"):
        on(effect="odd")
    frame = pd.read_csv(table)
    gaps, names = tmp_path / "gaps.csv", tmp_path / "names.csv"
    frame.assign(a=frame["a"].mask(frame.index == 3)).to_csv(gaps, index=False)
    with pytest.raises(InputError, match=r"gaps\.csv, column 'a', line 5"):
        study_on(ConditionalMeanStudy, UserData.of([gaps]), {})
    dropped = study_on(ConditionalMeanStudy, UserData.of([gaps]), {"missing": "drop"})
    assert dropped.table.n == 149
    frame.assign(name=[f"p{i}" for i in range(150)]).to_csv(names, index=False)
    with pytest.raises(InputError, match=r"names\.csv: given column 'name' has 150 different"):
        study_on(ConditionalMeanStudy, UserData.of([names]), {})
    short = tmp_path / "short.csv"
    pd.read_csv(table).iloc[:20].to_csv(short, index=False)
    with pytest.raises(InputError, match=r"short\.csv: 20 rows"):
        study_on(ConditionalMeanStudy, UserData.of([short]), {})
