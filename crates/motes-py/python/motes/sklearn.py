"""Motes as a scikit-learn estimator."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ._arrays import word_columns
from ._fit import fitted
from ._models import LogisticRegression, MultinomialRegression
from ._run import how_of, warn

#: Logits computed at once, so that memory stays bounded.
_AT_ONCE = 1 << 22
#: Rows up to which equal ones are looked for.
_MERGED = 10_000


class EmpiricalBayesLogisticRegression(ClassifierMixin, BaseEstimator):
    """Bayesian logistic regression for two or more classes whose prior is learnt from the data.

    Parameters
    ----------
    prior_variance : float, optional
        The prior variance of each weight where it is not learnt; for two classes.
    learn : {"variance", "mean", "both"}
        What of the prior N(m 1, V I) of the weights is learnt; m is 0 where it is not. More than two classes learn the
        variance.
    fit_intercept : bool
        Whether to add an intercept.
    standardize : bool
        Whether to centre and scale features; a constant feature is only centred.
    class_weight : dict or "balanced", optional
        How often rows of each class count, besides their ``sample_weight``.
    algorithm : str
        As for :func:`motes.fit`.
    particles, steps, step_size, tolerance, max_evaluations : optional
        As for :func:`motes.fit`; None for the default of the algorithm. auto takes no steps and no step size.
    level : float
        That of the intervals of the coefficients.
    n_jobs : int, optional
        Threads: 1 unless you say otherwise, -1 for one on each core. Results do not depend on it.
    random_state : int, RandomState or None
        The seed.

    Attributes
    ----------
    classes_ : ndarray
        The classes.
    coef_ : ndarray, shape (1, features) or (classes, features)
        Posterior means of the weights, for features as they were given; those of more than two classes add up to 0.
    coef_interval_ : ndarray, shape of coef_ with a last axis of 2
        Their posterior intervals at ``level``.
    intercept_ : ndarray, shape (1,) or (classes,)
        The posterior mean of the intercept.
    intercept_interval_ : ndarray, shape of intercept_ with a last axis of 2
        Its interval.
    theta_ : ndarray
        The estimate: log V, m, or m and log V.
    se_ : ndarray
        Its standard errors (NaN where they are not known).
    loglik_ : float
        The log-likelihood (NaN where it is not known).
    draws_ : ndarray, shape (draws, 1 or classes, features + 1)
        Posterior draws of weights and intercept, for features as they were given.
    verdict_ : str
        ``ok``, or what was wrong with the fit; then there was a ``ConvergenceWarning``.
    n_iter_ : int
        Steps made (sweeps of auto).

    Notes
    -----
    Sparse matrices are made dense.

    Examples
    --------
    >>> from motes.sklearn import EmpiricalBayesLogisticRegression
    >>> X = [[-1.0], [-2.0], [1.0], [2.0], [0.5], [-0.5]]
    >>> model = EmpiricalBayesLogisticRegression().fit(X, [0, 0, 1, 1, 0, 1])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        prior_variance: Any = None,
        learn: str = "variance",
        fit_intercept: bool = True,
        standardize: bool = True,
        class_weight: Any = None,
        algorithm: str = "auto",
        particles: Any = None,
        steps: Any = None,
        step_size: Any = None,
        tolerance: Any = None,
        max_evaluations: Any = None,
        level: float = 0.95,
        n_jobs: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.prior_variance = prior_variance
        self.learn = learn
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.class_weight = class_weight
        self.algorithm = algorithm
        self.particles = particles
        self.steps = steps
        self.step_size = step_size
        self.tolerance = tolerance
        self.max_evaluations = max_evaluations
        self.level = level
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "EmpiricalBayesLogisticRegression":
        """Fits to features X and labels y.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (rows, features)
            The features.
        y : array_like, shape (rows,)
            The labels.
        sample_weight : array_like, shape (rows,), optional
            How often each row counts.
        """
        try:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        except ValueError as error:
            if words := word_columns(X):
                raise ValueError(
                    f"X has words in column {words[0]!r}; put a OneHotEncoder before the estimator in a pipeline, or use motes.LogisticRegression, which codes categories itself"
                ) from error
            raise
        X = _dense(X)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None or self.class_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            if self.class_weight is not None:
                of_class = compute_sample_weight(self.class_weight, y)
                if (of_class < 0).any():
                    raise ValueError(f"class_weight is {self.class_weight!r}; give weights of 0 or more")
                weights = weights * of_class
            if not (weights > 0).any():
                raise ValueError("sample_weight is 0 for all rows; give some of them more")
            # Rows that do not count are as good as not there, unless they are all that is known of a class.
            there = (weights > 0) | ~np.isin(y, y[weights > 0])
            X, y, weights = X[there], y[there], weights[there]
        self.classes_, codes = np.unique(y, return_inverse=True)
        X, codes, weights = _merged(X, codes, weights)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; give rows of two classes")
        center, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.standardize:
            center = np.average(X, axis=0, weights=weights)
            scale = np.sqrt(np.average((X - center) ** 2, axis=0, weights=weights))
            # What rounding leaves of a constant column is no scale.
            scale[scale <= 1e-12 * np.abs(center)] = 1.0
            scale[scale == 0.0] = 1.0
        rows = (X - center) / scale
        settings = {"intercept": bool(self.fit_intercept), "standardize": False, "weights": weights}
        if count == 2:
            model: Any = LogisticRegression(rows, codes, self.prior_variance, learn=self.learn, **settings)
        else:
            if self.learn != "variance" or self.prior_variance is not None:
                raise ValueError(
                    f"y has {count} classes, for which the variance is learnt; leave learn and prior_variance out"
                )
            model = MultinomialRegression(rows, codes, **settings)
        chosen = ("algorithm", "particles", "steps", "step_size", "tolerance", "max_evaluations")
        given = {name: getattr(self, name) for name in chosen}
        how = how_of(_threads(self.n_jobs), None, 1, False, None)
        fit = fitted(model, {**given, "seed": self._seed()}, how, False, None, None)
        draws = (fit.clouds if len(fit.clouds) else fit.particles).astype(np.float64)
        weights_of = _weights(draws, X.shape[1], bool(self.fit_intercept), count)
        weights_of[:, :, :-1] /= scale
        weights_of[:, :, -1] -= weights_of[:, :, :-1] @ center
        self.draws_ = weights_of
        mean = self.draws_.mean(axis=0)
        self.coef_, self.intercept_ = mean[:, :-1], mean[:, -1]
        tail = 0.5 - 0.5 * self.level
        interval = np.moveaxis(np.quantile(self.draws_, [tail, 1.0 - tail], axis=0), 0, -1)
        self.coef_interval_, self.intercept_interval_ = interval[:, :-1], interval[:, -1]
        self.theta_ = np.array(fit.theta_mean)
        self.se_, self.loglik_ = np.array(fit.se), fit.loglik
        self.verdict_ = fit.verdict
        if not fit.ok:
            warn(f"the verdict is {fit.verdict}: {fit.diagnostics['advice']}", ConvergenceWarning)
        self.n_iter_ = fit.k
        return self

    def _seed(self) -> int:
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        return int(seed)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, averaged over the posterior draws.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (rows, features)
            The features.

        Returns
        -------
        ndarray, shape (rows, classes)
        """
        check_is_fitted(self)
        X = _dense(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        weights, intercept = self.draws_[:, :, :-1], self.draws_[:, :, -1]
        p = np.empty((len(X), len(self.classes_)))
        step = max(1, _AT_ONCE // intercept.size)
        for first in range(0, len(X), step):
            rows = slice(first, first + step)
            t = np.einsum("rd,nkd->rnk", X[rows], weights, optimize=True) + intercept
            if t.shape[2] == 1:
                second = (0.5 * (1.0 + np.tanh(0.5 * t[:, :, 0]))).mean(axis=1)
                p[rows] = np.column_stack([1.0 - second, second])
            else:
                e = np.exp(t - t.max(axis=2, keepdims=True))
                p[rows] = (e / e.sum(axis=2, keepdims=True)).mean(axis=1)
        return p

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """The logarithm of the odds of the second class by its mean probability; of each of more classes."""
        p = np.clip(self.predict_proba(X), 1e-300, 1.0 - 1e-16)
        odds = np.log(p) - np.log1p(-p)
        return odds[:, 1] if len(self.classes_) == 2 else odds

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _merged(X: np.ndarray, codes: np.ndarray, weights: np.ndarray | None) -> Any:
    """Equal rows as one that counts as often: a row of weight 2 and the same row twice are then fitted by the same numbers."""
    if len(X) > _MERGED:
        return X, codes, weights
    table, place = np.unique(np.column_stack([X, codes]), axis=0, return_inverse=True)
    if weights is None and len(table) == len(X):
        return X, codes, None
    return table[:, :-1], table[:, -1].astype(np.intp), np.bincount(place.ravel(), weights)


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if hasattr(X, "toarray") else X


def _threads(n_jobs: int | None) -> int | None:
    """Threads by scikit-learn's reckoning: one by default, -1 for all, -2 for all but one."""
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs >= 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def _weights(draws: np.ndarray, features: int, intercept: bool, classes: int) -> np.ndarray:
    """Weights and intercept of each class, shape (draws, 1 or classes, features + 1), of standardised features."""
    columns = features + intercept
    if classes == 2:
        weights = draws[:, None, :]
    else:
        # Orthonormal contrasts: a class against the mean of those before it.
        contrasts = np.zeros((classes, classes - 1))
        for j in range(1, classes):
            contrasts[:j, j - 1] = 1.0
            contrasts[j, j - 1] = -j
            contrasts[:, j - 1] /= np.sqrt(j * (j + 1))
        weights = np.einsum("kj,njc->nkc", contrasts, draws.reshape(len(draws), classes - 1, columns))
    if not intercept:
        weights = np.concatenate([weights, np.zeros((*weights.shape[:2], 1))], axis=2)
    return np.array(weights)
