"""The memory as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from practicum.vision.visual_memory.search import nearest, normalised
from practicum.vision.visual_memory.votes import (
    class_scores,
    probabilities,
    vote_curve,
    vote_weights,
)


class VisualMemoryClassifier(ClassifierMixin, BaseEstimator):
    """Nearest rows by cosine, and a vote; learns by storing.

    Parameters
    ----------
    k : int
        Neighbours that vote; all rows where there are fewer.
    vote : {"rank", "softmax", "distance", "plurality"}
    alpha : float
        Of the rank vote.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_features_in_ : int

    Raises
    ------
    InputError
        A row of zeros (it has no direction), or an unknown vote.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(cross_val_score(VisualMemoryClassifier(k=10), X, y, cv=3).mean() > 0.95)
    True
    """

    def __init__(self, k=50, vote="rank", alpha=2.0):
        self.k, self.vote, self.alpha = k, vote, alpha

    def fit(self, X: Any, y: Any) -> VisualMemoryClassifier:
        """Store the rows of X, shape (n, d), with their labels."""
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.rows_, self.labels_ = normalised(X), y
        return self._index()

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> VisualMemoryClassifier:
        """Store more rows; new classes are welcome (``classes`` is not needed)."""
        if not hasattr(self, "rows_"):
            return self.fit(X, y)
        X, y = validate_data(self, X, y, reset=False)
        check_classification_targets(y)
        self.rows_ = np.concatenate([self.rows_, normalised(X)])
        self.labels_ = np.concatenate([self.labels_, y])
        return self._index()

    def _index(self) -> VisualMemoryClassifier:
        vote_weights(np.zeros((1, 1)), self.vote, alpha=self.alpha)  # refuses what is not known
        self.classes_, self.codes_ = np.unique(self.labels_, return_inverse=True)
        return self

    def kneighbors(self, X: Any, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Distances (n, k) and numbers of the stored rows."""
        check_is_fitted(self, "rows_")
        X = validate_data(self, X, reset=False)
        return nearest(normalised(X), self.rows_, min(k or self.k, len(self.rows_)))

    def predict(self, X: Any) -> np.ndarray:
        """The winning class of each row."""
        d, index = self.kneighbors(X)
        weights = vote_weights(d, self.vote, alpha=self.alpha)
        return self.classes_[vote_curve(self.codes_[index], weights)[:, -1]]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Shares of the vote, shape (n, n_classes)."""
        d, index = self.kneighbors(X)
        weights = vote_weights(d, self.vote, alpha=self.alpha)
        return probabilities(class_scores(self.codes_[index], weights, len(self.classes_)))
