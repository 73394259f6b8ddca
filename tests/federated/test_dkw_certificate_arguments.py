"""Arguments no type checker has seen: answered in words, not by a traceback of NumPy's."""

import math

import numpy as np
import pytest
from scipy import stats

from practicum.errors import InputError
from practicum.federated.dkw_certificate import (
    Fleet,
    RobustCurves,
    affordable_shift,
    beta_fleet,
    certify,
    dkw_band,
    dkw_half_width,
    dkw_quantile,
    estimate_shift,
    risk_upper_limit,
    tail_upper,
)

RISKS = np.linspace(0.0, 0.5, 60)


def unchecked(function):
    """The function below the type checks of the test suite."""
    return getattr(function, "__wrapped__", function)


def refused(match, call, hint=""):
    with pytest.raises(InputError, match=match) as found:
        call()
    assert hint in (found.value.hint or ""), found.value.hint


def test_what_is_no_number_is_refused():
    call = unchecked(certify)
    refused("n hold 1000", lambda: call(RISKS, 10**400, eps=0.2))
    refused("n of client 7", lambda: call(RISKS, [10] * 7 + [1e300] + [10] * 52, eps=0.2))
    refused("risks hold.*numbers expected", lambda: call(["a", "b"], eps=0.2))
    refused("risks hold.*numbers expected", lambda: call([[0.1], [0.1, 0.2]], eps=0.2))
    refused("n hold.*numbers expected", lambda: call(RISKS, ["a"] * 60, eps=0.2))
    refused("eps is 'x'; a number expected", lambda: call(RISKS, eps="x"))
    refused("eps is inf", lambda: call(RISKS, eps=math.inf))
    refused("delta is 'x'; a number expected", lambda: call(RISKS, eps=0.2, delta="x"))
    refused("levels hold", lambda: call(RISKS, eps=0.2, levels=["x"]))
    refused("curves hold", lambda: RobustCurves.of([0.0, 0.1], [[0.1, 0.2], [0.1]]))


@pytest.mark.parametrize("level", [math.nan, 2.0, -0.5, math.inf])
def test_levels_that_are_no_risks_are_refused(level):
    refused("level is", lambda: affordable_shift(RISKS, level=level, share=0.1))


@pytest.mark.parametrize("level", [30.0, 1.001, -0.5, math.inf])
def test_no_risk_in_0_1_has_such_a_level(level):
    certificate = certify(RISKS, eps=0.2)
    for ask in (certificate.at, certificate.lower_at, certificate.sentence):
        refused("a risk between 0 and 1", lambda ask=ask: ask(level), "")
    if math.isfinite(level):
        grid = sorted([0.1, level])
        refused("a risk between 0 and 1", lambda: certify(RISKS, eps=0.2, levels=grid))
        refused("a risk between 0 and 1", lambda: dkw_band(RISKS, levels=grid))
    refused("level is 30", lambda: certificate.at(30.0), "30 % is 0.3")


def test_masked_numbers_are_missing_and_tensors_are_numbers():
    masked = np.ma.masked_greater(RISKS, 0.4)
    refused("12 of 60 clients have no number", lambda: unchecked(certify)(masked, eps=0.2))
    torch = pytest.importorskip("torch")
    risks = torch.tensor(RISKS, requires_grad=True)
    assert unchecked(certify)(risks, eps=0.2) == certify(RISKS, eps=0.2)


def test_a_certificate_is_shown_in_a_line():
    assert repr(certify(RISKS, eps=0.2, levels=[0.1, 0.2])).startswith(
        "Certificate(exact, chi2 0.2, delta=0.05, K=60, 2 levels, mean_upper="
    )


def test_levels_that_are_no_numbers_are_refused():
    refused("levels must be", lambda: certify(RISKS, eps=0.2, levels=[math.nan]))
    refused("level is nan", lambda: certify(RISKS, eps=0.2).at(math.nan))


def test_certificates_can_be_compared_and_hashed():
    one, same = certify(RISKS, eps=0.2), certify(RISKS, eps=0.2)
    assert one == same
    assert hash(one) == hash(same)
    assert one != certify(RISKS, eps=0.3)
    assert one != dkw_band(RISKS)
    assert one != "a certificate"
    curves = RobustCurves.of([0.0, 0.1], [[0.1, 0.2], [0.1, 0.3]])
    assert curves in (curves,)
    assert beta_fleet() != Fleet("", (np.array([0.1, 0.2]),), (1.0,), (1.0,))


def test_bands_check_their_arguments():
    refused("no side 'x'", lambda: unchecked(dkw_half_width)(100, side="x"), "two")
    limit = unchecked(risk_upper_limit)
    for miss in (2.0, 0.0, math.nan):
        refused("miss is", lambda m=miss: limit(RISKS, np.full(60, 10), m))
    refused("values hold", lambda: unchecked(dkw_quantile)(["a"], 0.5))
    refused("whole numbers", lambda: unchecked(tail_upper)([2.5], 10))


def test_networks_check_their_parts():
    one = np.array([0.1])
    refused("risk", lambda: Fleet("x", (np.array([1.5]),), (1.0,), (1.0,)))
    refused("mix", lambda: Fleet("x", (one, one), (0.3, 0.2), (0.5, 0.5)))
    refused("target_mix", lambda: Fleet("x", (one, one), (0.5, 0.5), (1.5, -0.5)))
    refused("mix", lambda: Fleet("x", (one,), (0.5, 0.5), (1.0,)))
    refused("n is 0", lambda: beta_fleet().draw(0))
    refused("n_clients is 0", lambda: beta_fleet().draw(10, n_clients=0))


def test_bins_are_capped_before_memory_is_taken():
    refused("bins is 2.5", lambda: unchecked(estimate_shift)(RISKS, RISKS, bins=2.5))
    refused("bins is 1000000000", lambda: estimate_shift(RISKS, RISKS, bins=10**9), "at most")


# --- few clients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 10, 19, 49])
def test_few_clients_are_told_the_least_share_that_can_be_certified(k):
    least = min(1.0, tail_upper(np.array([0]), k, 0.05)[0])
    words = rf"at K={k}; no share of clients below {least:.2f} can be certified"
    with pytest.warns(UserWarning, match=words):
        bound = certify(np.full(k, 0.1), eps=0.0, levels=[0.5]).upper[0]
    assert bound == pytest.approx(least)


# --- rounded rates -------------------------------------------------------------------------------


def test_exact_rates_are_counted_as_they_are():
    errors, n = np.arange(40), 200
    found = risk_upper_limit(errors / n, np.full(40, n), 0.05, "01")
    np.testing.assert_allclose(found, stats.beta(errors + 1, n - errors).ppf(0.95))
    single = risk_upper_limit(errors.astype(np.float32).astype(float) / n, np.full(40, n), 0.05)
    assert np.isfinite(single).all()


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [100, 426, 1000, 1774])
def test_a_rounded_rate_is_no_larger_than_what_it_is_counted_as(decimals, n):
    """The limit from rounded rates is never below the limit from the exact counts."""
    errors, sizes = np.arange(n // 2), np.full(n // 2, n)
    exact = risk_upper_limit(errors / n, sizes, 0.05, "01")
    rounded = risk_upper_limit(np.round(errors / n, decimals), sizes, 0.05, "01")
    assert (rounded >= exact - 1e-12).all()
    within = risk_upper_limit(
        np.minimum(errors / n + 10.0**-decimals + 1 / n, 1.0), sizes, 0.05, "bounded"
    )
    assert (rounded <= within + 1e-9).all()


def test_rounded_rates_of_single_precision_are_exact():
    errors, n = np.arange(300), 1774
    rates = (errors / n).astype(np.float32).astype(float)
    found = risk_upper_limit(rates, np.full(300, n), 0.05, "01")
    np.testing.assert_allclose(found, stats.beta(errors + 1, n - errors).ppf(0.95))


def test_clients_are_called_by_their_names():
    sizes, names = np.full(60, 200), [f"ward {k}" for k in range(60)]
    options = {"eps": 0.2, "losses": "01", "clients": names}
    risks = np.round(RISKS * 200) / 200
    risks[7] += 0.0012345678
    refused("ward 7 is no share of 200 samples", lambda: certify(risks, sizes, **options))
    sizes[9] = 2
    refused(r"ward 9 \(n=2\)", lambda: certify(RISKS, sizes, eps=0.2, clients=names))
    refused("ward 9", lambda: affordable_shift(RISKS, sizes, level=0.3, share=0.1, clients=names))
