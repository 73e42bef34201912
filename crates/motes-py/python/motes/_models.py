"""The models that are built in."""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, Sequence

import numpy as np

from . import _arrays
from ._arrays import finite, flag, place, whole
from ._core import Problem
from ._registry import options_of, refuse_unknown
from ._run import table_of


class _Builtin:
    """A model that is written in Rust."""

    #: The name on the command line.
    _model: str
    _problem: Problem
    #: How `_problem` is made again of what it was made of, by a name of `Problem`; else of its options.
    _recipe: tuple[str, tuple[Any, ...]] | None = None
    #: The classes in the order of their probabilities, for classifiers.
    classes: np.ndarray | None = None

    @classmethod
    def _of(cls, problem: Problem) -> Any:
        model = cls.__new__(cls)
        model._problem = problem
        words = problem.classes()
        model.classes = None if words is None else np.array(words)
        return model

    @classmethod
    def _of_settings(cls, lists: Mapping[str, list[Any]] = {}, **settings: Any) -> Any:
        table = {**lists, **table_of(settings, options_of(cls._model))}
        return cls._of(Problem.of_options(cls._model, json.dumps(table)))

    @classmethod
    def _of_table(
        cls,
        path: str | os.PathLike[str],
        target: str | None,
        drop: Sequence[str],
        test: str | os.PathLike[str] | None,
        test_fraction: float | None,
        split_seed: int | None,
        standardize: bool,
        reference: Mapping[str, Any] | None,
        **own: Any,
    ) -> Any:
        """A model of rows in a CSV file, with options of its own."""
        return cls._of_settings(
            {"drop": list(drop), **_references(reference)},
            data=_absolute(path),
            target=target,
            test=None if test is None else _absolute(test),
            test_fraction=test_fraction,
            split_seed=split_seed,
            no_standardize=not flag("standardize", standardize),
            **own,
        )

    def _make(self, how: str, *given: Any) -> None:
        self._recipe = (how, given)
        self._problem = getattr(Problem, how)(self._model, *given)

    def __getstate__(self) -> dict[str, Any]:
        recipe = self._recipe or ("of_options", (self._problem.options(),))
        return {**{key: value for key, value in vars(self).items() if key != "_problem"}, "_recipe": recipe}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        how, given = state["_recipe"]
        self._make(how, *given)

    @property
    def name(self) -> str:
        """The model's name, as on the command line."""
        return self._problem.name

    @property
    def d_theta(self) -> int:
        """The number of parameters."""
        return self._problem.shape()[0]

    @property
    def d_x(self) -> int:
        """The number of latent coordinates of each group."""
        return self._problem.shape()[1]

    @property
    def groups(self) -> int:
        """The number of groups of latent variables, which are independent given theta."""
        return len(self._problem.shape()[4])

    @property
    def theta_names(self) -> list[str]:
        """A name per parameter."""
        return self._problem.shape()[2]

    @property
    def x_names(self) -> list[str]:
        """A name per latent coordinate of a group."""
        return self._problem.shape()[3]

    @property
    def group_names(self) -> list[str]:
        """A name per group."""
        return self._problem.shape()[4]

    @property
    def notes(self) -> list[str]:
        """What should be known about the data, in a line each."""
        return self._problem.notes()

    def __repr__(self) -> str:
        groups = f", groups={self.groups}" if self.groups > 1 else ""
        return f"{type(self).__name__}(d_theta={self.d_theta}, d_x={self.d_x}{groups})"


class Hierarchical(_Builtin):
    """The toy model of the paper: x_i ~ N(theta, 1), y_i ~ N(x_i, 1), solved in closed form by the mean of y.

    Parameters
    ----------
    y : array_like
        The observations. Each has a latent variable of its own, which is a group by itself.
    groups : int, optional
        1 for all latent variables in one group.

    Examples
    --------
    >>> import motes
    >>> motes.Hierarchical([0.5, 1.5])
    Hierarchical(d_theta=1, d_x=1, groups=2)
    """

    _model = "hierarchical"

    def __init__(self, y: Any, *, groups: int | None = None) -> None:
        table = table_of({"groups": groups}, options_of(self._model))
        self._make("of_observations", json.dumps(table), _arrays.numbers("y", y, 1))

    @classmethod
    def generate(
        cls, dim: int = 100, true_theta: float = 1.0, data_seed: int = 0, groups: int | None = None
    ) -> "Hierarchical":
        """Observations drawn from the model, as ``motes fit hierarchical`` does.

        Parameters
        ----------
        dim : int
            The number of observations.
        true_theta : float
            The theta they are drawn at.
        data_seed : int
            The seed of the draw.
        groups : int, optional
            1 for all latent variables in one group.

        Examples
        --------
        >>> import motes
        >>> motes.Hierarchical.generate(dim=10).groups
        10
        """
        return cls._of_settings(dim=dim, true_theta=true_theta, data_seed=data_seed, groups=groups)

    @classmethod
    def from_csv(
        cls, path: str | os.PathLike[str], target: str | None = None, groups: int | None = None
    ) -> "Hierarchical":
        """Observations in a column of a CSV file (by default the last).

        Parameters
        ----------
        path : path
            The file.
        target : str, optional
            The column.
        groups : int, optional
            1 for all latent variables in one group.
        """
        return cls._of_settings(data=_absolute(path), target=target, groups=groups)


class LogisticRegression(_Builtin):
    """Empirical-Bayes logistic regression: weights x ~ N(m 1, V I), of which m, V or both are learnt.

    Features are standardised and all rows are trained on, unless you say otherwise. The command line, and
    :meth:`from_csv`, hold out a fifth of the rows; ``test_fraction=0.2`` gives the same here, bit for bit.

    Parameters
    ----------
    X : array_like, shape (rows, features)
        The features. The column names of a data frame are kept, and its columns of text, categories and booleans become
        categories, as on the command line.
    y : array_like, shape (rows,)
        Labels of two classes.
    prior_variance : float, optional
        V where it is not learnt, 5 unless you say otherwise.
    learn : {"variance", "mean", "both"}
        What theta is: log V, m, or both. m is 0 where it is not learnt.
    intercept : bool
        Whether to add an intercept with its own prior N(0, 100).
    standardize : bool
        Whether to centre and scale each feature by its moments over the rows trained on.
    reference : mapping, optional
        For columns that are categories, the level that the others are compared with; by default the first: that of
        pandas' categories, else by the alphabet.
    test_fraction : float
        The fraction of rows held out for test metrics.
    split_seed : int
        The seed of that split.
    feature_names : sequence of str, optional
        A name per feature.
    weights : array_like, shape (rows,), optional
        How often each row counts, 0 or more; test metrics count each test row once.

    Examples
    --------
    >>> import motes, numpy as np
    >>> X = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    >>> model = motes.LogisticRegression(X, ["no", "no", "yes", "yes"])
    >>> model.classes.tolist()
    ['no', 'yes']
    """

    _model = "logistic"

    def __init__(
        self,
        X: Any,
        y: Any,
        prior_variance: float | None = None,
        *,
        learn: str | None = None,
        intercept: bool = True,
        standardize: bool = True,
        test_fraction: float = 0.0,
        split_seed: int = 0,
        feature_names: Sequence[str] | None = None,
        reference: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> None:
        settings = {
            "prior_variance": None if prior_variance is None else finite("prior_variance", prior_variance),
            "learn": learn,
            "intercept": flag("intercept", intercept),
        }
        named = (feature_names, reference, weights)
        _of_rows(self, X, y, 2, settings, standardize, test_fraction, split_seed, *named)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        target: str | None = None,
        drop: Sequence[str] = (),
        *,
        test: str | os.PathLike[str] | None = None,
        test_fraction: float | None = None,
        split_seed: int | None = None,
        standardize: bool = True,
        prior_variance: float | None = None,
        learn: str | None = None,
        intercept: bool = True,
        reference: Mapping[str, Any] | None = None,
        weights: str | None = None,
    ) -> "LogisticRegression":
        """The model of a CSV file, read as ``motes fit logistic --data`` reads it.

        Parameters
        ----------
        path : path
            A CSV file with a header.
        target : str, optional
            The column of the labels, by default the last.
        drop : sequence of str
            Columns to leave out.
        test : path, optional
            A CSV file to test on.
        test_fraction, split_seed, standardize, prior_variance, learn, intercept
            As on the command line, whose defaults they have.
        reference : mapping, optional
            As for the class itself.
        weights : str, optional
            The column of the rows' weights.
        """
        where = (path, target, drop, test, test_fraction, split_seed, standardize, reference)
        return cls._of_table(
            *where,
            weights=weights,
            prior_variance=None if prior_variance is None else finite("prior_variance", prior_variance),
            learn=learn,
            intercept=flag("intercept", intercept),
        )

    @classmethod
    def wisconsin(cls, **settings: Any) -> "LogisticRegression":
        """The Wisconsin breast cancer data, which are built in, as ``motes fit logistic`` takes them.

        Parameters
        ----------
        **settings
            ``test_fraction``, ``split_seed``, ``standardize``, ``prior_variance``, ``learn``, ``intercept``, as for
            :meth:`from_csv`; the defaults are the paper's, ``learn="mean"`` without an intercept.

        Examples
        --------
        >>> import motes
        >>> motes.LogisticRegression.wisconsin().d_x
        9
        """
        known = ["test_fraction", "split_seed", "standardize", "prior_variance", "learn", "intercept"]
        refuse_unknown("LogisticRegression.wisconsin", settings, known)
        if "standardize" in settings:
            settings["no_standardize"] = not flag("standardize", settings.pop("standardize"))
        return cls._of_settings(**settings)


class MultinomialRegression(_Builtin):
    """Empirical-Bayes regression for several classes: softmax, weights ~ N(0, V), and log V is learnt.

    Adding a number to the weights of all classes changes no probability, so the weights of a feature add up to 0 over the
    classes. A fit moves their contrasts; :attr:`Fit.coefficients` has the coefficients of each class.

    Parameters
    ----------
    X : array_like, shape (rows, features)
        The features.
    y : array_like, shape (rows,)
        Labels of 2 to 20 classes, or of up to 256 with 5 rows for each.
    intercept : bool
        Whether each class has an intercept, with its own prior N(0, 100).
    standardize, test_fraction, split_seed, feature_names, reference, weights
        As for :class:`LogisticRegression`.

    Examples
    --------
    >>> import motes, numpy as np
    >>> X = np.array([[-1.0], [-0.9], [0.0], [0.1], [1.0], [1.1]])
    >>> model = motes.MultinomialRegression(X, ["low", "low", "mid", "mid", "high", "high"])
    >>> model
    MultinomialRegression(d_theta=1, d_x=4)
    """

    _model = "multinomial"

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        intercept: bool = True,
        standardize: bool = True,
        test_fraction: float = 0.0,
        split_seed: int = 0,
        feature_names: Sequence[str] | None = None,
        reference: Mapping[str, Any] | None = None,
        weights: Any = None,
    ) -> None:
        settings = {"no_intercept": not flag("intercept", intercept)}
        named = (feature_names, reference, weights)
        _of_rows(self, X, y, 256, settings, standardize, test_fraction, split_seed, *named)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        target: str | None = None,
        drop: Sequence[str] = (),
        *,
        test: str | os.PathLike[str] | None = None,
        test_fraction: float | None = None,
        split_seed: int | None = None,
        standardize: bool = True,
        intercept: bool = True,
        reference: Mapping[str, Any] | None = None,
        weights: str | None = None,
    ) -> "MultinomialRegression":
        """The model of a CSV file, read as ``motes fit multinomial --data`` reads it.

        Parameters
        ----------
        path, target, drop, test, test_fraction, split_seed, standardize, intercept, reference, weights
            As for :meth:`LogisticRegression.from_csv`.
        """
        where = (path, target, drop, test, test_fraction, split_seed, standardize, reference)
        return cls._of_table(*where, weights=weights, no_intercept=not flag("intercept", intercept))


class BayesianNeuralNetwork(_Builtin):
    """A Bayesian neural network with one hidden layer, tanh units and no biases; the scales of its priors are learnt.

    Features are standardised and all rows are trained on, unless ``standardize`` or ``test_fraction`` say otherwise, as
    for :class:`LogisticRegression`.

    Parameters
    ----------
    X : array_like, shape (rows, features)
        The features.
    y : array_like, shape (rows,)
        Labels of 2 to 20 classes, or of up to 256 with 5 rows for each.
    hidden : int
        The number of hidden units.
    standardize, test_fraction, split_seed, feature_names, reference
        As for :class:`LogisticRegression`.
    products : str, optional
        How products with the features are computed: ``"auto"``, the default, ``"dense"``, ``"sparse"`` or ``"full"``; all
        agree up to rounding.

    Examples
    --------
    >>> import motes, numpy as np
    >>> X = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> motes.BayesianNeuralNetwork(X, [0, 1, 2], hidden=4)
    BayesianNeuralNetwork(d_theta=2, d_x=20)
    """

    _model = "bnn"

    def __init__(
        self,
        X: Any,
        y: Any,
        hidden: int = 40,
        *,
        standardize: bool = True,
        test_fraction: float = 0.0,
        split_seed: int = 0,
        feature_names: Sequence[str] | None = None,
        reference: Mapping[str, Any] | None = None,
        products: str | None = None,
    ) -> None:
        settings = {"hidden": whole("hidden", hidden, 1), "products": products}
        _of_rows(self, X, y, 256, settings, standardize, test_fraction, split_seed, feature_names, reference)

    @classmethod
    def from_csv(
        cls,
        path: str | os.PathLike[str],
        target: str | None = None,
        drop: Sequence[str] = (),
        hidden: int = 40,
        *,
        test: str | os.PathLike[str] | None = None,
        test_fraction: float | None = None,
        split_seed: int | None = None,
        standardize: bool = True,
        reference: Mapping[str, Any] | None = None,
        products: str | None = None,
    ) -> "BayesianNeuralNetwork":
        """The network of a CSV file, read as ``motes fit bnn --data`` reads it.

        Parameters
        ----------
        path, target, drop, test, test_fraction, split_seed, standardize, reference
            As for :meth:`LogisticRegression.from_csv`.
        hidden, products
            As for the class itself.
        """
        where = (path, target, drop, test, test_fraction, split_seed, standardize, reference)
        return cls._of_table(*where, hidden=hidden, products=products)

    @classmethod
    def mnist(
        cls,
        classes: Sequence[int] = (4, 9),
        subsample: int = 1000,
        hidden: int = 40,
        *,
        data_seed: int = 0,
        test_fraction: float = 0.2,
        split_seed: int = 0,
        products: str | None = None,
    ) -> "BayesianNeuralNetwork":
        """The MNIST images that are built in, as ``motes fit bnn`` takes them.

        Parameters
        ----------
        classes : sequence of int
            The digits to tell apart.
        subsample : int
            How many images to draw; 0 for all.
        hidden : int
            The number of hidden units.
        data_seed : int
            The seed of the draw.
        test_fraction, split_seed
            As for :class:`LogisticRegression`.
        products : str, optional
            As for the class itself.

        Examples
        --------
        >>> import motes
        >>> motes.BayesianNeuralNetwork.mnist(subsample=100, hidden=2).classes.tolist()
        ['4', '9']
        """
        return cls._of_settings(
            {"classes": [whole("classes", c) for c in classes]},
            subsample=subsample,
            hidden=hidden,
            data_seed=data_seed,
            test_fraction=test_fraction,
            split_seed=split_seed,
            products=products,
        )


def _absolute(path: str | os.PathLike[str]) -> str:
    folder, name = os.path.split(os.path.abspath(place("path", path)))
    return os.path.join(os.path.realpath(folder), name)  # as the command line writes it down


def _references(reference: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """The levels that are references, as the command line writes them."""
    if reference is None:
        return {}
    if not isinstance(reference, Mapping):
        raise ValueError(f"reference is {reference!r}; give a mapping from columns to levels")
    return {"reference": [f"{column}={level}" for column, level in reference.items()]}


def _of_rows(
    model: _Builtin,
    X: Any,
    y: Any,
    most: int,
    settings: dict[str, Any],
    standardize: bool,
    test_fraction: float,
    split_seed: int,
    feature_names: Sequence[str] | None,
    reference: Mapping[str, Any] | None,
    weights: Any = None,
) -> None:
    if feature_names is None:
        feature_names = _arrays.column_names(X) or None
    features, levels = _arrays.columns("X", X)
    labels, words, classes = _arrays.labels("y", _arrays.same_rows("y", y, X), len(features), most)
    columns = _arrays.names("feature_names", feature_names, features.shape[1], "x")
    target = "y"
    while target in columns:
        target += "_"
    settings = {
        "test_fraction": finite("test_fraction", test_fraction),
        "split_seed": whole("split_seed", split_seed),
        "no_standardize": not flag("standardize", standardize),
        **settings,
    }
    if reference is None or isinstance(reference, Mapping):
        reference = {**_arrays.first_categories(X, columns), **(reference or {})}
    text = json.dumps({**_references(reference), **table_of(settings, options_of(model._model))})
    counts = None if weights is None else _arrays.numbers("weights", _arrays.same_rows("weights", weights, X), 1)
    given = (features, levels, labels, words, columns, target, counts)
    model._make("of_rows", text, *given)
    model.classes = classes
