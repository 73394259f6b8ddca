"""The n-gram model against a dictionary implementation of the same formula."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.errors import InputError
from practicum.generative.model_collapse import NGramLM

SYMBOLS = "\nabc "


class DictLM:
    """The docstring's recursion, word for word."""

    def __init__(self, order, tau, vocabulary, base=None):
        self.order, self.tau, self.vocabulary, self.base = order, tau, vocabulary, base
        self.counts = [Counter() for _ in range(order + 1)]

    def fit(self, documents):
        for text in documents:
            for i, symbol in enumerate(text):
                for k in range(1, self.order + 1):
                    context = ("\n" * self.order + text[:i])[-(k - 1) :] if k > 1 else ""
                    self.counts[k][context, symbol] += 1
                    self.counts[k][context] += 1
        return self

    def p(self, symbol, history):
        p = self.base.p(symbol, history) if self.base else 1 / len(self.vocabulary)
        for k in range(self.order if self.base else 1, self.order + 1):
            context = history[-(k - 1) :] if k > 1 else ""
            seen = self.counts[k]
            p = (seen[context, symbol] + self.tau * p) / (seen[context] + self.tau)
        return p

    def loss(self, documents):
        logs = [
            np.log(self.p(symbol, "\n" * self.order + text[:i]))
            for text in documents
            for i, symbol in enumerate(text)
        ]
        return -np.mean(logs)


documents = st.lists(st.text(SYMBOLS, min_size=4, max_size=20), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(train=documents, new=documents, test=documents, order=st.integers(1, 4))
def test_equals_a_dictionary_implementation(train, new, test, order):
    base = NGramLM(order, tau=2.0, vocabulary=SYMBOLS).fit(train)
    tuned = NGramLM(order, base, tau=4.0).fit(new)
    slow_base = DictLM(order, 2.0, SYMBOLS).fit(train)
    slow_tuned = DictLM(order, 4.0, SYMBOLS, slow_base).fit(new)
    assert base.loss(test) == pytest.approx(slow_base.loss(test), rel=1e-10)
    assert tuned.loss(test) == pytest.approx(slow_tuned.loss(test), rel=1e-10)


@settings(max_examples=40, deadline=None)
@given(train=documents, new=documents, test=documents, order=st.integers(1, 4))
def test_grown_equals_fitted(train, new, test, order):
    grown = NGramLM(order, vocabulary=SYMBOLS).fit(train).extend(new)
    assert grown.loss(test) == NGramLM(order, vocabulary=SYMBOLS).fit(train + new).loss(test)


@given(train=documents, order=st.integers(1, 4), history=st.text(SYMBOLS, min_size=4, max_size=4))
def test_probabilities_sum_to_one(train, order, history):
    model = NGramLM(order, vocabulary=SYMBOLS).fit(train)
    codes = [model.vocabulary.index(c) for c in history[: order - 1]]
    context = sum(c * len(SYMBOLS) ** j for j, c in enumerate(reversed(codes)))
    p = model.probability(context * len(SYMBOLS) + np.arange(len(SYMBOLS)))
    assert p.sum() == pytest.approx(1)


def test_samples_follow_the_predictive_distribution():
    from scipy.stats import chisquare

    base = NGramLM(2, tau=3.0, vocabulary="\nab").fit(["ababb", "aab"])
    model = NGramLM(2, base, tau=2.0, document_length=1).fit(["ab", "ba", "bb"])
    first = np.array([model.vocabulary.index(t) for t in model.sample(30_000, rng=rng())])
    expected = model.probability(np.arange(3)) * len(first)  # context "\n" has code 0
    assert chisquare(np.bincount(first, minlength=3), expected).pvalue > 1e-4


def rng(seed=0):
    return np.random.default_rng(seed)


def test_documents_have_the_mean_length_of_the_training_documents():
    drawn = NGramLM(3, vocabulary="\nab").fit(["ab" * 3, "ab" * 5]).sample(7, rng=rng())
    assert [len(t) for t in drawn] == [8] * 7


def test_fits_start_from_the_base_every_time():
    base = NGramLM(3, vocabulary=SYMBOLS).fit(["abc abc"])
    model = NGramLM(3, base)
    first = model.fit(["aaa bbb"]).loss(["abc abc"])
    model.fit(["ccc ccc"])
    assert model.fit(["aaa bbb"]).loss(["abc abc"]) == first


def test_bad_input():
    model = NGramLM(order=5)
    with pytest.raises(InputError, match="document 2 has 3 characters"):
        model.fit(["long enough", "abc"])
    with pytest.raises(InputError, match="document 1 is empty"):
        model.fit([""])
    with pytest.raises(InputError, match="no documents"):
        model.fit([])
    with pytest.raises(InputError, match="outside the vocabulary: 'é' 'ü' '漢'"):
        model.fit(["plain text", "übel café 漢"])
    with pytest.raises(InputError, match="list of documents"):
        model.fit("one string")
    with pytest.raises(InputError, match="order=0"):
        NGramLM(order=0)
    with pytest.raises(InputError, match="does not fit 64 bits"):
        NGramLM(order=12)
    with pytest.raises(InputError, match="not fitted"):
        NGramLM(5, base=NGramLM(5))
    with pytest.raises(InputError, match="another order"):
        NGramLM(5, base=NGramLM(3).fit(["abcdef"]))
