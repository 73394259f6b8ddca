"""auction-bne: a step without sampling against the published estimator, in one run.

    python benchmarks/bench_auction_bne.py

Ratios are peer time / our time, both in CPU seconds of one thread.  The peers are the published
estimator (10,000 market prices, 256 values a bidder, Gaussian kernel) written as its authors wrote
it, in PyTorch with automatic differentiation, and our own NumPy form of it; the faster one counts.
bnelearn and the discretised games of OpenSpiel are not compared: the first needs Python 3.8 and
torch 1.8, the second has integer bids only.  The exit status is 1 when a bar is missed.
"""

from __future__ import annotations

import math
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from practicum.games.auction_bne import PUBLISHED, Settings, fictitious_play, learn, make_game
from practicum.games.auction_bne.closed_forms import symmetric_equilibrium
from practicum.games.auction_bne.learning import utility_slopes
from practicum.games.auction_bne.market import KernelMarket, QuantileMarket, quantile_nodes
from practicum.games.auction_bne.sampling import kernel_sums

STEP_BAR = 50.0  # quadrature step over the published estimator's
GROWTH_BAR = 2.0  # of our steps to the kernel's floor, n = 2 to 20
POWER_BAR = 1.0  # of n, in the utility gradient's steps
FLOOR_BARS = (0.0102, 0.0029)  # kernel bias that the paper file measured at .05 and .02
SEEDS = 5
missed: list[str] = []


def seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """Best of a few runs."""
    best = math.inf
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def check(name: str, met: bool, words: str) -> None:
    print(f"  {name}: {words}  [{'met' if met else 'MISSED'}]")
    if not met:
        missed.append(name)


def torch_step(n: int) -> Callable[[], object] | None:
    """One published step for n symmetric bidders, as published, or None without PyTorch."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(),
        torch.nn.Linear(32, 1),
    )  # fmt: skip
    optimiser = torch.optim.SGD(net.parameters(), lr=0.05)
    h, own = 0.05, torch.eye(n, dtype=torch.bool)

    def step() -> None:
        with torch.no_grad():
            bids = net(torch.rand(n, 10_000, 1)).abs()
            rivals = bids[None].repeat(n, 1, 1, 1)
            rivals[own] = -1
            market = rivals.max(dim=1)[0].transpose(-1, -2)
        v = torch.rand(n, 256, 1)
        b = net(v).abs()
        with torch.no_grad():
            x = b - market
            density = torch.exp(-0.5 * (x / h) ** 2) / (math.sqrt(2 * math.pi) * h)
            H = (0.5 * (1 + torch.erf(x / (math.sqrt(2) * h)))).mean(-1, keepdim=True)
            dh = (-x / h**2 * density).mean(-1, keepdim=True)
            f = density.mean(-1, keepdim=True)
            first, second = (v - b) * f - H, (v - b) * dh - 2 * f
            newton = (second < -1e-8) & (first.abs() < 0.01)
            D = torch.where(newton, first / second, -first) / b.numel()
        net.zero_grad()
        b.backward(D)
        optimiser.step()

    return step


def per_step(n: int, **changes: object) -> float:
    """CPU seconds of one step of one seed, the network included."""
    game = make_game("first_price", "uniform:0,1", n)
    steps = changes.pop("steps")
    base = replace(PUBLISHED, steps=steps, warmup=0, **changes)
    repeat = 1 if base.gradient == "kde_mc" else 3
    work = lambda: learn(game, base, [np.random.default_rng(0)], record_every=10_000)  # noqa: E731
    return seconds(work, repeat) / steps


def gradient_errors(n: int) -> tuple[float, float]:
    """RMS error of u' by quadrature and by one published sample, at the same bids."""
    game = make_game("first_price", "uniform:0,1", n)
    slopes = {}
    for nodes in (512, 8192):
        values, shares = quantile_nodes(game, nodes)
        bids = 0.7 * values
        market = KernelMarket(game, shares)(bids, 0.05)
        slopes[nodes] = utility_slopes("first_price", 1.0, values, bids, *market)[0][0]
    values, _ = quantile_nodes(game, 512)
    exact = np.interp(values[0], quantile_nodes(game, 8192)[0][0], slopes[8192])
    prices = 0.7 * np.random.default_rng(0).random((n - 1, 10_000)).max(axis=0)
    own = 0.7 * values[0]
    parts = [kernel_sums(b, prices, 0.05) for b in np.split(own, 16)]
    sampled = (np.concatenate(p) for p in zip(*parts, strict=True))
    u = utility_slopes("first_price", 1.0, values[0], own, *sampled)[0]
    return tuple(float(np.sqrt(np.mean(e[2:-2] ** 2))) for e in (slopes[512] - exact, u - exact))


def steps_bench() -> None:
    print("One step, first price, bandwidth .05, network 1-32-32-1 (milliseconds)")
    for n in (2, 5, 10):
        ours = per_step(n, steps=200)
        exact = per_step(n, steps=200, gradient="exact", nodes=256)
        peers = {"NumPy": per_step(n, steps=2, gradient="kde_mc")}
        published = torch_step(n)
        if published is not None:
            published()
            peers["PyTorch"] = seconds(published, 3)
        peer = min(peers, key=peers.get)
        ratio = peers[peer] / ours
        quadrature, sampled = gradient_errors(n)
        listed = ", ".join(f"{k} {1e3 * t:.0f}" for k, t in peers.items())
        print(
            f"  n={n:2d}: quadrature {1e3 * ours:.3f}, exact market {1e3 * exact:.3f}; published: "
            f"{listed}"
        )
        check(
            f"step n={n}",
            ratio >= STEP_BAR and quadrature <= sampled,
            f"{ratio:.0f}x (bar {STEP_BAR:g}x); error of u': {quadrature:.1e} by quadrature, "
            f"{sampled:.1e} by the published sample",
        )


def growth_of_cost() -> None:
    print("How the cost of a step grows (milliseconds of the market alone)")
    for nodes in (256, 512, 1024, 2048):
        game = make_game("first_price", "uniform:0,1", 10)
        values, shares = quantile_nodes(game, nodes)
        kernel, quantile = KernelMarket(game, shares), QuantileMarket(game, values, shares, 0.1)
        a = seconds(lambda k=kernel, v=values: [k(0.9 * v, 0.05) for _ in range(50)]) / 50
        b = seconds(lambda q=quantile, v=values: [q(0.9 * v) for _ in range(50)]) / 50
        print(f"  {nodes:5d} nodes: kernel {1e3 * a:.3f}, exact {1e3 * b:.3f} (n does not enter)")


def learning(n: int, chosen: Settings) -> np.ndarray:
    """Errors of every seed and record."""
    game = make_game("first_price", "uniform:0,1", n)
    values, _ = quantile_nodes(game, chosen.nodes)
    rngs = [np.random.default_rng(s) for s in range(SEEDS)]
    reference = np.stack([symmetric_equilibrium(game)(values[0])])
    return learn(game, chosen, rngs, reference=reference).l2[:, 0]


def steps_to(errors: np.ndarray, threshold: float) -> np.ndarray:
    return np.array([10 * (np.flatnonzero(e > threshold)[-1] + 1) for e in errors])


def rates() -> None:
    threshold = 2 * FLOOR_BARS[0]
    print(f"Steps until the error stays below {threshold:g}, plain steps of .05, {SEEDS} seeds")
    arms = {
        "ours": Settings(optimizer="sgd", lr=0.05),
        "published": PUBLISHED,
        "utility gradient": replace(PUBLISHED, method="utility_gradient"),
    }
    found = {}
    for name, chosen in arms.items():
        found[name] = {n: steps_to(learning(n, chosen), threshold) for n in (2, 5, 10, 20)}
        print(
            f"  {name:17s}" + "".join(f"  n={n}: {s.mean():6.0f}" for n, s in found[name].items())
        )
    growth = found["ours"][20] / found["ours"][2]
    check("growth of our steps", growth.max() < GROWTH_BAR, f"{growth.min():.2f} to "
          f"{growth.max():.2f} from n=2 to 20 (bar {GROWTH_BAR:g})")  # fmt: skip
    plain = found["utility gradient"]
    power = np.log(plain[20] / plain[2]) / np.log(10)
    check(
        "power of n in the utility gradient's",
        power.min() >= POWER_BAR,
        f"{power.min():.2f} to {power.max():.2f}, a lower bound: 2,000 steps are the most (bar "
        f"{POWER_BAR:g})",
    )


def floors() -> None:
    print(f"Error left after 2,000 steps, {SEEDS} seeds (kernel bias: {FLOOR_BARS})")
    for n in (2, 5, 10, 20, 50):
        start = time.process_time()
        left = learning(n, Settings())[:, -1]
        spent = (time.process_time() - start) / SEEDS
        check(f"floor n={n}", left.max() < FLOOR_BARS[1], f"mean {left.mean():.1e}, worst "
              f"{left.max():.1e}, {spent:.2f} s a seed")  # fmt: skip


def bias_remedies() -> None:
    print(f"Ways around the kernel's bias: error left, mean of {SEEDS} seeds")
    for name, chosen in (
        ("bandwidth .05", PUBLISHED),
        ("halved at 50 % and 75 %", replace(PUBLISHED, bandwidth="auto")),
        ("bandwidth .02", replace(PUBLISHED, bandwidth=0.02)),
        ("bandwidth .05, Adam", replace(PUBLISHED, optimizer="adam", lr="auto")),
        ("halved, Adam", replace(PUBLISHED, bandwidth="auto", optimizer="adam", lr="auto")),
        ("no kernel, plain steps", Settings(optimizer="sgd", lr=0.05)),
        ("no kernel, Adam (chosen)", Settings()),
    ):
        left = {n: learning(n, chosen)[:, -1].mean() for n in (2, 10)}
        print(f"  {name:26s}" + "".join(f"  n={n}: {e:.1e}" for n, e in left.items()))


def exact_peers() -> None:
    print("What needs no learning (uniform first price, n=10)")
    game = make_game("first_price", "uniform:0,1", 10)
    v = np.linspace(0, 1, 501)
    for name, solve in (
        ("closed form", lambda: symmetric_equilibrium(game)),
        ("fictitious play, 128 x 256", lambda: fictitious_play(game)[0]),
    ):
        error = float(np.sqrt(np.mean((solve()(v) - 0.9 * v) ** 2)))
        print(f"  {name:28s} {seconds(solve):.4f} s, error {error:.1e}")


if __name__ == "__main__":
    steps_bench()
    growth_of_cost()
    rates()
    floors()
    bias_remedies()
    exact_peers()
    if missed:
        sys.exit("bars missed: " + ", ".join(missed))
