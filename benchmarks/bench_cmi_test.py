"""cmi-test against the official tensor construction, causal-learn's KCI and hyppo's FCIT.

    python benchmarks/bench_cmi_test.py [--fcit]

Everything on one thread, each pair on the same arrays in the same run, CPU seconds (best of
several: other work on the machine does not count; FCIT, which starts processes, by the wall
clock). Exits 1 when a bar is missed:

* the matrix F at least 20 times faster than the official construction, equal to 1e-5;
* one default test, its self-check included, faster than KCI at n = 400 with 25 + 25 columns;
* one default test on 500 x 50 in under 20 s;
* memory that does not grow with the number of draws, and as n² with the rows.

``pip install causal-learn hyppo`` and PyTorch for the peers; the last line names those that are
missing.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from practicum.stats.cmi_test import (
    GaussianDesign,
    conditional_mean_test,
    gcm_test,
    pcm_test,
    statistic_matrix,
)

warnings.simplefilter("ignore")
missed: list[str] = []
skipped: list[str] = []


def seconds(
    call: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Seconds by the clock, the best of ``repeats``."""
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        call()
        best = min(best, clock() - start)
    return best


def bar(met: bool, what: str) -> None:
    """Print a bar and remember it if it was missed."""
    print(f"  {'met   ' if met else 'MISSED'} {what}")
    if not met:
        missed.append(what)


def official(torch: Any, x: Any, draws: Any, y: Any, y_hat: Any, z: Any) -> Any:
    """``get_p_value_stat`` of the official notebook (MIT) up to its matrix FF_mx."""
    n, d = x.shape

    def pairs(v: Any) -> Any:
        repeated = v.repeat(n, 1, 1)
        return torch.linalg.vector_norm(repeated - torch.swapaxes(repeated, 0, 1), ord=1, dim=2)

    of_z, of_x = pairs(z), pairs(x)
    sigma_z, sigma_x = torch.median(of_z).item(), torch.median(of_x).item()
    repeated = draws.repeat(n, 1, 1).reshape(n, n, -1, d)
    cross = torch.linalg.vector_norm(repeated - x.repeat(1, n).reshape(n, n, 1, d), ord=1, dim=3)
    cross = torch.mean(torch.exp(-cross / sigma_x), dim=2)
    same = torch.linalg.vector_norm(repeated - torch.swapaxes(repeated, 0, 1), ord=1, dim=3)
    same = torch.mean(torch.exp(-same / sigma_x), dim=2)
    u = torch.exp(-of_x / sigma_x) - cross - cross.T + same
    residual = y_hat - y
    return u * (residual @ residual.T) * torch.exp(-of_z / sigma_z) * (1 - torch.eye(n))


def against_the_official_construction() -> None:
    """The matrix F, M = 100 draws, 25 columns."""
    print("The statistic's matrix, M = 100 draws, 25 + 25 columns")
    try:
        import torch
    except ImportError:
        skipped.append("the official construction (no PyTorch)")
        return
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    for n in (100, 200):
        x, z = rng.normal(size=(2, n, 25))
        y, y_hat = rng.normal(size=(2, n, 1))
        draws = rng.normal(size=(100, n, 25))
        as_torch = [
            torch.from_numpy(np.ascontiguousarray(a, dtype=np.float32))
            for a in (x, np.moveaxis(draws, 0, 1), y, y_hat, z)
        ]
        theirs = official(torch, *as_torch).numpy()
        ours = statistic_matrix(x, y, z, draws, y_hat)
        slow = seconds(lambda t=as_torch: official(torch, *t), 2)
        quick = seconds(lambda a=(x, y, z, draws, y_hat): statistic_matrix(*a), 4)
        gap = np.abs(theirs - ours).max()
        print(
            f"  n = {n}: official {slow:.3f} s, ours {quick:.4f} s, {slow / quick:.0f} times; "
            f"largest difference {gap:.1e}; their tensors {n * n * 100 * 25 * 4 / 1e6:.0f} MB each"
        )
    bar(slow / quick >= 20, f"at least 20 times faster at n = 200 ({slow / quick:.0f})")
    bar(gap <= 1e-5, f"the same matrix to 1e-5 ({gap:.1e})")


def against_other_tests() -> None:
    """A whole test on an even effect, 25 + 25 columns."""
    print("A whole test, 25 + 25 columns, even effect (p in brackets)")
    for n in (200, 400, 800):
        x, y, z = GaussianDesign("even-sparse", 0.5).draw(n, np.random.default_rng(0))
        arms: dict[str, Callable[[], float]] = {
            "ours": lambda a=(x, y, z): conditional_mean_test(*a, random_state=0).pvalue,
            "ours, no self-check": lambda a=(x, y, z): (
                conditional_mean_test(*a, random_state=0, n_check=0).pvalue
            ),
            "gcm": lambda a=(x, y, z): gcm_test(*a, rng=0).pvalue,
            "pcm": lambda a=(x, y, z): pcm_test(*a, rng=0).pvalue,
            **peers(x, y, z, n),
        }
        spent = {name: seconds(call, 5) for name, call in arms.items() if name != "fcit"}
        if "fcit" in arms:  # works in processes of its own
            spent["fcit"] = seconds(arms["fcit"], 1, time.perf_counter)
        p = {name: call() for name, call in arms.items() if name != "fcit"}
        for name, s in spent.items():
            shown = f"({p[name]:.3f})" if name in p else ""
            print(f"  n = {n}: {name:20s} {s:8.3f} s  {s / spent['ours']:7.1f} times ours {shown}")
        if n == 400 and "kci" in spent:
            ratio = spent["kci"] / spent["ours"]
            bar(ratio > 1, f"faster than causal-learn's KCI at n = 400 ({ratio:.2f} times)")


def peers(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[str, Callable[[], float]]:
    """KCI as causal-learn runs it by default; FCIT when asked for: it takes half a minute."""
    found: dict[str, Callable[[], float]] = {}
    try:
        from causallearn.utils.KCI.KCI import KCI_CInd

        found["kci"] = lambda: float(KCI_CInd().compute_pvalue(x, y, z)[0])
    except ImportError:
        if n == 400:
            skipped.append("KCI (no causal-learn)")
    if n == 200 and "--fcit" in sys.argv:
        try:
            from hyppo.conditional import FCIT

            found["fcit"] = lambda: float(FCIT().test(x, y, z).pvalue)
        except ImportError:
            skipped.append("FCIT (no hyppo)")
    return found


def growth() -> None:
    """How the cost of a default test grows, and the size the issue asks for."""
    print("Growth of a default test, self-check included, 25 + 25 columns")
    for n in (250, 500, 1000, 2000):
        x, y, z = GaussianDesign("null").draw(n, np.random.default_rng(0))
        s = seconds(lambda a=(x, y, z): conditional_mean_test(*a, random_state=0), 2)
        print(f"  n = {n}: {s:.3f} s, {s / n**2 * 1e6:.2f} s per million pairs")
        if n == 500:
            bar(s < 20, f"500 x 50 in under 20 s ({s:.2f} s)")


def memory() -> None:
    """Peak memory: flat in the draws, square in the rows; the official construction beside it."""
    print("Peak memory of a test, 25 + 25 columns, as multiples of one n x n matrix of doubles")
    peaks: dict[tuple[int, int], float] = {}
    for n, draws in ((400, 10), (400, 20), (400, 100), (400, 400), (800, 20), (1600, 20)):
        x, y, z = GaussianDesign("null").draw(n, np.random.default_rng(0))
        tracemalloc.start()
        conditional_mean_test(x, y, z, draws=draws, random_state=0)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        peaks[n, draws] = peak
        one = n**2 * 8 / 1e6
        theirs = n**2 * draws * 25 * 4 / 1e6
        print(
            f"  n = {n}, {draws} draws: {peak:.0f} MB, {peak / one:.1f} matrices "
            f"(a single tensor of the official construction: {theirs:,.0f} MB)"
        )
    bar(peaks[400, 20] < 1.02 * peaks[400, 10], "twice the draws, the same memory")
    bar(peaks[400, 400] < 1.02 * peaks[400, 10], "forty times the draws, the same memory")
    rate = np.log2(peaks[1600, 20] / peaks[400, 20]) / 2
    bar(rate < 2.1, f"memory grows as n to the power {rate:.2f}, at most 2")


if __name__ == "__main__":
    with threadpool_limits(1):
        against_the_official_construction()
        against_other_tests()
        growth()
        memory()
    if missed:
        sys.exit("missed: " + "; ".join(missed))
    print(f"every bar is met{'; not measured: ' + ', '.join(skipped) if skipped else ''}")
