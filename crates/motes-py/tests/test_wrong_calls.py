"""A table of wrong calls: each is refused in one sentence that names what is wrong and says what to do."""

import re
from functools import lru_cache

import numpy as np
import pytest

import motes

jax = pytest.importorskip("jax")
jnp = jax.numpy
FIT = dict(progress=False)
X, Y = np.arange(12.0).reshape(6, 2) % 5, [0, 1, 0, 1, 1, 0]


@lru_cache(maxsize=None)
def toy():
    return motes.Hierarchical([1.0, 2.0])


@lru_cache(maxsize=None)
def toy_fit():
    return motes.fit(toy(), algorithm="pgd", particles=2, steps=5, no_assess=True, progress=False)


@lru_cache(maxsize=None)
def classifier():
    return motes.fit(motes.LogisticRegression(X, Y), algorithm="pgd", particles=2, steps=5, no_assess=True, progress=False)


def density(p, u, row):
    return -0.5 * (u["u"] - p["m"]) ** 2 - 0.5 * (row["y"] - u["u"]) ** 2


GOOD = dict(params={"m": motes.Real()}, latent={"u": ()}, data={"y": np.arange(4.0)}, groups=4)


@lru_cache(maxsize=None)
def named_model():
    return motes.Model.from_jax(density, **GOOD)


def fit(**settings):
    return lambda: motes.fit(toy(), **{**FIT, **settings})


def pgd(**settings):
    return fit(**{"algorithm": "pgd", "particles": 2, "steps": 5, "no_assess": True, **settings})


def own(gradients=lambda theta, x: (x - theta, theta - x), d_theta=1, d_x=1, **options):
    return lambda: motes.Model(d_theta, d_x, gradients, **options)


def run_own(gradients=lambda theta, x: (x - theta, theta - x), **options):
    settings = dict(algorithm="pgd", particles=3, steps=2, step_size=0.1, no_assess=True, progress=False)
    return lambda: motes.fit(motes.Model(1, 1, gradients, **options), **settings)


def named(log_joint=density, **change):
    return lambda: motes.Model.from_jax(log_joint, **{**GOOD, **change})


def named_fit(**settings):
    return lambda: motes.fit(named_model(), **{**FIT, **settings})


def logistic(X=X, y=Y, **options):
    return lambda: motes.LogisticRegression(X, y, **options)


#: What is called, what the sentence must name, and the remedy that it must end with.
GENERAL = [
    (fit(particles=0), "particles=0", "at least|use"),
    (fit(particles=2.5), "particles is 2.5", "whole number"),
    (fit(particles="many"), "particles", "whole number|number"),
    (fit(particles=-1), "particles is -1", "whole number"),
    (pgd(steps=0), "steps=0", "at least|use"),
    (pgd(steps="many"), "steps", "whole number|number"),
    (pgd(steps=True), "steps", "number|whole"),
    (pgd(steps=[5]), r"steps is \[5\]", "give it"),
    (fit(steps=100), "steps", "leave steps out"),
    (fit(burn_in=5), "burn_in", "leave burn_in out"),
    (fit(step_size=0.1), "step_size", "pgd"),
    (fit(adjust=True), "adjust", "pgd|leave"),
    (fit(preconditioner="adam"), "preconditioner", "pgd|leave"),
    (fit(warm_start="1x5"), "warm_start", "pgd|leave"),
    (fit(batch=1), "batch", "pgd|leave"),
    (fit(grow={2: 50}), "grow", "pgd|leave"),
    (pgd(burn_in=10, steps=10), "burn_in=10", "fewer|below|less|smaller"),
    (pgd(step_size=-1.0), "step_size=-1 is not a positive number", "leave it out"),
    (pgd(step_size=0), "step_size=0 is not a positive number", "leave it out"),
    (pgd(step_size=float("nan")), "step_size is nan", "finite"),
    (pgd(step_size="big"), "step_size", "number|write"),
    (pgd(step_decay="x"), "step_decay", "write|give"),
    (pgd(step_decay=3), "step_decay is 3", "give it"),
    (pgd(grow=5), "grow is 5", "give it"),
    (pgd(grow=[(1, 1)]), "grow", "more|above|at least|ascending|larger|begin|start"),
    (fit(algorithm="pgf"), "'pgf'", "did you mean pgd"),
    (fit(algorithm=3), "algorithm", "auto, pgd|one of|give"),
    (pgd(preconditioner="adma"), "adma", "did you mean adam"),
    (pgd(precision="f16"), "precision|f16", "f32"),
    (pgd(threads=0), "threads is 0", "whole number"),
    (pgd(threads=5000), "threads is 5000", "1 to 1024"),
    (fit(seed=-1), "seed is -1", "whole number"),
    (fit(seed="a"), "seed is 'a'", "whole number"),
    (fit(seed=2**70), "seed is", "below 2"),
    (pgd(batch=3), "batch=3 is more than the 2 groups", "use a smaller one"),
    (fit(algorithm="pmgd", batch=1, steps=5), "pmgd", "leave|pgd|without"),
    (fit(algorithm="em", particles=7), "particles", "leave"),
    (fit(algorithm="em", step_size=0.1), "step_size", "leave"),
    (pgd(tolerance=0.1), "tolerance", "auto"),
    (fit(tolerance=0), "tolerance=0", "up to 1"),
    (fit(tolerance="fine"), "tolerance", "number"),
    (fit(particles=1), "particles=1", "at least|use"),
    (fit(max_evaluations=0), "max_evaluations=0", "some thousands"),
    (fit(level=1), "level=1 is not between 0 and 1", "use for example"),
    (fit(level="high"), "level", "number"),
    (pgd(trace_every=0), "trace_every=0", "1|at least"),
    (pgd(metrics_every=3), "metrics_every|test set", "leave|model|test"),
    (pgd(init_particles="prios"), "init_particles", "prior"),
    (pgd(init_theta=[1.0, 2.0]), "init_theta has 2 numbers", "a number for each"),
    (pgd(init_theta=np.inf), "init_theta is inf", "finite"),
    (pgd(init_theta=""), "init_theta is ''", "path"),
    (pgd(init=[1.0], init_theta=1.0), "init and init_theta", "give one"),
    (pgd(init={"m": 1.0}), "init is a dict", "vector"),
    (pgd(init="there"), "init", "dict, a vector|number"),
    (pgd(callback=3), "callback is 3", "callable"),
    (pgd(callback_every=0), "callback_every is 0", "whole number"),
    (pgd(replicates=0), "replicates is 0", "whole number"),
    (pgd(replicates="two"), "replicates is 'two'", "whole number"),
    (pgd(budget=0), "budget is 0", "positive"),
    (pgd(budget="long"), "budget is 'long'", "finite number|seconds"),
    (pgd(strict="yes"), "strict is 'yes'", "True or False"),
    (pgd(out=""), "out is ''", "path"),
    (pgd(out=3), "out is 3", "path"),
    (fit(random_state=1), "random_state", "its name here is seed"),
    (fit(num_samples=1), "num_samples", "its name here is tolerance"),
    (fit(lr=1), "'lr'", "its name here is step_size"),
    (fit(n_jobs=1), "n_jobs", "its name here is threads"),
    (fit(draws=1), "draws", "its name here is tolerance"),
    (fit(tune=1), "tune", "its name here is burn_in"),
    (fit(chains=4), "chains", "its name here is replicates"),
    (fit(max_iter=4), "max_iter", "its name here is steps"),
    (fit(verbose=True), "verbose", "its name here is progress"),
    (fit(init_teta=1), "init_teta", "did you mean init_theta"),
    (fit(hidden=1), "hidden", "belongs to the model bnn"),
    (lambda: motes.fit(3), "model is 3", "motes.Model"),
    (lambda: motes.fit("logistic"), "model is 'logistic'", "motes.Model"),
    (lambda: motes.check_model(None), "model is None", "motes.Model"),
    (lambda: motes.check_model(toy(), seed=-1), "seed is -1", "whole number"),
    (lambda: motes.load(""), "dir is ''", "path"),
    (lambda: motes.load(3), "dir is 3", "path"),
    (lambda: motes.resume(toy_fit(), model=toy()), "model", "leave model out"),
    (lambda: motes.resume(toy_fit(), steps=2), "steps=2 is the new total", "larger number"),
    (lambda: motes.resume(toy_fit(), tolerance=0.01), "tolerance", "steps"),
    (lambda: motes.resume(toy_fit(), steps="more"), "steps is 'more'", "whole number"),
    (lambda: toy_fit().resume(tolerance="fine"), "tolerance is 'fine'", "finite"),
    (lambda: toy_fit().conf_int(1.5), "level is 1.5", "between 0 and 1"),
    (lambda: toy_fit().conf_int("wide"), "level is 'wide'", "finite"),
    (lambda: toy_fit().save(""), "dir is ''", "path"),
    (lambda: toy_fit().plot(components=-1), "components is -1", "whole number"),
    (lambda: toy_fit().predict_proba([[1.0]]), "predicts no classes", "fit a classifier"),
    (lambda: classifier().predict_proba([[1.0]]), "X has 1 columns", "the same features"),
    (lambda: classifier().predict_proba([1.0, 2.0]), "X has shape", "2 dimension"),
    (lambda: classifier().predict_proba([[1.0, np.nan]]), r"X\[0, 1\] is nan", "fill in"),
    (lambda: classifier().predict_proba([[1.0, 2.0]], unknown="maybe"), "unknown is 'maybe'", "'reference'"),
    (lambda: classifier().predict_interval([[1.0, 2.0]], level=2), "level is 2", "between 0 and 1"),
    (logistic(y=[0, 1]), "y has 2 labels", "one label per row"),
    (logistic(y=[1] * 6), "y has 1 class", "give 2"),
    (logistic(y=[0, 1, 2] * 2), "y has 3 classes", "MultinomialRegression"),
    (logistic(X=X[:, 0]), r"X has shape \(6,\)", "2 dimension"),
    (logistic(X=X + 1j), "X has dtype complex128", "real numbers"),
    (logistic(feature_names=["a"]), "feature_names has 1 names", "give 2"),
    (logistic(feature_names=["a", "a"]), "feature_names has .*'a' twice", "distinct"),
    (logistic(prior_variance=-1, learn="mean"), "prior_variance=-1", "positive|above 0|use"),
    (logistic(learn="all"), "learn", "mean|variance"),
    (logistic(intercept="no"), "intercept is 'no'", "True or False"),
    (logistic(test_fraction=1.5), "test_fraction=1.5 is not a fraction", "from 0 up to"),
    (logistic(weights=[1.0]), "1 weights for 6 rows", "one for each"),
    (logistic(reference=["a"]), "reference", "mapping"),
    (lambda: motes.Hierarchical([]), r"y has shape \(0,\)", "at least one"),
    (lambda: motes.Hierarchical([1.0, np.inf]), r"y\[1\] is inf", "fill in"),
    (lambda: motes.Hierarchical.generate(dim=2.5), "dim is 2.5", "whole number"),
    (lambda: motes.LogisticRegression.wisconsin(prior_varience=2.0), "prior_varience", "did you mean prior_variance"),
    (lambda: motes.BayesianNeuralNetwork(X, Y, hidden=0), "hidden is 0", "whole number"),
    (lambda: motes.Generator(np.zeros((2, 3))), r"images has shape \(2, 3\)", "give"),
    (own(d_theta=0), "d_theta is 0", "whole number"),
    (own(gradients=None), "gradients is None", "callable"),
    (own(log_density=3), "log_density is 3", "callable"),
    (own(m_step=print), "statistics and m_step", "both or neither"),
    (own(names=["a", "b"]), "names of theta has 2 names", "give 1"),
    (own(names={"z": ["a"]}), "names has the keys", "'theta' and 'x'"),
    (own(name=""), "name is ''", "word"),
    (own(name="logistic"), "name 'logistic'", "choose another"),
    (own(start=[1.0, 2.0]), "start has 2 values", "one for each"),
    (own(theta_terms=[1.0, 2.0]), "theta_terms has 2 values", "give one"),
    (own(default_step_size=0), "default_step_size is 0", "positive"),
    (own(groups=3, data_terms=3), "groups and data_terms", "leave data_terms out"),
    (own(scores="no"), "scores is 'no'", "True or False"),
    (run_own(lambda theta, x: 3), "gradients returned int", "return the pair"),
    (run_own(lambda theta, x: (x, x[:1])), r"grad_x of gradients returned shape \(1, 1\)", r"shape \(3, 1\)"),
    (run_own(lambda theta, x: ("a", x)), "grad_theta of gradients", "array of shape"),
    (run_own(groups=2, gradients=lambda theta, x, groups: (x[0], x[0])), "gradients returned shape", r"shape \(2, 3, 1\)"),
]
#: The same for dicts, constraints and groups.
NAMED = [
    (named(params=None), "params is None", "give a dict"),
    (named(params={}), "params is {}", "give a dict"),
    (named(params=motes.Real()), "params is one constraint", "give a dict"),
    (named(params={"m": motes.Real}), r"params\['m'\] is the class Real", "call it"),
    (named(params={"m": "real"}), r"params\['m'\] is 'real'", "give a shape, or Real"),
    (named(params={"m": -1}), r"params\['m'\] is -1", "give a shape"),
    (named(params={1: 2}), "params has the key 1", "give a name"),
    (named(params={"": 2}), "params has the key ''", "give a name"),
    (named(params={"m": (), "k": ()}), "'k'", "choose another"),
    (named(latent=None), "latent is missing", "give a dict"),
    (named(latent={}), "latent is {}", "give a dict"),
    (named(latent={"m": ()}), "'m' is both a parameter and a latent", "rename"),
    (named(latent={"u": "x"}), r"latent\['u'\] is 'x'", "give a shape"),
    (named(data=[1, 2]), "data is of type list", "give a dict"),
    (named(data={"y": np.arange(5.0)}), r"data\['y'\] has shape \(5,\)", "one entry a group"),
    (named(data={"y": 1.0}), r"data\['y'\] has shape \(\)", "one entry a group"),
    (named(data={"y": ["a"] * 4}), r"data\['y'\] has dtype", "give numbers"),
    (named(data={"y": [[1.0], [2.0, 3.0]]}), r"data\['y'\] is not an array", "give an array"),
    (named(data={1: np.arange(4.0)}), "data has the key 1", "give a name"),
    (named(groups=0), "groups is 0", "whole number"),
    (named(groups=2.5), "groups is 2.5", "number of groups"),
    (named(groups="abcd"), "groups is 'abcd'", "a name for each"),
    (named(groups=[]), "groups is empty", "a name for each"),
    (named(groups=["a", "a", "b", "c"]), "groups names a group twice", "by_group"),
    (named(groups=[["a", "b"], ["c", "d"]]), r"groups has shape \(2, 2\)", "a name for each"),
    (named(coords={"q": ["a"]}), "coords has 'q'", "correct it"),
    (named(coords={"m": ["a"]}), "coords has 'm'", "leave it out"),
    (named(coords=3), "coords is 3", "give a dict"),
    (named(params={"m": 2}, coords={"m": ["a"]}), r"coords\['m'\] has 1 names", "give 2"),
    (named(params={"m": 2}, coords={"m": ["a", "a"]}), r"coords\['m'\] has 'a' twice", "distinct"),
    (named(params={"m": (2, 2)}, coords={"m": [["a", "b"]]}), r"coords\['m'\] has 1 axes", "give 2"),
    (named(params={"m": 2}, coords={"m": 3}), r"coords\['m'\] is 3", "give a list"),
    (named(names=["a"]), "names does not go with params", "use coords"),
    (named(start=[1.0]), "start does not go with params", "init"),
    (named(d_theta=1), "d_theta", "leave these out"),
    (named(x64="yes"), "x64 is 'yes'", "True or False"),
    (named(name="logistic"), "name 'logistic'", "choose another"),
    (named(prior=3), "prior is 3", "callable"),
    (named(latent={"u": motes.Positive()}, prior=lambda p, z: z), "prior", "leave it out"),
    (named(log_joint=3), "log_joint is 3", "callable"),
    (named(log_joint=lambda p, u, row: jnp.zeros(2)), r"log_joint returned shape \(2,\)", "add up"),
    (named(log_joint=lambda p, u, row: "no"), "log_joint returned str", "return one number"),
    (named(log_joint=lambda p, u, row: None), "log_joint returned NoneType", "return one number"),
    (named(log_joint=lambda p, u, row: jnp.int32(1)), "log_joint returned int32", "real number"),
    (named(lambda p, u, row: p["q"]), "log_joint asks for 'q'", "params has m"),
    (named(lambda p, u, row: u["q"]), "log_joint asks for 'q'", "latent has u"),
    (named(lambda p, u, row: row["q"]), "log_joint asks for 'q'", "data has y"),
    (named(lambda p, u: 0.0), "log_joint", r"log_joint\(p, u, row\)"),
    (named(lambda p, u, row: -(u["u"] ** 2) if u["u"] > 0 else 0.0), "log_joint does what JAX cannot derive", "in place of if"),
    (named(lambda p, u, row: float(p["m"]) * u["u"]), "log_joint does what JAX cannot derive", "write it with jax.numpy"),
    (named(lambda p, u, row: jnp.asarray(np.exp(u["u"]))), "log_joint does what JAX cannot derive", "write it with jax.numpy"),
    (lambda: motes.fit(named(data={"y": [0.0, 1.0, np.nan, 2.0]})(), **FIT), "of group 2 starts .*init_theta", r"data\['y'\] has nan at \(2,\), of group 2; put a number there and .*a mask of 0"),
    (lambda: motes.Model.from_jax(density), "params and latent are missing", "d_theta and d_x"),
    (lambda: motes.Model.from_jax(density, 1, 1, groups=3), "groups", "params and latent|these"),
    (lambda: motes.Real(0), "shape of Real is 0", "whole number"),
    (lambda: motes.Real((2, -1)), "shape of Real is -1", "whole number"),
    (lambda: motes.Real("2"), "shape of Real is '2'", "whole number"),
    (lambda: motes.Positive(init=-1.0), "init is -1.0", "positive"),
    (lambda: motes.Positive(2, init=[1.0, 2.0, 3.0]), r"init has shape \(3,\)", r"give \(2,\)"),
    (lambda: motes.Positive(init=np.nan), "init", "fill in|finite"),
    (lambda: motes.Interval(1.0, 1.0), "low is 1.0 and high is 1.0", "smaller and a larger"),
    (lambda: motes.Interval(0.0, np.inf), "high is inf", "finite"),
    (lambda: motes.Interval(0.0, 1.0, init=2.0), "init leaves", "between them"),
    (lambda: motes.Simplex(1), "size of Simplex is 1", "2 or more"),
    (lambda: motes.Simplex(2, init=[0.5, 0.6]), "init is", "add up to 1"),
    (lambda: motes.Ordered(2, init=[1.0, 0.0]), "init is", "increase"),
    (lambda: motes.CholeskyCorr(1), "size of CholeskyCorr is 1", "2 or more"),
    (lambda: motes.CholeskyCorr(2, init=[[1, 0], [1, 1]]), "init has rows", "Cholesky"),
    (lambda: motes.CovarianceCholesky(2, init=[[1, 1], [0, 1]]), "init has numbers above", "lower triangle"),
    (lambda: motes.CovarianceCholesky(2, init=-np.eye(2)), "init has no positive diagonal", "Cholesky"),
    (lambda: motes.by_group([1, 2], y=[1.0]), r"y has shape \(1,\)", "one value per row"),
    (lambda: motes.by_group([], y=[]), "index has shape", "the group of each row"),
    (lambda: motes.by_group([1.0, np.nan], y=[1.0, 2.0]), "index holds", "fill in"),
    (lambda: motes.by_group([1], mask=[1.0]), "mask", "rename"),
    (lambda: motes.by_group([1], y=["a"]), "y has dtype", "give numbers"),
    (named_fit(init={"q": 1.0}), "init has the key 'q'", "give some of m"),
    (named_fit(init={"m": [1.0, 2.0]}), r"init\['m'\] has shape \(2,\)", r"give \(\)"),
    (named_fit(init={"m": np.nan}), r"init\['m'\]", "fill in|finite"),
    (named_fit(init=[1.0, 2.0]), "init_theta has 2 numbers", "a number for each"),
    (named_fit(init=lambda random: "x"), "init", "give real numbers|dict"),
    (lambda: motes.fit(named_model(), init=classifier(), **FIT), "init is a fit with the parameters", "same model"),
]


def spoken(case):
    return f"{case[1]} -> {case[2]}"


@pytest.mark.parametrize("call, names, remedy", GENERAL + NAMED, ids=map(spoken, GENERAL + NAMED))
def test_wrong_calls(call, names, remedy):
    with pytest.raises(ValueError) as told:
        call()
    sentence = str(told.value)
    assert re.search(names, sentence), sentence
    assert "\n" not in sentence and "`" not in sentence and "Traceback" not in sentence, sentence
    # The remedy comes last.
    assert re.search(remedy, re.split("[;,:]", sentence, maxsplit=1)[-1]), sentence


@pytest.mark.parametrize(
    "call",
    [
        lambda: motes.load("nowhere"),
        lambda: motes.resume("nowhere"),
        lambda: motes.LogisticRegression.from_csv("nowhere"),
        lambda: motes.Hierarchical.from_csv("nowhere"),
        lambda: motes.BayesianNeuralNetwork.from_csv("nowhere"),
        lambda: motes.MultinomialRegression.from_csv("nowhere"),
        lambda: motes.Generator.from_path("nowhere"),
        lambda: motes.fit(toy(), algorithm="pgd", steps=2, init_theta="nowhere", progress=False),
    ],
)
def test_missing_files_are_not_found(call):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        call()


def test_the_table_is_as_long_as_was_promised():
    assert len(GENERAL) + len(NAMED) >= 150 and len(NAMED) >= 50
