"""OptFPRL where people already work: scikit-learn's ``partial_fit`` and River's ``learn_one``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from practicum.errors import InputError
from practicum.optimize.optimistic_ftrl.checks import whole
from practicum.optimize.optimistic_ftrl.domains import Domain, parse_domain
from practicum.optimize.optimistic_ftrl.hints import Past, Predictor, as_predictor
from practicum.optimize.optimistic_ftrl.learners import OptFPRL
from practicum.optimize.optimistic_ftrl.losses import RegressionLosses

MEMORY = 256  # past gradients kept for hints


class _Online(BaseEstimator):
    """What the regressor and the classifier share: one round for every row."""

    def __init__(
        self,
        domain: Any = "ball:10",
        rule: Any = "recursive",
        prune: Any = 1.0,
        hints: Any = "none",
        loss: Any = "squared",
        q: Any = 0.5,
        fit_intercept: Any = True,
        passes: Any = 1,
    ) -> None:
        self.domain = domain
        self.rule = rule
        self.prune = prune
        self.hints = hints
        self.loss = loss
        self.q = q
        self.fit_intercept = fit_intercept
        self.passes = passes

    def _start(self, n_features: int) -> None:
        dim = n_features + self.fit_intercept
        domain = self.domain if isinstance(self.domain, Domain) else parse_domain(self.domain, dim)
        if domain.dim != dim:
            raise InputError(
                f"the set has {domain.dim} coordinates, the data {n_features} features"
                + (" and an intercept" if self.fit_intercept else ""),
                f"make a set of dimension {dim}",
            )
        self.learner_ = OptFPRL(domain, self.rule, prune=self.prune)
        self._predictor = as_predictor(self.hints)
        self._predictor.begin(2**62, self.learner_.shape)
        self._past = np.zeros((0, dim))
        self._coming = self.learner_.predict(self._hint())

    def _hint(self) -> np.ndarray | None:
        return self._predictor(Past(self._past, self._past))

    def _features(self, X: np.ndarray) -> np.ndarray:
        return np.hstack([X, np.ones((len(X), 1))]) if self.fit_intercept else X

    def _learn(self, X: np.ndarray, y: np.ndarray) -> None:
        stream = RegressionLosses(self._features(X), y, self.loss, self.q)
        for t in range(stream.n_rounds):
            grad = stream.gradient(t, self._coming)
            self.learner_.update(grad)
            if type(self._predictor) is not Predictor:  # that one predicts nothing
                self._past = np.vstack([self._past[-MEMORY + 1 :], grad])
            self._coming = self.learner_.predict(self._hint())

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the features, in the unit of the target per unit of the feature."""
        return self._coming[:-1] if self.fit_intercept else self._coming

    @property
    def intercept_(self) -> float:
        """The constant term."""
        return float(self._coming[-1]) if self.fit_intercept else 0.0

    def _margin(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "learner_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._features(X) @ self._coming


class OptFPRLRegressor(RegressorMixin, _Online):
    """Online linear regression that follows drift, without a step size to tune.

    Every row is a round: the weights are fixed, the row's loss is looked at, the weights move.
    Scale the features first, as for any gradient method.

    Parameters
    ----------
    domain : Domain or str
        The set of the weights (with the intercept last): ``"ball:10"``, ``"simplex"``,
        ``"l1:1"``, ``"box:0:1"``, or a :class:`Domain`.
    rule, prune
        As for :class:`OptFPRL`.
    hints : str, int, callable or regressor
        Predictions of the next gradient; see :func:`as_predictor`.
    loss : {"squared", "absolute", "quantile"}
    q : float
        Level of the quantile loss.
    fit_intercept : bool
    passes : int
        How often ``fit`` goes through the rows; ``partial_fit`` goes once.

    Attributes
    ----------
    coef_ : (n_features,) array
    intercept_ : float
    learner_ : OptFPRL

    Raises
    ------
    InputError
        If the set does not fit the features.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = X @ [1.0, -1.0]
    >>> model = OptFPRLRegressor("ball:2").partial_fit(X, y)
    >>> bool(abs(model.coef_ - [1.0, -1.0]).max() < 0.1)
    True
    """

    def partial_fit(self, X: Any, y: Any) -> OptFPRLRegressor:
        """One pass over rows that have just arrived, in their order.

        Parameters
        ----------
        X : (n, n_features) array
        y : (n,) array
        """
        first = not hasattr(self, "learner_")
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64, y_numeric=True)
        if first:
            self._start(X.shape[1])
        self._learn(X, y)
        return self

    def fit(self, X: Any, y: Any) -> OptFPRLRegressor:
        """Start anew and go through the rows ``passes`` times, in their order."""
        if hasattr(self, "learner_"):
            del self.learner_
        for _ in range(whole("passes", self.passes, 1)):
            self.partial_fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions of the weights that await the next row, shape (n,)."""
        return self._margin(X)


class OptFPRLClassifier(ClassifierMixin, _Online):
    """Online logistic regression of two classes that follows drift.

    Parameters
    ----------
    domain, rule, prune, hints, fit_intercept, passes
        As for :class:`OptFPRLRegressor`.

    Attributes
    ----------
    classes_ : (2,) array
    coef_ : (n_features,) array
    intercept_ : float

    Raises
    ------
    InputError
        If the set does not fit the features.
    ValueError
        If there are not exactly two classes.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> OptFPRLClassifier().fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        domain: Any = "ball:10",
        rule: Any = "recursive",
        prune: Any = 1.0,
        hints: Any = "none",
        fit_intercept: Any = True,
        passes: Any = 1,
    ) -> None:
        super().__init__(domain, rule, prune, hints, "logistic", 0.5, fit_intercept, passes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> OptFPRLClassifier:
        """One pass over rows that have just arrived, in their order.

        Parameters
        ----------
        X : (n, n_features) array
        y : (n,) array of labels
        classes : (2,) array, optional
            Both labels, if the first rows may hold only one.
        """
        first = not hasattr(self, "learner_")
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            if len(self.classes_) > 2:
                raise ValueError(
                    f"Only binary classification is supported. The labels are {self.classes_}."
                )
            if len(self.classes_) < 2:
                raise ValueError(f"one class only: {self.classes_}; give classes=...")
            self._start(X.shape[1])
        strange = np.setdiff1d(y, self.classes_)
        if strange.size:
            raise ValueError(f"labels {strange} were not among the classes {self.classes_}")
        self._learn(X, np.where(y == self.classes_[1], 1.0, -1.0))
        return self

    def fit(self, X: Any, y: Any) -> OptFPRLClassifier:
        """Start anew and go through the rows ``passes`` times, in their order."""
        if hasattr(self, "learner_"):
            del self.learner_
        for _ in range(whole("passes", self.passes, 1)):
            self.partial_fit(X, y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds of the second class, shape (n,)."""
        return self._margin(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of both classes, shape (n, 2)."""
        p = 1 / (1 + np.exp(-np.clip(self._margin(X), -500, 500)))
        return np.column_stack([1 - p, p])

    def predict(self, X: Any) -> np.ndarray:
        """The more probable label, shape (n,)."""
        second = (self._margin(X) > 0).astype(int)
        return self.classes_[second]


class RiverRegressor:
    """The regressor with River's one-at-a-time interface: dicts in, numbers out.

    The features of the first sample (by name) are the model's; a feature that is missing later
    counts as 0, a new one is an error.

    Parameters
    ----------
    **settings
        As for :class:`OptFPRLRegressor`.

    Raises
    ------
    InputError
        If a feature was not in the first sample.

    Examples
    --------
    >>> model = RiverRegressor(domain="ball:1", fit_intercept=False)
    >>> for _ in range(50):
    ...     _ = model.learn_one({"a": 1.0, "b": 0.0}, 0.5)
    >>> abs(model.predict_one({"a": 1.0}) - 0.5) < 0.05
    True
    """

    def __init__(self, **settings: Any) -> None:
        self.model = OptFPRLRegressor(**settings)
        self.features: list[str] | None = None

    def _row(self, x: dict[str, float]) -> np.ndarray:
        if self.features is None:
            self.features = sorted(x)
        new = x.keys() - set(self.features)
        if new:
            raise InputError(
                f"features {sorted(new)} were not in the first sample",
                f"its features: {', '.join(self.features)}; name them all there",
            )
        return np.array([[float(x.get(name, 0.0)) for name in self.features]])

    def learn_one(self, x: dict[str, float], y: float) -> RiverRegressor:
        """Learn from one sample.

        Parameters
        ----------
        x : dict of feature values
        y : float
        """
        first, row = self.features is None, self._row(x)
        target = np.array([y], dtype=float)
        if first:
            self.model.partial_fit(row, target)
        else:  # scikit-learn's checks of a table cost ten times the round itself
            self.model._learn(row, target)
        return self

    def predict_one(self, x: dict[str, float]) -> float:
        """The prediction for one sample; 0 before the first was learnt."""
        if self.features is None:
            return 0.0
        return float((self.model._features(self._row(x)) @ self.model._coming)[0])
