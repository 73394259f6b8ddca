"""How often noise is called a result: simulated studies whose mean lies on the threshold.

*Reproduced* on noise may happen in at most 5 of 100 studies. The bound of each test is 5 % plus
three standard errors of the simulation.
"""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from practicum.study import evidence
from practicum.study.evidence import at_least, at_most, greater_than, holm

STUDIES = 500
BOUND = 0.05 + 3 * math.sqrt(0.05 * 0.95 / STUDIES)
KINDS = {  # mean 0 each
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
}


@pytest.fixture(autouse=True)
def _one_bootstrap_a_sample(monkeypatch):
    """The same values are asked several questions; resample them once, and large ones less."""
    cached = functools.cache(lambda values: Sample(np.array(values)))
    Sample = evidence.Sample
    monkeypatch.setattr(evidence, "Sample", lambda x, _: cached(tuple(np.asarray(x).tolist())))
    bootstrap = stats.bootstrap

    def fewer(data, *args, n_resamples, **kwargs):
        few = 1999 if len(data[0]) >= 20 else n_resamples
        return bootstrap(data, *args, n_resamples=few, **kwargs)

    monkeypatch.setattr(stats, "bootstrap", fewer)


def share(statuses, wanted="reproduced"):
    return np.mean([status == wanted for status in statuses])


@pytest.mark.parametrize("n", [3, 5, 7, 9, 10, 20, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_noise_on_the_threshold_is_rarely_called_reproduced(kind, n):
    rng = np.random.default_rng([n, len(kind)])
    samples = KINDS[kind](rng, (STUDIES, n))
    assert share(at_least(x, 0.0).status for x in samples) <= BOUND
    assert share(at_most(x, 0.0).status for x in samples) <= BOUND


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_wins_and_losses_on_the_threshold_are_rarely_called_reproduced(n):
    """Nine wins in ten, asked for at least nine in ten: five wins in a row prove nothing."""
    rng = np.random.default_rng([n, 5])
    samples = rng.binomial(1, 0.9, size=(STUDIES, n)).astype(float)
    assert share(at_least(x, 0.9).status for x in samples) <= BOUND


@pytest.mark.parametrize("n", [3, 5, 10, 20, 40])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_arms_are_rarely_called_different(kind, n):
    rng = np.random.default_rng([n, len(kind), 1])
    pairs = KINDS[kind](rng, (STUDIES, 2, n))
    assert share(greater_than(a, b).status for a, b in pairs) <= BOUND


@pytest.mark.parametrize(("kind", "n"), [("normal", 5), ("exponential", 5), ("exponential", 10)])
def test_a_study_of_six_empty_claims_rarely_reproduces_any(kind, n):
    """Family-wise: Holm over six claims, three of them at_least and three at_most."""
    rng = np.random.default_rng([n, len(kind), 2])
    lucky = 0
    for claims in KINDS[kind](rng, (STUDIES, 6, n)):
        judged = holm(
            {f"C{i}": (at_least if i % 2 else at_most)(x, 0.0) for i, x in enumerate(claims)}
        )
        lucky += any(v.status == "reproduced" for v in judged.values())
    assert lucky / STUDIES <= BOUND


@pytest.mark.parametrize("kind", KINDS)
def test_an_effect_of_one_standard_deviation_is_found(kind):
    """The tests above would also pass if nothing were ever reproduced."""
    rng = np.random.default_rng([len(kind), 3])
    samples = KINDS[kind](rng, (100, 20)) + 1
    assert share(at_least(x, 0.0).status for x in samples) > 0.9
    assert share((at_most(x, 0.0).status for x in samples), "not reproduced") > 0.9


def test_ten_seeds_find_large_effects_in_all_of_six_claims():
    rng = np.random.default_rng(4)
    found = 0
    for claims in rng.normal(size=(50, 6, 10)) + 3:
        judged = holm({f"C{i}": at_least(x, 0.0) for i, x in enumerate(claims)})
        found += all(v.status == "reproduced" for v in judged.values())
    assert found > 45
