r"""The estimator: fit bits, draw more of them, fill in missing ones, bound their likelihood."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from practicum.errors import InputError
from practicum.generative.discrete_markov.bits import BitTable, as_bits, check_training_bits
from practicum.generative.discrete_markov.networks import (
    LOSSES,
    BitMLP,
    BitUNet,
    Training,
    expected_path_kl,
    flip_logits,
    train_denoiser,
)
from practicum.generative.discrete_markov.process import (
    SAMPLERS,
    TIME_LAWS,
    alpha,
    discrete_score,
    flip_chance,
    time_grid,
)
from practicum.models.training import (
    load_checkpoint,
    resolve_device,
    save_checkpoint,
    torch,
    torch_generator,
)

MOST_ROWS = 8192  # at a time through the network
MLP_BITS = 2000
T_SMALLEST = 1e-6  # below, 1 - alpha is no longer told from 0 in single precision


class DMPM(BaseEstimator):
    r"""Discrete Markov probabilistic model: diffusion on bits.

    Noise flips bits at random times; the reverse process flips them back at rates

    .. math:: r_t^l(x) = \frac{\mu_t(\varphi_l x)}{\mu_t(x)}
        = \frac{1-\alpha_t}{1+\alpha_t} + \frac{4\alpha_t}{1-\alpha_t^2} P(X_0^l \ne x^l | X_t = x),

    in which the last factor is learned: a network classifies, for every bit, whether it was
    flipped. A bit that was set wrongly early on can flip back later.

    Parameters
    ----------
    horizon : float
        T, in mean flips of a bit. At 3 the noised law is uniform to within 0.25 %.
    hidden, layers : int
        Of the perceptron.
    loss : {"elbo", "ce", "l2", "score_l2"}
        See :func:`bit_loss`; the likelihood bound by default.
    time_law : {"quadratic", "cosine", "linear"}
        Of the times trained on, and of the sampler's grid.
    steps, batch_size, lr, ema
        Training by Adam with cosine decay and averaged weights.
    image_shape : (height, width), optional
        Use a small U-Net on images instead of the perceptron.
    binarize : float, optional
        Numbers above it are 1; without, other numbers than 0 and 1 are refused.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"mps"``.
    random_state : int or None

    Attributes
    ----------
    n_features_in_ : int
    loss_curve_ : array, shape (steps,)
    table_ : BitTable or None
        The levels of a data frame's columns.

    Raises
    ------
    InputError
        If the data are not bits, hold gaps, or a setting makes no sense.

    Notes
    -----
    L.-T.-N. Pham, D. Shariatian, A. Ocello, G. Conforti, A. Durmus, *Discrete Markov Probabilistic
    Models*, ICML 2025. The normalisation, the default loss and the network are reconstructions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first = rng.random(400) < 0.5
    >>> X = np.column_stack([first, first, ~first])  # three bits that always agree
    >>> model = DMPM(hidden=32, layers=2, steps=500, random_state=0).fit(X)
    >>> drawn = model.sample(500, steps=16)
    >>> bool(((drawn[:, 0] == drawn[:, 1]) & (drawn[:, 0] != drawn[:, 2])).mean() > 0.9)
    True
    """

    def __init__(
        self,
        horizon: float = 3.0,
        hidden: int = 128,
        layers: int = 3,
        loss: str = "elbo",
        time_law: str = "quadratic",
        steps: int = 4000,
        batch_size: int = 256,
        lr: float = 2e-3,
        ema: float = 0.999,
        image_shape: tuple[int, int] | None = None,
        binarize: float | None = None,
        device: str = "cpu",
        random_state: int | None = None,
    ) -> None:
        self.horizon = horizon
        self.hidden = hidden
        self.layers = layers
        self.loss = loss
        self.time_law = time_law
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.ema = ema
        self.image_shape = image_shape
        self.binarize = binarize
        self.device = device
        self.random_state = random_state

    # --- training ---

    def fit(
        self, X: Any, y: Any = None, *, progress: Callable[[int, float], None] | None = None
    ) -> DMPM:
        """Train on complete rows of bits.

        Parameters
        ----------
        X : array, sparse matrix, DataFrame (columns of two levels), or images (n, h, w)
        y : ignored
        progress : callable, optional
            Called with (step, loss).
        """
        self._check_settings()
        self.table_ = (
            BitTable.of(X) if isinstance(X, pd.DataFrame) and self.binarize is None else None
        )
        bits = self._encode(X, missing=False) == 1
        check_training_bits(bits, self.table_.names if self.table_ else None)
        self.n_features_in_ = bits.shape[1]
        seeds = np.random.SeedSequence(self.random_state).spawn(2)
        device = resolve_device(self.device)
        # initial weights come from a generator of their own, not from the global one
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seeds[0].generate_state(1)[0]))
            self.network_ = self._new_network().to(device)
        self.loss_curve_ = train_denoiser(
            self.network_,
            torch.from_numpy(bits).to(device),
            horizon=self.horizon,
            loss=self.loss,
            time_law=self.time_law,
            training=Training(self.steps, self.batch_size, self.lr, self.ema),
            seed=np.random.default_rng(seeds[1]),
            progress=progress,
        )
        return self

    def _check_settings(self) -> None:
        if not self.horizon > 0 or float(alpha(self.horizon)) > 0.1:
            raise InputError(
                f"horizon={self.horizon}: after it bits still remember the data "
                f"(correlation {float(alpha(max(self.horizon, 0))):.2f}), so that sampling must "
                "not start from uniform bits",
                "use at least 1.2; 3 is the default",
            )
        for name, known in (("loss", LOSSES), ("time_law", TIME_LAWS)):
            if getattr(self, name) not in known:
                raise InputError(
                    f"{name}={getattr(self, name)!r} is not known", "use " + ", ".join(known)
                )
        for name in ("steps", "batch_size", "hidden", "layers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}: at least 1")
        if not (self.lr > 0 and 0 <= self.ema < 1):
            raise InputError(f"lr={self.lr}, ema={self.ema}: lr > 0 and ema in [0, 1)")

    def _new_network(self) -> torch.nn.Module:
        d = self.n_features_in_
        if self.image_shape is not None:
            if int(np.prod(self.image_shape)) != d:
                raise InputError(f"image_shape={self.image_shape} is not {d} bits")
            return BitUNet(tuple(self.image_shape), max(8, self.hidden // 4))
        if d > MLP_BITS:
            raise InputError(
                f"{d} bits are too many for a perceptron", "for images, give image_shape=(h, w)"
            )
        return BitMLP(d, self.hidden, self.layers)

    def _encode(self, X: Any, *, missing: bool) -> Float[np.ndarray, "n d"]:
        if isinstance(X, pd.DataFrame) and getattr(self, "table_", None) is not None:
            X = self.table_.encode(X)
        return as_bits(X, missing=missing, binarize=self.binarize)

    def _expect(self, X: Any, *, missing: bool = False) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self, "network_")
        bits = self._encode(X, missing=missing)
        if bits.shape[1] != self.n_features_in_:
            raise InputError(
                f"{bits.shape[1]} bits a row, the model was fitted on {self.n_features_in_}"
            )
        return bits

    # --- what was learned ---

    def flip_probability(self, X_t: Any, t: float) -> Float[np.ndarray, "n d"]:
        """The denoiser: how likely each bit differs from the data's, given noisy rows.

        Parameters
        ----------
        X_t : bits, shape (n, d)
        t : float
            The time of the noise, in (0, horizon].
        """
        if not 0 < t <= self.horizon:
            raise InputError(f"t={t}: expected a time in (0, {self.horizon}]")
        bits = self._expect(X_t) == 1
        return self._denoise(torch.from_numpy(bits), t).double().cpu().numpy()

    def discrete_score(self, X_t: Any, t: float) -> Float[np.ndarray, "n d"]:
        """The discrete score, ``1 - rate`` of every bit, given noisy rows."""
        return discrete_score(self.flip_probability(X_t, t), float(alpha(t)))

    @torch.inference_mode()
    def _denoise(self, x: torch.Tensor, t: float) -> torch.Tensor:
        device = next(self.network_.parameters()).device
        parts = []
        for part in x.to(device).split(MOST_ROWS):
            times = torch.full((len(part),), t, device=device)
            parts.append(torch.sigmoid(flip_logits(self.network_, part, times)))
        return torch.cat(parts)

    @torch.inference_mode()
    def log_likelihood_bound(self, X: Any, n_times: int = 64) -> Float[np.ndarray, " n"]:
        r"""A lower bound on the log-likelihood of each row, in nats.

        :math:`-\mathrm{KL}(X_T | x \,\|\, \gamma_d) - \int_0^T E \sum_l [r_\theta - r + r \log
        (r/r_\theta)]\,dt`, by stratified times on the quadratic law and one noising for each,
        averaged over each bit's own flip (two calls of the network a time).

        Parameters
        ----------
        X : bits, shape (n, d)
        n_times : int
            More times lower the Monte-Carlo noise of the bound.
        """
        bits = torch.from_numpy(self._expect(X) == 1)
        if n_times < 1:
            raise InputError(f"n_times={n_times}: at least 1")
        n, d = bits.shape
        device = next(self.network_.parameters()).device
        generator = torch_generator(np.random.default_rng([0, n_times]), device)
        rest = float(alpha(self.horizon))
        start = d * ((1 + rest) / 2 * np.log1p(rest) + (1 - rest) / 2 * np.log1p(-rest))
        total = np.zeros(n)
        for k in range(n_times):
            for first in range(0, n, MOST_ROWS):
                x = bits[first : first + MOST_ROWS].to(device)
                u = (k + torch.rand(len(x), generator=generator, device=device)) / n_times
                t = (self.horizon * u.square()).clamp(min=T_SMALLEST)
                weighted = 2 * self.horizon * u * self._path_kl(x, t, generator) / n_times
                total[first : first + MOST_ROWS] += weighted.double().cpu().numpy()
        return -(total + start)

    def _path_kl(
        self, x: torch.Tensor, t: torch.Tensor, generator: torch.Generator
    ) -> torch.Tensor:
        """The integrand of the bound at one noising of each row, without bias.

        What the network says of a bit should not depend on that bit (see :func:`flip_logits`), so
        that its answer at the other value follows from the one at hand. Where it does depend, one
        bit of each row, drawn at random, is asked again with its other value and corrects the sum.
        """
        n, d = x.shape
        device = x.device
        chance = (1 - torch.exp(-2 * t)) / 2
        flipped = torch.rand(x.shape, generator=generator, device=device) < chance[:, None]
        noisy = x ^ flipped
        here = flip_logits(self.network_, noisy, t)
        prior = torch.log(torch.tanh(t))[:, None]  # log (1 - alpha) / (1 + alpha)
        there = 2 * prior - here
        guessed = expected_path_kl(
            torch.where(flipped, there, here), torch.where(flipped, here, there), t
        )
        bit = torch.randint(d, (n, 1), generator=generator, device=device)
        other = noisy.scatter(1, bit, ~noisy.gather(1, bit))
        asked = flip_logits(self.network_, other, t).gather(1, bit)
        was, had = flipped.gather(1, bit), here.gather(1, bit)
        true = expected_path_kl(torch.where(was, asked, had), torch.where(was, had, asked), t)
        return guessed.sum(dim=1) + d * (true - guessed.gather(1, bit))[:, 0]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of :meth:`log_likelihood_bound`: higher is better."""
        return float(self.log_likelihood_bound(X).mean())

    # --- drawing ---

    def sample(
        self,
        n: int | None = None,
        steps: int = 32,
        sampler: str = "bridge",
        given: Any = None,
        rounds: int = 1,
        random_state: int | np.random.Generator | None = None,
    ) -> Bool[np.ndarray, "n d"]:
        """Draw rows of bits with ``steps`` calls of the network (times ``rounds``).

        Parameters
        ----------
        n : int
            How many; left out when ``given`` says.
        steps : int
        sampler : {"bridge", "frozen", "renoise", "euler"}
            See :func:`flip_chance`.
        given : bits with NaN, shape (n, d), optional
            What is known of each row. Known bits are kept at their value, noised to the sampler's
            time before each step: an approximation of conditioning (replacement), exact for
            independent bits. Rows without NaN come back unchanged.
        rounds : int
            With ``given``: how often each step is taken, noised back in between (RePaint's
            resampling). The missing bits come to agree with the known ones; 1 is too few where
            they depend on each other strongly.
        random_state : int, Generator or None
        """
        check_is_fitted(self, "network_")
        if sampler not in SAMPLERS:
            raise InputError(f"sampler {sampler!r} is not known", "use " + ", ".join(SAMPLERS))
        grid = time_grid(self.horizon, steps, self.time_law)
        known = None if given is None else self._expect(given, missing=True)
        if rounds < 1:
            raise InputError(f"rounds={rounds}: at least 1")
        n = len(known) if known is not None else n
        if n is None or n < 1:
            raise InputError(f"n={n}: how many rows to draw, at least 1")
        return self._draw(n, grid, sampler, known, rounds, random_state)

    @torch.inference_mode()
    def _draw(
        self,
        n: int,
        grid: Float[np.ndarray, " k"],
        sampler: str,
        known: Float[np.ndarray, "n d"] | None,
        rounds: int,
        random_state: int | np.random.Generator | None,
    ) -> Bool[np.ndarray, "n d"]:
        device = next(self.network_.parameters()).device
        generator = torch_generator(random_state, device)
        d = self.n_features_in_

        def uniform() -> torch.Tensor:
            return torch.rand(n, d, generator=generator, device=device)

        if known is not None:
            fixed = torch.from_numpy(~np.isnan(known)).to(device)
            value = torch.from_numpy(known == 1).to(device)

        def flipped(chance: float) -> torch.Tensor:
            return uniform() < chance

        x = uniform() < 0.5
        for t, u in itertools.pairwise(grid.tolist()):
            for again in range(rounds if known is not None else 1):
                if again:
                    x = x ^ flipped((1 - np.exp(-2 * (t - u))) / 2)
                if known is not None:
                    x = torch.where(fixed, value ^ flipped((1 - np.exp(-2 * t)) / 2), x)
                x = x ^ (uniform() < flip_chance(self._denoise(x, t), t, u, sampler))
        if known is not None:
            x = torch.where(fixed, value, x)
        return x.cpu().numpy()

    def sample_frame(self, n: int, **settings: Any) -> pd.DataFrame:
        """Draw rows in the columns and levels of the data frame that was fitted."""
        drawn = self.sample(n, **settings)
        if self.table_ is not None:
            return self.table_.decode(drawn)
        return pd.DataFrame(drawn.astype(np.int8), columns=[str(j) for j in range(drawn.shape[1])])

    def impute(
        self,
        X: Any,
        n_draws: int = 20,
        steps: int = 32,
        rounds: int = 8,
        random_state: int | np.random.Generator | None = None,
    ) -> Bool[np.ndarray, "m n d"]:
        """Fill in missing bits, ``n_draws`` times each (multiple imputation).

        Parameters
        ----------
        X : bits with NaN, shape (n, d)
        n_draws : int
        steps, rounds : int
            See :meth:`sample`.
        random_state : int, Generator or None

        Returns
        -------
        bool array, shape (n_draws, n, d)
            Their mean over the first axis estimates the probability of each missing bit.
        """
        known = self._expect(X, missing=True)
        for name, value in (("n_draws", n_draws), ("rounds", rounds)):
            if value < 1:
                raise InputError(f"{name}={value}: at least 1")
        grid = time_grid(self.horizon, steps, self.time_law)
        filled = np.tile(known == 1, (n_draws, 1, 1))
        holes = np.isnan(known).any(axis=1)  # complete rows need no network
        if holes.any():
            rows = np.tile(known[holes], (n_draws, 1))
            drawn = self._draw(len(rows), grid, "bridge", rows, rounds, random_state)
            filled[:, holes] = drawn.reshape(n_draws, -1, known.shape[1])
        return filled

    # --- keeping ---

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one safetensors file."""
        check_is_fitted(self, "network_")
        config = {
            "model": "DMPM",
            "settings": self.get_params(),
            "n_features_in": self.n_features_in_,
            "table": self.table_.to_json() if self.table_ else None,
        }
        save_checkpoint(path, self.network_.state_dict(), config)

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> DMPM:
        """Read what :meth:`save` wrote.

        Raises
        ------
        InputError
            If the file is no such model.
        """
        state, config = load_checkpoint(path)
        if config.get("model") != "DMPM":
            raise InputError(f"{path} holds a {config.get('model')}, not a DMPM")
        settings = dict(config["settings"])
        if settings["image_shape"] is not None:
            settings["image_shape"] = tuple(settings["image_shape"])
        model = cls(**{**settings, "device": device})
        model.n_features_in_ = config["n_features_in"]
        model.table_ = BitTable.from_json(config["table"]) if config["table"] else None
        model.loss_curve_ = np.empty(0)
        model.network_ = model._new_network().to(resolve_device(device))
        model.network_.load_state_dict(state)
        model.network_.eval()
        return model
