"""What DMPM costs: drawing beside its neighbours with the same network, the oracle, growth.

Peers, on the same trained network and the same grid in this run: Meta's discrete flow-matching
solver (``pip install --no-deps flow_matching torchdiffeq``; CC BY-NC, so optional) and masked
diffusion. Exits non-zero when drawing takes longer than the solver, or when enumerating 14 bits
takes a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np

from practicum.generative.discrete_markov import DMPM, MaskedDiffusion, exact
from practicum.generative.discrete_markov.metrics import sliced_wasserstein
from practicum.generative.discrete_markov.networks import flip_logits
from practicum.models.training import torch

ROWS, NFE, HORIZON = 4000, 32, 3.0


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The fastest of a few repeats: the machine may be shared."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def flow_matching_solver(model: DMPM) -> Callable[[], np.ndarray]:
    """Meta's Euler solver for the path our noise is, fed with our network."""
    from flow_matching.path import MixtureDiscreteProbPath
    from flow_matching.path.scheduler import PolynomialConvexScheduler
    from flow_matching.solver import MixtureDiscreteEulerSolver
    from flow_matching.utils import ModelWrapper

    class Posterior(ModelWrapper):
        """P(x_1 | x_t) on {0, 1}, from the denoiser; its time is the weight of the data."""

        def forward(self, x: torch.Tensor, t: torch.Tensor, **_: object) -> torch.Tensor:
            bits = x == 1
            flip = torch.sigmoid(flip_logits(self.model, bits, -0.5 * torch.log(t.clamp(1e-6))))
            one = torch.where(bits, 1 - flip, flip)
            return torch.stack([1 - one, one], dim=-1)

    solver = MixtureDiscreteEulerSolver(
        model=Posterior(model.network_),
        path=MixtureDiscreteProbPath(scheduler=PolynomialConvexScheduler(n=1.0)),
        vocabulary_size=2,
    )
    grid = torch.tensor(np.exp(-2 * HORIZON * (1 - np.arange(NFE + 1) / NFE) ** 2)).float()

    def draw() -> np.ndarray:
        with torch.inference_mode():
            start = torch.randint(2, (ROWS, model.n_features_in_))
            return solver.sample(x_init=start, step_size=None, time_grid=grid).numpy() == 1

    return draw


def drawing() -> bool:
    """Seconds and quality of 4,000 rows of 64 bits in 32 calls."""
    from sklearn.datasets import load_digits

    digits = load_digits().data > 7
    ours = DMPM(hidden=128, steps=600, random_state=0).fit(digits)
    masked = MaskedDiffusion(128, steps=600, random_state=0).fit(digits)
    rng = np.random.default_rng(0)
    draws: dict[str, Callable[[], np.ndarray]] = {
        "DMPM, bridge": lambda: ours.sample(ROWS, NFE, random_state=1),
        "DMPM, frozen": lambda: ours.sample(ROWS, NFE, "frozen", random_state=1),
        "flow-matching steps, ours": lambda: ours.sample(ROWS, NFE, "euler", random_state=1),
        "masked diffusion": lambda: masked.sample(ROWS, np.random.default_rng(1), NFE),
    }
    peer = find_spec("flow_matching") and find_spec("torchdiffeq")
    if peer:
        draws["flow-matching solver, Meta"] = flow_matching_solver(ours)
    print(f"{ROWS:,} rows of 64 bits, {NFE} calls of the network (128 wide, 600 steps of training)")
    took = {}
    for name, draw in draws.items():
        took[name] = seconds(draw)
        distance = sliced_wasserstein(draw(), digits, rng)
        print(f"  {name:<28} {took[name]:6.3f} s   sliced Wasserstein {distance:.4f}")
    if not peer:
        print("  Meta's solver is not installed (see the top of this file)")
        return True
    ratio = took["flow-matching solver, Meta"] / took["DMPM, bridge"]
    print(f"  Meta's solver takes {ratio:.1f} x the time of ours")
    return ratio >= 1


def growth() -> None:
    """One call of the network and its uniforms, by bits."""
    print("a step of drawing 1,000 rows, milliseconds")
    for d in (16, 64, 256, 1024):
        rows = np.random.default_rng(0).random((200, d)) < 0.5
        model = DMPM(hidden=128, steps=1, random_state=0).fit(rows)
        spent = seconds(lambda m=model: m.sample(1000, 8, random_state=0)) / 8
        print(f"  {d:>5} bits {1e3 * spent:7.2f}")


def oracle() -> bool:
    """All states enumerated: d 2^d work a law, d^2 2^d for the denoiser."""
    print("the oracle, milliseconds: a noised law, and the denoiser on all states")
    last = 0.0
    for d in (8, 11, 14):
        law = np.random.default_rng(0).dirichlet(np.ones(2**d)).reshape((2,) * d)
        last = seconds(lambda x=law: exact.forward(x, 0.5))
        denoiser = seconds(lambda x=law: exact.denoiser(x, 0.5), 1)
        print(f"  {d:>3} bits {1e3 * last:8.2f} {1e3 * denoiser:8.1f}")
    return last < 1


def main() -> int:
    """Print everything; 1 if a bar is missed."""
    torch.set_num_threads(1)
    met = drawing()
    growth()
    met &= oracle()
    print("bars:", "met" if met else "MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
