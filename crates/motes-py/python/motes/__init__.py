"""Maximum-likelihood training of latent variable models with clouds of particles.

You have a model p_theta(x, y) with parameters theta, hidden variables x and data y, and want the theta that
makes the data most likely together with the posterior of x.

>>> import motes
>>> model = motes.Hierarchical([1.2, 0.3, 2.5, 1.9])
>>> fit = motes.fit(model, progress=False)
>>> fit.verdict, fit.theta.shape, fit.particles.shape
('ok', (1,), (32, 4))

The maximiser of this model is the mean of the observations, 1.475, and its standard error the square root of 2/4:

>>> bool(abs(fit.theta_mean[0] - 1.475) < 0.2 * fit.se[0])
True
>>> round(float(fit.se[0]), 1)
0.7
"""

from ._constraints import CholeskyCorr, CovarianceCholesky, Interval, Ordered, Positive, Real, Simplex
from ._core import __version__
from ._errors import DivergedError, VerdictError, VerdictWarning
from ._fit import fit, load, resume
from ._generator import Generator, GeneratorFit
from ._models import BayesianNeuralNetwork, Hierarchical, LogisticRegression, MultinomialRegression
from ._named import by_group
from ._named_fit import Latents, NamedFit, NamedReplicates
from ._own import Check, Checks, Model, NamedModel, check_model
from ._registry import ModelInfo, Option, models
from ._replicates import Replicates
from ._result import Fit
from ._run import Step
from ._settings import Settings

__all__ = [
    "BayesianNeuralNetwork",
    "Check",
    "Checks",
    "CholeskyCorr",
    "CovarianceCholesky",
    "DivergedError",
    "Fit",
    "Generator",
    "GeneratorFit",
    "Hierarchical",
    "Interval",
    "Latents",
    "LogisticRegression",
    "Model",
    "ModelInfo",
    "MultinomialRegression",
    "NamedFit",
    "NamedModel",
    "NamedReplicates",
    "Option",
    "Ordered",
    "Positive",
    "Real",
    "Replicates",
    "Settings",
    "Simplex",
    "Step",
    "VerdictError",
    "VerdictWarning",
    "__version__",
    "by_group",
    "check_model",
    "fit",
    "load",
    "models",
    "resume",
]
