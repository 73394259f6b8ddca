"""Model collapse: our paths against the straightforward ones, on the same input, in one run.

    python benchmarks/bench_model_collapse.py

Every ratio is peer time / our time, both in CPU seconds of one thread: a busy machine does not
change who waits.  The exit status is 1 when a bar is missed.
"""

from __future__ import annotations

import copy
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

from practicum.generative.model_collapse import (
    KDEModel,
    NGramLM,
    gaussian_generations,
    gaussian_generations_loop,
    library_docstrings,
    python_topics,
    shape_data,
    split_documents,
)
from practicum.generative.model_collapse.workflows import WORKFLOWS

BARS = {
    "replace": 50.0,
    "accumulate": 110.0,
    "accumulate-subsample": 15.0,
    "all three": 50.0,
    "kde incremental vs refit, generation 40": 5.0,
    "kde vs scikit-learn": 1.0,
    "n-gram loss vs dictionaries": 5.0,
    "n-gram sampling vs dictionaries": 5.0,
}
missed: list[str] = []


def seconds(work: Callable[[], object], repeat: int = 3) -> float:
    """Best of a few runs."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def report(name: str, ours: float, peer: float) -> None:
    ratio, bar = peer / ours, BARS.get(name)
    verdict = "" if bar is None else f"  bar {bar:g}x: {'met' if ratio >= bar else 'MISSED'}"
    if bar is not None and ratio < bar:
        missed.append(name)
    print(f"  {name:42s} ours {ours:9.4f} s  peer {peer:9.4f} s  {ratio:7.1f}x{verdict}")


def gaussian() -> None:
    print("Gaussian, n=100, d=10, G=100, 200 seeds; peer: numpy, one seed and generation at a time")
    seeds, timed = range(200), range(30)  # the loop's cost is linear in seeds: 30 are timed
    total = [0.0, 0.0]
    for workflow in WORKFLOWS:
        peer = seconds(lambda w=workflow: gaussian_generations_loop(100, 10, 100, w, timed), 1)
        peer *= len(seeds) / len(timed)
        ours = seconds(lambda w=workflow: gaussian_generations(100, 10, 100, w, seeds), 5)
        report(workflow, ours, peer)
        total[0] += ours
        total[1] += peer
    report("all three", *total)


def gaussian_growth() -> None:
    print("Gaussian, how cost grows (milliseconds for 100 seeds)")
    base = {"n": 100, "d": 10, "generations": 50}
    for name, values in (("n", (50, 100, 400)), ("d", (2, 10, 30)), ("generations", (25, 50, 100))):
        for workflow in WORKFLOWS:
            times = [
                seconds(
                    lambda v=v, w=workflow, k=name: gaussian_generations(
                        **(base | {k: v}), workflow=w, seeds=range(100)
                    ),
                    2,
                )
                for v in values
            ]
            cells = "  ".join(f"{v}: {1e3 * t:6.1f}" for v, t in zip(values, times, strict=True))
            print(f"  {name:12s} {workflow:22s} {cells}")


def kde() -> None:
    from KDEpy import NaiveKDE, TreeKDE
    from sklearn.neighbors import KernelDensity

    print("KDE, moons, h=0.1, 100 items per generation, 500 test points")
    rng = np.random.default_rng(0)
    X, X_test = shape_data("moons", 4000, 500, rng=rng)
    chunks = np.split(X, 40)
    grown = KDEModel(0.1).fit(chunks[0])
    grown.loss(X_test)
    for t in range(2, 41):
        if t in (2, 5, 10, 20, 40):
            copies = [copy.deepcopy(grown) for _ in range(5)]
            ours = seconds(lambda c=copies, t=t: c.pop().extend(chunks[t - 1]).loss(X_test), 5)
            pool = np.concatenate(chunks[:t])
            peer = seconds(lambda p=pool: KDEModel(0.1).fit(p).loss(X_test))
            report(f"kde incremental vs refit, generation {t}", ours, peer)
        grown.extend(chunks[t - 1]).loss(X_test)
    print("  one fit of 4,000 points, log density at 500")
    ours = seconds(lambda: KDEModel(0.1).fit(X).log_density(X_test))
    model = KernelDensity(bandwidth=0.1)
    report("kde vs scikit-learn", ours, seconds(lambda: model.fit(X).score_samples(X_test)))
    for peer in (TreeKDE, NaiveKDE):  # FFTKDE evaluates on a grid only
        fitted = peer(bw=0.1).fit(X)
        theirs = seconds(lambda f=fitted: np.log(f.evaluate(X_test)), 1)
        report(f"kde vs KDEpy {peer.__name__}", ours, theirs)


class DictLM:
    """Dirichlet back-off with dictionaries, as one writes it first."""

    def __init__(self, order: int, tau: float, vocabulary: str) -> None:
        self.order, self.tau, self.vocabulary = order, tau, vocabulary

    def fit(self, documents: list[str]) -> DictLM:
        self.counts: list[dict[str, Counter]] = [{} for _ in range(self.order)]
        for text in documents:
            padded = "\n" * (self.order - 1) + text
            for i in range(self.order - 1, len(padded)):
                for k in range(self.order):
                    self.counts[k].setdefault(padded[i - k : i], Counter())[padded[i]] += 1
        return self

    def p(self, symbol: str, history: str) -> float:
        p = 1 / len(self.vocabulary)
        for k in range(self.order):
            seen = self.counts[k].get(history[len(history) - k :], {})
            p = (seen.get(symbol, 0) + self.tau * p) / (sum(seen.values()) + self.tau)
        return p

    def loss(self, documents: list[str]) -> float:
        logs = []
        for text in documents:
            padded = "\n" * (self.order - 1) + text
            for i in range(self.order - 1, len(padded)):
                logs.append(np.log(self.p(padded[i], padded[i - self.order + 1 : i])))
        return -float(np.mean(logs))

    def sample(self, length: int, rng: np.random.Generator) -> str:
        text = "\n" * (self.order - 1)
        for _ in range(length):
            history = text[-(self.order - 1) :]
            p = np.array([self.p(c, history) for c in self.vocabulary])
            text += self.vocabulary[rng.choice(len(p), p=p / p.sum())]
        return text[self.order - 1 :]


def ngram() -> None:
    print("n-gram, order 5, 100 documents of 1,000 characters; peer: plain dictionaries")
    documents = split_documents(python_topics(), 1000)
    train, test = documents[:100], documents[100:160]
    ours = NGramLM(5)
    theirs = DictLM(5, 4.0, ours.vocabulary)
    report("n-gram fit vs dictionaries", seconds(lambda: ours.fit(train)),
           seconds(lambda: theirs.fit(train), 1))  # fmt: skip
    a, b = ours.loss(test), theirs.loss(test[:5])
    assert abs(ours.loss(test[:5]) - b) < 1e-9, "the two implementations disagree"
    report("n-gram loss vs dictionaries", seconds(lambda: ours.loss(test)),
           seconds(lambda: theirs.loss(test[:5]), 1) * 12)  # fmt: skip
    rng = np.random.default_rng(0)
    report("n-gram sampling vs dictionaries", seconds(lambda: ours.sample(100, rng=rng)),
           seconds(lambda: theirs.sample(200, rng), 1) * 500)  # fmt: skip
    base = NGramLM(5).fit(split_documents(library_docstrings()))
    tuned = NGramLM(5, base)
    print(f"  loss {a:.3f} nats per character from scratch, {tuned.fit(train).loss(test):.3f} "
          f"fine-tuned, {base.loss(test):.3f} base")  # fmt: skip
    for documents_ in (50, 100, 200, 400):
        more = documents[:documents_]
        print(f"  {documents_:4d} documents: fit {1e3 * seconds(lambda m=more: tuned.fit(m)):6.1f} "
              f"ms, sample {1e3 * seconds(lambda k=documents_: tuned.sample(k, rng=rng), 1):6.1f} "
              "ms")  # fmt: skip


if __name__ == "__main__":
    gaussian()
    gaussian_growth()
    kde()
    ngram()
    if missed:
        sys.exit("bars missed: " + ", ".join(missed))
