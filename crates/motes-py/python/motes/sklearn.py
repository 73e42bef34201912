"""Motes as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ._fit import fitted
from ._models import LogisticRegression
from ._run import how_of, warn

#: Rows predicted at once, so that memory stays bounded.
_ROWS = 4096


class EmpiricalBayesLogisticRegression(ClassifierMixin, BaseEstimator):
    """Bayesian logistic regression for two classes whose prior is learnt from the data.

    Parameters
    ----------
    prior_variance : float, optional
        The prior variance of each weight where it is not learnt.
    learn : {"variance", "mean", "both"}
        What of the prior N(m 1, V I) of the weights is learnt; m is 0 where it is not.
    fit_intercept : bool
        Whether to add an intercept.
    standardize : bool
        Whether to centre and scale features; a constant feature is only centred.
    algorithm : str
        As for :func:`motes.fit`.
    particles, steps, step_size, tolerance, max_evaluations : optional
        As for :func:`motes.fit`; None for the default of the algorithm. auto takes no steps and no step size.
    threads : int, optional
        As for :func:`motes.fit`.
    random_state : int, RandomState or None
        The seed.

    Attributes
    ----------
    classes_ : ndarray
        The two classes.
    coef_ : ndarray, shape (1, features)
        Posterior means of the weights, for features as they were given.
    intercept_ : ndarray, shape (1,)
        The posterior mean of the intercept.
    theta_ : ndarray
        The estimate: log V, m, or m and log V.
    se_ : ndarray
        Its standard errors (NaN where they are not known).
    loglik_ : float
        The log-likelihood (NaN where it is not to be had).
    draws_ : ndarray, shape (draws, features + 1)
        Posterior draws of weights and intercept, for features as they were given.
    verdict_ : str
        ``ok``, or what was wrong with the fit; it was then told by a ``ConvergenceWarning``.
    n_iter_ : int
        Steps made (sweeps of auto).

    Examples
    --------
    >>> sklearn = __import__("pytest").importorskip("sklearn")
    >>> from motes.sklearn import EmpiricalBayesLogisticRegression
    >>> model = EmpiricalBayesLogisticRegression().fit([[-1.0], [-2.0], [1.0], [2.0]], [0, 0, 1, 1])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        prior_variance: Any = None,
        learn: str = "variance",
        fit_intercept: bool = True,
        standardize: bool = True,
        algorithm: str = "auto",
        particles: Any = None,
        steps: Any = None,
        step_size: Any = None,
        tolerance: Any = None,
        max_evaluations: Any = None,
        threads: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.prior_variance = prior_variance
        self.learn = learn
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.algorithm = algorithm
        self.particles = particles
        self.steps = steps
        self.step_size = step_size
        self.tolerance = tolerance
        self.max_evaluations = max_evaluations
        self.threads = threads
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "EmpiricalBayesLogisticRegression":
        """Fits to features X and labels y of two classes.

        Parameters
        ----------
        X : array_like, shape (rows, features)
            The features.
        y : array_like, shape (rows,)
            The labels.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y has {len(self.classes_)} classes; keep the rows of two of them"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}; give rows of two classes")
        center, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if self.standardize:
            center, scale = X.mean(axis=0), X.std(axis=0)
            # What rounding leaves of a constant column is no scale.
            scale[scale <= 1e-12 * np.abs(center)] = 1.0
            scale[scale == 0.0] = 1.0
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        model = LogisticRegression(
            (X - center) / scale,
            codes,
            self.prior_variance,
            learn=self.learn,
            intercept=bool(self.fit_intercept),
            standardize=False,
        )
        chosen = ("algorithm", "particles", "steps", "step_size", "tolerance", "max_evaluations")
        settings = {name: getattr(self, name) for name in chosen}
        how = how_of(self.threads, None, 1, False, None)
        fit = fitted(model, {**settings, "seed": int(seed)}, how, False, None, None)
        draws = fit.clouds if len(fit.clouds) else fit.particles
        weights = draws[:, : X.shape[1]] / scale
        intercept = draws[:, X.shape[1] :].sum(axis=1) - weights @ center
        self.draws_ = np.column_stack([weights, intercept])
        mean = self.draws_.mean(axis=0)
        self.coef_, self.intercept_ = mean[None, :-1], mean[-1:]
        self.theta_ = np.array(fit.theta_mean)
        self.se_, self.loglik_ = np.array(fit.se), fit.loglik
        self.verdict_ = fit.verdict
        if not fit.ok:
            warn(f"the verdict is {fit.verdict}: {fit.diagnostics['advice']}", ConvergenceWarning)
        self.n_iter_ = fit.k
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, averaged over the posterior draws.

        Parameters
        ----------
        X : array_like, shape (rows, features)
            The features.

        Returns
        -------
        ndarray, shape (rows, 2)
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        weights, intercept = self.draws_[:, :-1], self.draws_[:, -1]
        p = np.empty(len(X))
        for first in range(0, len(X), _ROWS):
            rows = slice(first, first + _ROWS)
            t = X[rows] @ weights.T + intercept
            p[rows] = (0.5 * (1.0 + np.tanh(0.5 * t))).mean(axis=1)
        return np.column_stack([1.0 - p, p])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """The logarithm of the odds of the second class, by its mean probability."""
        p = np.clip(self.predict_proba(X)[:, 1], 1e-300, 1.0 - 1e-16)
        return np.log(p) - np.log1p(-p)

    def predict(self, X: Any) -> np.ndarray:
        """The likelier class of each row."""
        second = self.decision_function(X) > 0
        return self.classes_[second.astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
