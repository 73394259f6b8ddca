"""The small network: gradients against finite differences, fits from the same state."""

import numpy as np
import pytest

from practicum.errors import InputError
from practicum.generative.model_collapse import NeuralLM, run_generations


def rng(seed=0):
    return np.random.default_rng(seed)


def tiny(**options):
    return NeuralLM(context=3, embedding=2, hidden=5, vocabulary="abc", **options)


def test_gradients_equal_finite_differences():
    model = tiny().fit(["abcabc", "ccba"], rng=rng())
    model._weights = {k: w.astype(np.float64) for k, w in model._weights.items()}
    contexts, targets = model._windows(["abacabca", "bb"])
    gradients = model._gradients(contexts, targets)[1]
    for name, weight in model._weights.items():
        for index in np.ndindex(weight.shape):
            old, ends = weight[index], []
            for step in (1e-5, -1e-5):
                weight[index] = old + step
                ends.append(model._gradients(contexts, targets)[0])
            weight[index] = old
            slope = (ends[0] - ends[1]) / 2e-5
            # float32 where the embedding's gradient is summed
            assert gradients[name][index] == pytest.approx(slope, abs=2e-6), (name, index)


def test_probabilities_sum_to_one():
    model = tiny().fit(["abcabc"], rng=rng())
    log_p = model._log_probabilities(model._windows(["abc"])[0])[0]
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-5)


def test_every_fit_starts_from_the_same_state():
    base = tiny().fit(["abcabc"] * 20, rng=rng())
    for model in (tiny(), NeuralLM(base)):
        first = model.fit(["aabb"] * 9, rng=rng(1)).loss(["abc"])
        model.fit(["cccc"] * 9, rng=rng(2))
        assert model.fit(["aabb"] * 9, rng=rng(1)).loss(["abc"]) == first


def test_fine_tuning_does_not_touch_the_base():
    base = tiny().fit(["abcabc"] * 20, rng=rng())
    before = base.loss(["abc"])
    NeuralLM(base).fit(["cccc"] * 50, rng=rng())
    assert base.loss(["abc"]) == before


def test_it_learns_what_a_context_of_three_can_tell():
    model = tiny(epochs=60, learning_rate=0.02).fit(["abcabcabcabc"] * 30, rng=rng())
    assert model.loss(["abcabcabcabc"]) < 0.05
    assert model.sample(2, rng=rng())[0].startswith("abcabc")


def test_samples_follow_the_probabilities():
    from scipy.stats import chisquare

    model = tiny(document_length=1).fit(["ab", "ca", "bb"] * 20, rng=rng())
    drawn = model.sample(20_000, rng=rng(1))
    contexts = np.full((1, 3), model._symbols.newline)
    expected = np.exp(model._log_probabilities(contexts)[0][0].astype(float))
    counts = np.array([drawn.count(c) for c in model.vocabulary])
    assert chisquare(counts, expected / expected.sum() * len(drawn)).pvalue > 1e-4


def test_replace_is_worst_for_a_network_too():
    docs = ["the cat sat on the mat and saw the rat run " * 3] * 24
    model = NeuralLM(context=4, hidden=24, epochs=3, vocabulary="".join(set(docs[0])))
    test = ["the rat sat on the cat and saw the mat run "]
    result = run_generations(docs, model, n_generations=5, X_test=test, seeds=range(3))
    last = result.frame[result.frame.generation == 5].groupby("workflow").loss.mean()
    assert last["replace"] > last["accumulate"]


def test_bad_input():
    with pytest.raises(InputError, match="all positive"):
        NeuralLM(hidden=0)
    with pytest.raises(InputError, match="not fitted"):
        NeuralLM(base=tiny())
    with pytest.raises(InputError, match="document 1 is empty"):
        tiny().fit([""], rng=rng())
    with pytest.raises(InputError, match="outside the vocabulary: 'z'"):
        tiny().fit(["abz"], rng=rng())
