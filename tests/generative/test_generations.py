"""The loop: pools, hooks, verdicts, and everything that can be wrong with what one hands it."""

import json
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.generative.model_collapse import (
    CallableModel,
    CategoricalModel,
    GaussianModel,
    GenerationResult,
    KDEModel,
    NGramLM,
    SklearnModel,
    gaussian_curve,
    gaussian_generations,
    real_table,
    run_generations,
    shape_data,
    synthetic_gain,
    value_of_synthetic,
)
from practicum.generative.model_collapse.items import check_seeds, check_test
from practicum.generative.model_collapse.results import bootstrap_mean

WORKFLOWS = ("replace", "accumulate", "accumulate-subsample")


def normal(n=60, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


class Recorder:
    """Keeps every training set; writes its generation's number."""

    def __init__(self):
        self.seen, self.fits = [], 0

    def fresh(self):
        return self

    def fit(self, X, *, rng):
        self.seen.append(X[:, 0].copy())
        self.fits += 1
        return self

    def sample(self, n, *, rng):
        return np.full((n, 1), float(self.fits - 2))  # two fits go to the check for kept state

    def loss(self, X_test):
        return 0.0


# ------------------------------------------------------------- the algorithm


def training_sets(workflow, generations=4, **options):
    model = Recorder()
    run_generations(
        np.zeros(5) - 1.0 * np.arange(5),  # real items are 0, -1, -2, -3, -4
        model,
        workflow,
        generations,
        X_test=np.full(5, -9.0),
        seeds=[0],
        **options,
    )
    return model.seen[2:]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X_test does not look like")
        yield


def test_replace_trains_on_the_last_generation_only():
    sets = training_sets("replace")
    assert (sets[0] <= 0).all()
    assert [set(s) for s in sets[1:]] == [{1.0}, {2.0}, {3.0}]
    assert [len(s) for s in sets] == [5, 5, 5, 5]


def test_accumulate_keeps_everything():
    sets = training_sets("accumulate")
    assert [len(s) for s in sets] == [5, 10, 15, 20]
    assert sorted(sets[3]) == [-4, -3, -2, -1, 0] + [1.0] * 5 + [2.0] * 5 + [3.0] * 5


def test_subsample_draws_from_the_same_pool_without_replacement():
    sets = training_sets("accumulate-subsample", 12)
    assert all(len(s) == 5 for s in sets)
    for t, s in enumerate(sets):
        real = s[s <= 0]
        assert len(set(real)) == len(real)
        assert s.max() <= t
    assert any((s <= 0).any() for s in sets[1:])


def test_the_control_drops_the_real_items():
    sets = training_sets("accumulate-synthetic")
    assert [len(s) for s in sets] == [5, 5, 10, 15]
    assert all((s > 0).all() for s in sets[1:])


def test_pool_sizes_and_real_fractions():
    frame = run_generations(normal(), "gaussian", n_generations=5, seeds=[0, 1]).frame
    for workflow, sizes, train, real in [
        ("replace", [45] * 5, [45] * 5, [1, 0, 0, 0, 0]),
        ("accumulate", [45, 90, 135, 180, 225], [45, 90, 135, 180, 225], 1 / np.arange(1, 6)),
    ]:
        part = frame[(frame.workflow == workflow) & (frame.seed == 0)]
        assert part.pool_size.tolist() == sizes
        assert part.train_size.tolist() == train
        np.testing.assert_allclose(part.real_fraction, real)
    sub = frame[frame.workflow == "accumulate-subsample"]
    assert (sub.train_size == 45).all()
    assert sub.real_fraction.between(0, 1).all()


@pytest.mark.parametrize(
    "model",
    ["gaussian", KDEModel(0.3), KDEModel("silverman"), pytest.param("mixture", id="mixture")],
)
def test_anchor_3_generation_1_is_the_same_in_every_workflow(model):
    if model == "mixture":
        from sklearn.mixture import GaussianMixture

        model = SklearnModel(GaussianMixture(2))
    result = run_generations(normal(), model, n_generations=3, seeds=range(3))
    first = result.frame[result.frame.generation == 1].pivot(
        index="seed", columns="workflow", values="loss"
    )
    assert (first.nunique(axis=1) == 1).all()
    single = run_generations(normal(), model, n_generations=1, seeds=range(3)).frame
    assert single.groupby("seed")["loss"].nunique().eq(1).all()
    np.testing.assert_array_equal(
        single[single.workflow == "replace"]["loss"], first["replace"].to_numpy()
    )


@pytest.mark.parametrize("model", ["gaussian", KDEModel(0.3)])
@settings(max_examples=8, deadline=None)
@given(others=st.lists(st.integers(0, 50), max_size=3))
def test_a_seed_does_not_depend_on_the_others(model, others):
    alone = run_generations(normal(), model, n_generations=3, seeds=[7]).frame
    both = run_generations(normal(), model, n_generations=3, seeds=[*set(others) - {7}, 7]).frame
    part = both[both.seed == 7].reset_index(drop=True)
    assert part.equals(alone)


def test_a_gaussian_follows_the_closed_form():
    X = normal(20, 1, seed=3)
    X = (X - X.mean()) / X.std()
    result = run_generations(X, "gaussian", n_generations=6, X_test=X[:5] + 0.1, seeds=range(300))
    for workflow in WORKFLOWS:
        # The real items are fixed and exactly standardised, so theory starts one generation later.
        trace = result.curves(workflow, "trace")[:, 1]
        expected = {
            "replace": 1 - 1 / 20,
            "accumulate": 1 - 1 / (20 * 4),
            "accumulate-subsample": (1 - 1 / 80) * (1 - 1 / 39),
        }[workflow]
        assert abs(trace.mean() - expected) < 4.5 * trace.std() / np.sqrt(300)
    assert gaussian_curve(20, 1, "replace")["trace_ratio"][0] == pytest.approx(1 - 1 / 20)


def test_extending_equals_refitting():
    class Refit(KDEModel):
        extend = property()  # hidden: hasattr is False

        def fresh(self):
            return Refit(self.bandwidth, self.kernel)

    X, X_test = shape_data("moons", 40, 50, rng=np.random.default_rng(0))
    grown, refitted = (
        run_generations(X, model, "accumulate", 8, X_test=X_test, seeds=[0, 1])
        for model in (KDEModel(0.2), Refit(0.2))
    )
    np.testing.assert_allclose(
        grown.curves("accumulate"), refitted.curves("accumulate"), rtol=1e-10
    )


def test_real_table_runs():
    result = run_generations(real_table("wine"), "gaussian", n_generations=3, seeds=[0, 1])
    assert np.isfinite(result.frame.loss).all()


# ------------------------------------------------------------- hooks


def test_real_fraction_holds_in_every_generation():
    for workflow in ("replace", "accumulate-subsample"):
        frame = run_generations(
            normal(), "gaussian", workflow, 5, seeds=[0, 1], real_fraction=0.4
        ).frame
        assert (frame[frame.generation > 1].real_fraction == 18 / 45).all()


def test_a_real_fraction_prevents_collapse():
    fed, starved = (
        run_generations(normal(30), "gaussian", "replace", 60, seeds=range(6), real_fraction=share)
        for share in (0.5, None)
    )
    assert fed.curves("replace")[:, -1].mean() < starved.curves("replace")[:, -1].mean()


def test_weights_of_zero_leave_only_real_items():
    result = run_generations(
        normal(), "gaussian", "accumulate", 4, seeds=[0], weights=lambda real, t: real * 1.0
    )
    np.testing.assert_allclose(result.curves("accumulate")[0], result.curves("accumulate")[0, 0])


def test_filter_keeps_what_it_accepts():
    result = run_generations(
        normal(80, 1), "gaussian", "replace", 3, seeds=[0], filter=lambda X, g: X[:, 0] > 0
    )
    assert (result.frame.train_size == 60).all()


def test_filter_bad_input():
    for wrong, words in [
        (lambda X, g: np.zeros(len(X), dtype=bool), "kept 0 of"),
        (lambda X, g: np.ones(3, dtype=bool), "booleans, one per item"),
        (lambda X, g: np.ones(len(X)), "booleans, one per item"),
    ]:
        with pytest.raises(InputError, match=words):
            run_generations(normal(), "gaussian", "replace", 3, seeds=[0], filter=wrong)


def test_hooks_bad_input():
    with pytest.raises(InputError, match="between 0 and 1"):
        run_generations(normal(), "gaussian", "replace", seeds=[0], real_fraction=1.5)
    with pytest.raises(InputError, match="share of real items is 1/t"):
        run_generations(normal(), "gaussian", "accumulate", seeds=[0], real_fraction=0.5)
    with pytest.raises(InputError, match="no sample_weight"):
        run_generations(
            ["some text here"] * 8, NGramLM(2), "replace", 2, seeds=[0], weights=lambda r, t: r
        )
    for wrong in (lambda r, t: np.ones(3), lambda r, t: -np.ones(len(r))):
        with pytest.raises(InputError, match="weights at generation 1"):
            run_generations(normal(), "gaussian", "replace", 2, seeds=[0], weights=wrong)


# ------------------------------------------------------------- results


@pytest.fixture(scope="module")
def gaussian_result():
    return run_generations(normal(60, 3), "gaussian", n_generations=40, seeds=range(12))


def test_verdicts(gaussian_result):
    verdicts = gaussian_result.verdict()
    assert verdicts["replace"].label == "collapse"
    for pool in ("accumulate", "accumulate-subsample"):  # 12 seeds need not see a level
        assert verdicts[pool].label in ("plateau", "slowing", "stable", "inconclusive")
    assert "collapses" in verdicts["replace"].sentence


@pytest.mark.parametrize(
    ("shape", "label"),
    [
        (lambda t: 0.5 * t, "collapse"),
        (lambda t: t**0.8, "collapse"),
        (lambda t: np.log(t), "slowing"),
        (lambda t: np.log(np.minimum(t, 8)), "plateau"),
        (lambda t: 1 - 1 / t, "plateau"),
        (lambda t: 0 * t, "stable"),
        (lambda t: -0.1 * t, "stable"),
        (lambda t: np.where(t > 20, np.inf, 0.0), "collapse"),
    ],
)
def test_verdict_on_curves_of_known_shape(shape, label):
    t = np.arange(1, 41)
    noise = np.random.default_rng(0).normal(0, 0.05, (10, 1))
    losses = 2 + noise + shape(t) + np.random.default_rng(1).normal(0, 0.02, (10, 40))
    rows = [
        {"workflow": "replace", "seed": s, "generation": g, "loss": losses[s, g - 1]}
        for s in range(10)
        for g in t
    ]
    assert GenerationResult.from_rows(rows, {}, None).verdict()["replace"].label == label


def judged(losses, workflow="accumulate"):
    rows = [
        {"workflow": workflow, "seed": s, "generation": t, "loss": loss}
        for s, curve in enumerate(losses)
        for t, loss in enumerate(curve, start=1)
    ]
    return GenerationResult.from_rows(rows, {}, None).verdict()[workflow]


@pytest.mark.parametrize("G", [4, 8, 20, 100])
def test_a_line_collapses_and_a_logarithm_never_levels_off(G):
    t, seeds = np.arange(1, G + 1), 0.01 * np.arange(6)[:, None]
    assert judged(1 + seeds + 0.1 * t).label == "collapse"
    verdict = judged(1 + seeds + np.log(t))
    assert verdict.label == "slowing"
    assert "levels off" in verdict.sentence.split("tell whether it")[1]  # and nowhere before


def test_levelling_off_needs_generations_that_show_it():
    """A rise that is over by generation 3 and one that creeps on are the same in 6 of them."""
    t, seeds = np.arange(1, 41), 0.001 * np.arange(6)[:, None]
    over, creeps = np.minimum(t - 1, 2) / 2, np.minimum(t - 1, 2) / 2 + 0.03 * np.maximum(t - 3, 0)
    short = judged((1 + seeds + creeps)[:, :6])
    assert short.label == "slowing"
    assert "6 generations are too few to tell whether it levels off" in short.sentence
    assert judged((1 + seeds + over)[:, :6]).label == "slowing"
    assert judged(1 + seeds + over).label == "plateau"
    assert "generations 20 to 40 added +0 [+0, +0]" in judged(1 + seeds + over).sentence
    assert "ever more slowly, but faster than a logarithm" in judged(1 + seeds + creeps).sentence


def test_accumulating_gaussians_level_off_and_kernel_estimates_do_not():
    """By theory the one converges, while the other's variance grows like the logarithm."""
    runs = gaussian_generations(20, 2, 100, "accumulate", seeds=range(200))
    assert judged(runs.nll).label == "plateau"
    X, X_test = shape_data("moons", 100, 400, rng=np.random.default_rng(0))
    result = run_generations(
        X, KDEModel(0.3), "accumulate", n_generations=40, X_test=X_test, seeds=range(10)
    )
    for G in (6, 20, 40):
        assert judged(result.curves("accumulate")[:, :G]).label == "slowing"
    replaced = run_generations(X, KDEModel(0.1), "replace", 40, X_test=X_test, seeds=range(10))
    labels = [judged(replaced.curves("replace")[:, :G]).label for G in (6, 12, 20, 40)]
    assert labels[:3] == ["collapse"] * 3
    assert labels[3] != "plateau"  # its last rise is lost in the noise: no sign of a level


def test_seeds_with_infinite_losses_are_counted():
    """An outcome that misses from one subsample has a loss for ever infinite, or for once."""
    t = np.arange(1, 21)
    losses = 1 + 0.1 * t + 0.01 * np.arange(8)[:, None]
    losses[:2, 9] = np.inf
    assert "(6 seeds of 8, infinite in the others)" in judged(losses).sentence
    losses[:, 9] = np.inf
    assert judged(losses).label == "inconclusive"
    assert "infinite at some generation of every seed" in judged(losses).sentence


def test_intervals_of_few_seeds_are_wide_enough():
    """Plain percentiles miss the mean of 10 normal values in 10 % of the cases, of 5 in 16 %."""
    for n, most in ((5, 0.10), (10, 0.07)):
        low, high = bootstrap_mean(np.random.default_rng(1).normal(size=(n, 2000)), 0.95)
        assert ((low > 0) | (high < 0)).mean() < most
    low, high = bootstrap_mean(np.array([[0.3]]), 0.95)
    assert (low[0], high[0]) == (-np.inf, np.inf)


def test_too_little_is_inconclusive():
    result = run_generations(normal(), "gaussian", n_generations=3, seeds=range(2))
    assert {v.label for v in result.verdict().values()} == {"inconclusive"}


def test_summary_brackets_the_mean(gaussian_result):
    summary = gaussian_result.summary()
    assert len(summary) == 3 * 40
    assert (summary.low <= summary["mean"]).all()
    assert (summary["mean"] <= summary.high).all()
    narrow = gaussian_result.summary(ci=0.5)
    assert (narrow.high - narrow.low <= summary.high - summary.low).all()


def test_infinite_losses_stay_infinite_never_nan():
    with pytest.warns(UserWarning, match="singular"):
        result = run_generations(normal(16, 14), "gaussian", "replace", 3, seeds=range(4))
    assert np.isposinf(result.frame.loss).all()
    summary = result.summary()
    assert np.isposinf(summary["mean"]).all()
    assert (summary.n_infinite == 4).all()
    assert result.verdict()["replace"].label == "inconclusive"
    assert '"inf"' in result.to_json()


def test_json_can_be_read_back(gaussian_result):
    content = json.loads(gaussian_result.to_json())
    assert content["verdict"]["replace"]["label"] == "collapse"
    assert len(content["rows"]) == len(gaussian_result.frame)
    assert content["settings"]["n_per_generation"] == 45


def test_plot_has_a_line_and_a_ribbon_per_workflow(gaussian_result):
    figure = gaussian_result.plot()
    assert [t.name for t in figure.data if t.name] == list(WORKFLOWS)
    assert len(figure.data) == 6
    assert "nats" in figure.layout.yaxis.title.text


def test_one_seed_is_drawn_without_an_interval():
    ribbon, line = run(seeds=[0]).plot().data
    assert len(ribbon.x) == 0
    assert list(line.x) == [1, 2, 3]
    assert np.isfinite(line.y).all()


def test_results_bad_input(gaussian_result):
    with pytest.raises(InputError, match="no column 'accuracy'"):
        gaussian_result.curves("replace", "accuracy")
    with pytest.raises(InputError, match="ci=2"):
        gaussian_result.summary(ci=2.0)


# ------------------------------------------------------------- value of synthetic data


def test_synthetic_items_help_when_real_ones_are_few():
    X, X_test = shape_data("moons", 300, 300, rng=np.random.default_rng(0))
    frame = value_of_synthetic(X, KDEModel(0.15), [5, 300], [0, 500], X_test=X_test, seeds=range(4))
    mean = frame.groupby(["R", "F"]).loss.mean()
    assert mean[5, 500] < mean[5, 0]
    assert mean[300, 500] > mean[300, 0]


def test_value_bad_input():
    with pytest.raises(InputError, match="nothing to learn"):
        value_of_synthetic(normal(), "gaussian", [0, 5], [0, 5])
    with pytest.raises(InputError, match="real_sizes"):
        value_of_synthetic(normal(), "gaussian", [-1], [5])
    with pytest.raises(InputError, match=r"^real_sizes=500, but only 45"):
        value_of_synthetic(normal(), "gaussian", [500], [5])
    with pytest.raises(InputError, match=r"^n_generator=60, but only 45"):
        value_of_synthetic(normal(), "gaussian", [5], [5], n_generator=60)
    with pytest.raises(InputError, match="no seeds"):
        value_of_synthetic(normal(), "gaussian", [5], [5], seeds=[])


def test_sizes_given_twice_are_priced_once():
    frame = value_of_synthetic(normal(), "gaussian", [5, 5, 20], [0, 10, 10], seeds=range(2))
    assert len(frame) == 2 * 2 * 2


def test_help_and_harm_are_said_from_five_seeds_on():
    import pandas as pd

    rows = [
        {"seed": s, "R": 5, "F": F, "loss": 2.0 - 0.1 * F + 0.01 * s}
        for s in range(5)
        for F in (0, 9)
    ]
    frame = pd.DataFrame(rows)
    assert "synthetic ones help" in synthetic_gain(frame).sentence[0]
    few = synthetic_gain(frame[frame.seed < 4]).sentence[0]
    assert "may help or harm (5 seeds can tell, not 4)" in few


# ------------------------------------------------------------- bad input


def run(X=None, model="gaussian", **options):
    X = normal() if X is None else X
    arguments = {"workflow": "replace", "n_generations": 3, "seeds": [0, 1]} | options
    return run_generations(X, model, **arguments)


def test_bad_input_sizes():
    with pytest.raises(ValueError, match=r"n_per_generation=100.*only 45 real items"):
        run(n_per_generation=100)
    with pytest.raises(ValueError, match="covariance needs at least 2 items to fit, found 1"):
        run(n_per_generation=1)
    with pytest.raises(InputError, match="test_size"):
        run(test_size=1.0)
    with pytest.raises(InputError, match="n_generations=0"):
        run(n_generations=0)
    with pytest.raises(InputError, match="no seeds"):
        run(seeds=[])
    with pytest.raises(InputError, match="workflow 'renew'"):
        run(workflow="renew")
    with pytest.raises(InputError, match="model 'gan'"):
        run(model="gan")
    with pytest.raises(InputError, match="object has no fit, sample, loss"):
        run(model=object())


def test_bad_input_cells():
    X = normal()
    X[3, 1], X[7, 0] = np.nan, np.inf
    with pytest.raises(InputError, match=r"2 of 60 rows hold NaN or infinite.*row 4.*impute"):
        run(X)
    with pytest.raises(InputError, match="not numeric"):
        run(np.array([["a", "b"], ["c", "d"]]))
    with pytest.raises(InputError, match="shape"):
        run(np.empty((0, 2)))
    with pytest.raises(InputError, match="shape"):
        run(np.zeros((2, 2, 2)))


def test_documents_may_come_as_an_array_or_a_column():
    import pandas as pd

    texts = [f"document {i} of some" for i in range(12)]
    losses = [run(kind(texts), "ngram").frame.loss for kind in (list, np.array, pd.Series)]
    assert (losses[0] == losses[1]).all()
    assert (losses[0] == losses[2]).all()


def test_rows_may_come_sparse_or_with_pandas_gaps():
    import pandas as pd
    from scipy.sparse import csr_array

    X = normal()
    assert (run(csr_array(X)).frame.loss == run(X).frame.loss).all()
    gap = pd.DataFrame({"a": pd.array([*range(59), None], dtype="Int64"), "b": X[:, 0]})
    with pytest.raises(InputError, match=r"1 of 60 rows hold NaN or infinite cells.*row 60"):
        run(gap)


def test_bad_input_test_set_of_other_columns():
    """Swapped columns are no error of NumPy's: the loss would be of another table."""
    import pandas as pd

    table = pd.DataFrame(normal() * [1, 50], columns=["a", "b"])
    with pytest.raises(InputError, match="X_test has the columns b, a, X_real has a, b"):
        run(table, X_test=table[["b", "a"]][:10] + 1e-9)
    with pytest.raises(InputError, match="X_test has 3 columns, X_real has 2"):
        run(X_test=np.zeros((10, 3)))


def test_bad_input_rows_that_make_no_table_beside_a_test_set():
    with pytest.raises(InputError, match="X_real is not numeric"):
        run([[1.0, 2.0], [3.0]], X_test=normal(5))


def test_held_out_documents_are_not_made_a_table():
    """An array of documents gives each as much room as the longest needs."""
    documents = [*["a document"] * 300, "long " * 20_000]
    tracemalloc.start()
    checked = check_test(documents, documents)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert checked == documents
    assert peak < 10e6  # 120 MB as an array


def test_bad_input_seeds():
    with pytest.raises(InputError, match=r"seeds=5 is one number.*range\(5\)"):
        check_seeds(5)
    with pytest.raises(InputError, match="a seed occurs twice"):
        run(seeds=[1, 1, 2])


def test_several_workflows_and_a_scikit_learn_density():
    from sklearn.mixture import GaussianMixture

    result = run(model=GaussianMixture(2), workflow=["replace", "accumulate-synthetic"])
    assert result.workflows == ["replace", "accumulate-synthetic"]
    assert result.settings["model"] == "SklearnModel"
    with pytest.raises(InputError, match=r"cannot be fitted to 45 items: .*n_components = 50"):
        run(model=GaussianMixture(50))
    with pytest.raises(InputError, match="workflow 'all' is not known"):
        run(workflow=["all", "replace"])


def test_text_is_scored_by_the_character():
    texts = ["some text here"] * 8
    assert "nats per character" in run(texts, "ngram").plot().layout.yaxis.title.text
    assert "nats per item" in run().plot().layout.yaxis.title.text


def test_bad_input_constant_column():
    X = normal()
    X[:, 1] = 3.0
    with pytest.warns(UserWarning, match="constant, zero variance: column 2"):
        run(X, KDEModel(0.3))
    constant = np.ones((20, 1))
    with (
        pytest.warns(UserWarning, match="constant"),
        pytest.raises(InputError, match="bandwidth='scott' is 0"),
    ):
        run(constant, "kde")


def test_bad_input_overlap_is_a_warning():
    X = normal()
    with pytest.warns(UserWarning, match="10 of 10 test items are exact copies"):
        run(X, X_test=X[:10])


def test_bad_input_singular_covariance():
    with pytest.warns(UserWarning, match="singular covariance"):
        result = run(normal(20, 30))
    assert np.isposinf(result.frame.loss).all()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (lambda n: np.zeros((n, 3)), r"expected shape \(45, 2\), found \(45, 3\)"),
        (lambda n: np.zeros((n - 1, 2)), r"expected shape \(45, 2\), found \(44, 2\)"),
        (lambda n: np.full((n, 2), np.nan), "45 of 45 rows hold NaN"),
        (lambda n: np.full((n, 2), "x"), "expected numbers"),
    ],
)
def test_bad_input_from_the_model(written, words):
    model = CallableModel(lambda X, g: X, lambda s, n, g: written(n), lambda s, t: 0.0)
    with pytest.raises(InputError, match="sample at generation 1, seed 0: " + words):
        run(model=model)


def test_bad_input_from_a_text_model():
    for written, words in [
        (lambda n: ["ab"] * (n - 1), "expected 6 documents, found 5"),
        (lambda n: [""] * n, "non-empty documents"),
        (lambda n: np.zeros((n, 1)), "non-empty documents"),
    ]:
        model = CallableModel(lambda X, g: X, lambda s, n, g, w=written: w(n), lambda s, t: 0.0)
        with pytest.raises(InputError, match=words):
            run([f"document {i}" for i in range(8)], model)


def test_nan_loss_names_generation_and_seed():
    model = CallableModel(lambda X, g: X, lambda s, n, g: s, lambda s, t: np.nan)
    with pytest.raises(InputError, match="loss returned NaN at generation 1, seed 0"):
        run(model=model)


def test_bad_input_warm_start_is_noticed():
    class Warm:
        def __init__(self):
            self.mean = 0.0

        def fit(self, X, *, rng):
            self.mean = 0.5 * self.mean + 0.5 * X.mean()
            return self

        def sample(self, n, *, rng):
            return rng.normal(self.mean, 1, (n, 2))

        def loss(self, X_test):
            return float((self.mean - X_test.mean()) ** 2)

    with pytest.warns(UserWarning, match="Warm keeps state between fits"):
        run(normal() + 1, Warm())


def test_bad_input_text():
    with pytest.raises(InputError, match="document 1 has 3 characters"):
        run(["abc"] * 8, NGramLM(5))
    with pytest.raises(InputError, match="document 2 is empty"):
        run(["abcdef", ""], NGramLM(2))
    with pytest.raises(InputError, match="outside the vocabulary"):
        run(["naïve text"] * 8, NGramLM(3))
    with pytest.raises(InputError, match="outside the vocabulary: 'z'"):
        run(["abcabc"] * 8, "ngram", X_test=["abczzz"])
    with pytest.raises(InputError, match="one string"):
        run("just one string", "ngram")
    with pytest.raises(InputError, match="holds numbers, NGramLM expects text"):
        run(normal(), NGramLM(3))
    with pytest.raises(InputError, match="holds text, GaussianModel expects numbers"):
        run(["a document"] * 8, "gaussian")


def test_bad_input_test_set_of_another_distribution():
    warnings.filterwarnings("default", "X_test does not look like")
    with pytest.warns(UserWarning, match="does not look like X_real"):
        run(normal(), X_test=normal(40, seed=1) + 5)


def test_blobs_train_and_test_share_their_centres():
    from scipy.stats import ks_2samp

    for seed in range(5):
        X, X_test = shape_data("blobs", 300, 300, rng=np.random.default_rng(seed))
        assert ks_2samp(X[:, 0], X_test[:, 0]).pvalue > 1e-3
        assert np.isfinite(KDEModel(0.5).fit(X).loss(X_test))
        assert KDEModel(0.5).fit(X).loss(X_test) < 6  # separate draws start near 80


def test_categorical_by_name_counts_the_outcomes():
    result = run(np.array([0, 1, 2] * 20), "categorical")
    assert result.frame.gini.iloc[0] == pytest.approx(2 / 3, abs=0.02)
    assert isinstance(result, GenerationResult)
    with pytest.raises(InputError, match="whole numbers"):
        run(normal() + 10, "categorical")


def test_models_are_not_changed_by_a_run():
    model = GaussianModel()
    run(model=model)
    assert not hasattr(model, "mean_")
    assert CategoricalModel(2).fresh().K == 2


def test_importing_the_package_is_light():
    import subprocess
    import sys

    code = (
        "import sys, practicum.generative.model_collapse as m; m.run_generations; "
        "print([x for x in ('scipy.stats', 'sklearn', 'pandas', 'plotly') if x in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
