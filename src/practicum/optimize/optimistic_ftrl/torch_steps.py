"""A ``torch.optim``-style optimiser whose parameters stay in a compact set."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from practicum.errors import InputError, MissingExtra
from practicum.optimize.optimistic_ftrl.domains import Domain, parse_domain
from practicum.optimize.optimistic_ftrl.learners import OptFPRL


def torch_optimizer(
    params: Iterable[Any], domain: str | Domain = "ball:1", *, hints: str = "none", **settings: Any
) -> Any:
    """OptFPRL as a ``torch.optim.Optimizer``: ``loss.backward(); optimizer.step()``.

    Every parameter tensor, flattened, gets a learner of its own; its first value is the set's
    centre, or what the first hint asks for (parameters are overwritten when the optimiser is
    made). The learners run in float64 on the CPU; results are copied back to the tensor's device.

    Parameters
    ----------
    params : iterable of torch tensors that require gradients, or of parameter groups
        A group may have its own ``domain``, ``hints`` and settings.
    domain : str or Domain
        ``"ball:1"``, ``"simplex"``, ...; a :class:`Domain` must have as many coordinates as the
        tensor has entries.
    hints : {"none", "last"}
        What the next gradient is predicted to be.
    **settings
        As for :class:`OptFPRL`: ``rule``, ``prune``, ...

    Returns
    -------
    torch.optim.Optimizer

    Raises
    ------
    MissingExtra
        Without PyTorch.
    InputError
        If the set does not fit a tensor, hints are unknown, or a gradient is NaN.

    Examples
    --------
    >>> import torch
    >>> x = torch.nn.Parameter(torch.zeros(2))
    >>> optimizer = torch_optimizer([x], "ball:1")
    >>> for _ in range(50):
    ...     optimizer.zero_grad()
    ...     loss = (x - torch.tensor([3.0, 0.0])).square().sum()
    ...     loss.backward()
    ...     _ = optimizer.step()
    >>> x.detach().numpy().round(3).tolist()
    [1.0, 0.0]
    """
    return _optimizer_class()(params, {"domain": domain, "hints": hints, **settings})


@cache
def _optimizer_class() -> type:
    try:
        import torch
    except ImportError as error:
        raise MissingExtra(
            "torch_optimizer needs PyTorch", "install it with: pip install 'practicum[torch]'"
        ) from error

    class OptFPRLOptimizer(torch.optim.Optimizer):
        """One learner for every tensor."""

        def add_param_group(self, group: dict[str, Any]) -> None:
            super().add_param_group(group)
            group = self.param_groups[-1]
            settings = {k: v for k, v in group.items() if k not in ("params", "domain", "hints")}
            if group["hints"] not in ("none", "last"):
                raise InputError(f"hints {group['hints']!r} are not known", "use none or last")
            for p in group["params"]:
                learner = OptFPRL(_fitting(group["domain"], p.numel()), **settings)
                self.state[p]["learner"] = learner
                self._write(p, learner.predict())

        @torch.no_grad()
        def step(self, closure: Any = None) -> Any:
            """Give each learner its tensor's gradient and write its next action back."""
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    learner = self.state[p]["learner"]
                    grad = p.grad.detach().to("cpu", torch.float64).numpy().ravel()
                    learner.update(grad)
                    hint = grad if group["hints"] == "last" else None
                    self._write(p, learner.predict(hint))
            return loss

        @staticmethod
        @torch.no_grad()
        def _write(p: Any, action: np.ndarray) -> None:
            p.copy_(torch.from_numpy(action).reshape(p.shape))

    return OptFPRLOptimizer


def _fitting(domain: str | Domain, n: int) -> Domain:
    made = parse_domain(domain, n) if isinstance(domain, str) else domain
    if made.dim != n:
        raise InputError(
            f"the set has {made.dim} coordinates, the parameter {n} entries",
            "give the set as text (ball:1), or one parameter group per shape",
        )
    return made
