"""What synthetic items are worth, given how many real ones there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from practicum.errors import InputError
from practicum.generative.model_collapse.generations import as_model
from practicum.generative.model_collapse.items import (
    check_items,
    check_kind,
    check_seeds,
    check_test,
    concatenate,
    items_per_generation,
    sample_items,
    split,
    stream,
)
from practicum.generative.model_collapse.models import GenerativeModel, fresh_copy
from practicum.generative.model_collapse.results import FEWEST_SEEDS, bootstrap_mean, bracketed

if TYPE_CHECKING:
    import pandas as pd


def value_of_synthetic(
    X_real: Any,
    model: GenerativeModel | str | object,
    real_sizes: Sequence[int],
    synth_sizes: Sequence[int],
    X_test: Any | None = None,
    test_size: float = 0.25,
    seeds: Iterable[int] = range(5),
    n_generator: int | None = None,
) -> pd.DataFrame:
    """Loss on real data of a model trained once on R real and F synthetic items.

    A generator is trained on ``n_generator`` real items and writes max(F) items; then a fresh model
    is trained on the first R of the real and the first F of the synthetic items, for every pair.

    Parameters
    ----------
    X_real : array or data frame (N, d), or list of str
    model : GenerativeModel or str
        As in :func:`run_generations`; generator and learner are the same kind of model.
    real_sizes, synth_sizes : sequence of int
        R and F.  R + F must be at least 1.
    X_test : items, optional
        Held-out real items; by default ``test_size`` of X_real, drawn anew for every seed.
    test_size : float
    seeds : iterable of int
    n_generator : int, optional
        Real items the generator sees; by default max(R).  At R < n_generator synthetic items carry
        information on real items withheld from the fit (as in the paper's design).

    Returns
    -------
    pandas.DataFrame
        Columns seed, R, F, loss.

    Raises
    ------
    InputError
        If sizes are negative, both zero or larger than the data, or as in :func:`run_generations`.

    Notes
    -----
    The second study of Kazdan et al., *Collapse or Thrive?*, ICML 2025 (arXiv 2410.16713).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(80, 1))
    >>> frame = value_of_synthetic(X, "gaussian", [5, 50], [0, 100], seeds=range(3))
    >>> frame.columns.tolist(), len(frame)
    (['seed', 'R', 'F', 'loss'], 12)
    """
    import pandas as pd

    X_test = None if X_test is None else check_test(X_test, X_real)
    X_real = check_items(X_real)
    model = as_model(model, X_real)
    check_kind(X_real, model)
    seeds = check_seeds(seeds)
    real_sizes, synth_sizes = _sizes(real_sizes, "real_sizes"), _sizes(synth_sizes, "synth_sizes")
    if min(real_sizes) + min(synth_sizes) < 1:
        raise InputError("real_sizes and synth_sizes both hold 0: that model has nothing to learn")
    n = max(real_sizes) if n_generator is None else int(n_generator)
    name = "real_sizes" if n <= max(real_sizes) else "n_generator"
    size = items_per_generation(max(n, *real_sizes), X_real, X_test, test_size, name)
    rows = []
    for seed in seeds:
        real, test = split(X_real, X_test, size, test_size, seed)
        rng = stream(seed, 1)
        generator = fresh_copy(model).fit(real[:n], rng=rng)
        written = sample_items(generator, max(1, *synth_sizes), real, 1, seed, rng)
        for R in real_sizes:
            for F in synth_sizes:
                learner = fresh_copy(model)
                learner.fit(concatenate(real[:R], written[:F]), rng=stream(seed, 2))
                rows.append({"seed": seed, "R": R, "F": F, "loss": float(learner.loss(test))})
    return pd.DataFrame(rows)


def _sizes(values: Sequence[int], name: str) -> list[int]:
    sizes = list(dict.fromkeys(int(v) for v in values))
    if not sizes or min(sizes) < 0:
        raise InputError(f"{name}={list(values)}: expected whole numbers, none negative")
    return sizes


def synthetic_gain(frame: pd.DataFrame, ci: float = 0.95) -> pd.DataFrame:
    """How much F synthetic items lower the loss beside R real ones.

    Parameters
    ----------
    frame : pandas.DataFrame
        As returned by :func:`value_of_synthetic`, with F = 0 among the sizes.
    ci : float
        Level of the interval (bootstrap over seeds, paired by seed).  Help or harm is said from
        five seeds on.

    Returns
    -------
    pandas.DataFrame
        R, F, gain = loss without - loss with (positive: they help), low, high, sentence; one row
        for every R and F > 0.

    Raises
    ------
    InputError
        If the frame has no F = 0.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"seed": [0, 0], "R": [5, 5], "F": [0, 9], "loss": [2.0, 1.5]})
    >>> synthetic_gain(frame)["gain"].tolist()
    [0.5]
    """
    import pandas as pd

    table = frame.pivot(index="seed", columns=["R", "F"], values="loss")
    rows = []
    for R, F in table.columns:
        if (R, 0) not in table.columns:
            raise InputError(f"no loss without synthetic items for R={R}", "add 0 to the sizes")
        if F == 0:
            continue
        # Two infinite losses are no difference; NaN would hide the finite seeds.
        with np.errstate(invalid="ignore"):
            gains = (table[R, 0] - table[R, F]).fillna(0.0).to_numpy()
        low, high = (float(end[0]) for end in bootstrap_mean(gains[:, None], ci))
        gain = float(gains.mean())
        effect = "help" if low > 0 else "harm" if high < 0 else "make no clear difference"
        if len(gains) < FEWEST_SEEDS:
            effect = f"may help or harm ({FEWEST_SEEDS} seeds can tell, not {len(gains)})"
        sentence = (
            f"Beside {R} real items, {F} synthetic ones {effect}: the loss changes by "
            f"{bracketed((-gain, -high, -low))}."
        )
        rows.append({"R": R, "F": F, "gain": gain, "low": low, "high": high, "sentence": sentence})
    return pd.DataFrame(rows)
