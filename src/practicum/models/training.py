"""Habits of every trained network: device, seeds, averaged weights, checkpoints without pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from practicum.errors import InputError, MissingExtra, reason_of

try:
    import torch
    from torch import Tensor, nn
except ImportError as error:  # pragma: no cover - exercised where torch is absent
    raise MissingExtra("networks need PyTorch", "pip install 'practicum[torch]'") from error

FORMAT = "practicum-1"


def resolve_device(name: str = "auto") -> torch.device:
    """The device called ``auto``, ``cpu``, ``cuda``, ``cuda:1`` or ``mps``.

    Raises
    ------
    InputError
        If this machine does not have it.

    Examples
    --------
    >>> resolve_device("cpu")
    device(type='cpu')
    """
    has_mps = torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"device {name!r} is not known", "use auto, cpu, cuda or mps") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": has_mps}
    if not there.get(device.type, False):
        raise InputError(f"device {name!r} is not on this machine", "use auto or cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r}: there are {torch.cuda.device_count()} GPUs")
    return device


def torch_generator(
    random_state: int | np.random.Generator | None, device: torch.device | str = "cpu"
) -> torch.Generator:
    """A generator of torch's seeded from NumPy's: trials stay paired, runs repeatable.

    Examples
    --------
    >>> a, b = torch_generator(3), torch_generator(3)
    >>> bool((torch.rand(4, generator=a) == torch.rand(4, generator=b)).all())
    True
    """
    seed = int(np.random.default_rng(random_state).integers(2**63 - 1))
    return torch.Generator(device).manual_seed(seed)


class Averaged:
    """Exponential moving average of a network's weights (EMA).

    Early on the decay is lower, ``(1 + k)/(10 + k)`` after k steps, so that a short training is not
    an average with its own start.

    Parameters
    ----------
    network : nn.Module
    decay : float
        0.999 averages over about the last thousand steps.

    Examples
    --------
    >>> net = nn.Linear(1, 1)
    >>> ema = Averaged(net, 0.9)
    >>> ema.update(net); ema.copy_to(net)
    """

    def __init__(self, network: nn.Module, decay: float = 0.999) -> None:
        self.decay, self.steps = decay, 0
        self.weights = [p.detach().clone() for p in network.parameters()]

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Take in the weights after a step."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.weights, list(network.parameters()), 1 - decay)

    @torch.no_grad()
    def copy_to(self, network: nn.Module) -> None:
        """Put the averages in place of the weights."""
        for p, average in zip(network.parameters(), self.weights, strict=True):
            p.copy_(average)


def save_checkpoint(
    path: str | Path, state: Mapping[str, Tensor], config: Mapping[str, Any]
) -> None:
    """Weights and their settings in one safetensors file; nothing of it can run code.

    Parameters
    ----------
    path : str or Path
        Written under another name first, then renamed.
    state : mapping of name to tensor
    config : mapping
        Anything JSON holds.
    """
    import os
    import tempfile

    from safetensors.torch import save

    path = Path(path)
    tensors = {name: t.detach().cpu().contiguous() for name, t in state.items()}
    data = save(tensors, {"format": FORMAT, "config": json.dumps(dict(config))})
    try:
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except OSError as error:
        Path(partial).unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def load_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The weights and settings that :func:`save_checkpoint` wrote.

    Raises
    ------
    InputError
        If the file is missing, damaged, or of another kind.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, MemoryError) as error:
        raise InputError(f"{path} is no model of Practicum's: {reason_of(error)}") from error
    if about.get("format") != FORMAT:
        raise InputError(f"{path} is no model of Practicum's", "it was saved by another program")
    try:
        config = json.loads(about["config"])
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: its settings cannot be read") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is damaged: its settings are no settings")
    # floats of eight bits do not say themselves whether they are finite
    wide = {name: t.float() if t.element_size() == 1 else t for name, t in state.items()}
    spoilt = [name for name, t in wide.items() if not torch.isfinite(t).all()]
    if spoilt:
        raise InputError(f"{path} is damaged: {spoilt[0]} holds values that are no numbers")
    return state, config
