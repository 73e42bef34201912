"""Models of one's own beside NumPyro, Bambi and statsmodels: error against the exact maximum of the likelihood, seconds, lines of code.

    python bench/own_models.py                       # everything
    python bench/own_models.py times                 # Motes alone, and what was asked of it
    python bench/own_models.py peers poisson nuts    # one problem, one peer; several may be named
    python bench/own_models.py steps                 # the cost of a step beside one jitted lax.scan, and of from_torch

It needs JAX, PyTorch, SciPy, NumPyro, Bambi and statsmodels where they are named. The truth is the likelihood with each group's effect
integrated out by Gauss-Hermite quadrature, maximised by Newton steps in double precision. Seconds include compilation; those of processors are of the whole process, with its
imports, and change less if others want the machine too.
"""

from __future__ import annotations

import inspect
import json
import resource
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np


def poisson(groups=1000, rows=6):
    """Counts of groups with a random intercept: y ~ Poisson(exp(b0 + b1 x + sd u))."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(groups, rows))
    y = rng.poisson(np.exp(0.5 + 0.4 * x + 0.6 * rng.normal(size=(groups, 1)))).astype(float)
    return {"x": x, "y": y}


def logistic(groups=3500, rows=26):
    """Answers of groups with a random intercept: y ~ Bernoulli(sigmoid(b0 + b1 x + sd u))."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(groups, rows))
    eta = -0.3 + 0.7 * x + 0.9 * rng.normal(size=(groups, 1))
    return {"x": x, "y": (rng.uniform(size=eta.shape) < 1 / (1 + np.exp(-eta))).astype(float)}


def irt(people=500, items=20):
    """Item response theory, 2PL: y ~ Bernoulli(sigmoid(a_i u - b_i))."""
    rng = np.random.default_rng(3)
    a, b = rng.uniform(0.7, 1.7, items), rng.normal(size=items)
    eta = a * rng.normal(size=(people, 1)) - b
    return {"y": (rng.uniform(size=eta.shape) < 1 / (1 + np.exp(-eta))).astype(float)}


PROBLEMS = {"poisson": poisson, "logistic": logistic, "irt": irt}
#: Seconds asked of Motes, on two cores.
ASKED = {"poisson": 5.0, "logistic": 15.0, "irt": 5.0}


def log_terms(problem, theta, data, u):
    """log p(y_g | u) of each group at nodes u; theta = (b0, b1, log sd), or (log a, b)."""
    import jax.numpy as jnp

    y = data["y"]
    if problem == "irt":
        items = y.shape[1]
        eta = jnp.exp(theta[:items, None]) * u - theta[items:, None]
        return y @ eta - jnp.logaddexp(0.0, eta).sum(axis=0)
    linear = theta[0] + theta[1] * data["x"]
    if problem == "poisson":
        effect = jnp.exp(theta[2]) * u
        return (y * linear).sum(axis=1)[:, None] + y.sum(axis=1)[:, None] * effect - jnp.exp(linear).sum(axis=1)[:, None] * jnp.exp(effect)
    # Node by node: all at once would be a gigabyte.
    import jax

    def at(node):
        eta = linear + jnp.exp(theta[2]) * node
        return (y * eta - jnp.logaddexp(0.0, eta)).sum(axis=1)

    return jax.lax.map(at, u).T


def exact(problem, data):
    """The maximum of the likelihood and standard errors, on the free scale."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        log_weights = np.log(weights / weights.sum())

        def loglik(theta):
            return jax.scipy.special.logsumexp(log_terms(problem, theta, data, jnp.asarray(nodes)) + log_weights, axis=1).sum()

        value, gradient, hessian = jax.jit(loglik), jax.jit(jax.grad(loglik)), jax.jit(jax.jacfwd(jax.grad(loglik)))
        theta = np.zeros(2 * data["y"].shape[1] if problem == "irt" else 3)
        for _ in range(30):
            # Newton steps of a curvature that is made negative, and halved until they lead upwards.
            curvature, basis = np.linalg.eigh(np.asarray(hessian(theta)))
            step = basis @ ((basis.T @ np.asarray(gradient(theta))) / np.maximum(np.abs(curvature), 1.0))
            while value(theta + step) < value(theta) - 1e-9:
                step = step / 2
            theta = theta + step
        assert np.abs(gradient(theta)).max() < 1e-4
        return theta, np.sqrt(np.diag(np.linalg.inv(-hessian(theta))))


def by_motes(problem, data):
    import jax.numpy as jnp

    import motes

    groups = len(data["y"])
    if problem == "irt":
        items = data["y"].shape[1]

        def log_joint(p, u, row):
            eta = p["a"] * u["u"] - p["b"]
            return jnp.sum(row["y"] * eta - jnp.logaddexp(0.0, eta)) - 0.5 * u["u"] ** 2

        params = {"a": motes.Positive(items), "b": motes.Real(items)}
    else:

        def log_joint(p, u, row):
            eta = p["b"][0] + p["b"][1] * row["x"] + p["sd"] * u["u"]
            mean = jnp.exp(eta) if problem == "poisson" else jnp.logaddexp(0.0, eta)
            return jnp.sum(row["y"] * eta - mean) - 0.5 * u["u"] ** 2

        params = {"b": motes.Real(2), "sd": motes.Positive()}
    model = motes.Model.from_jax(log_joint, params=params, latent={"u": ()}, data=data, groups=groups)
    fit = motes.fit(model, progress=False)
    return fit.theta_mean, fit.covariance.diagonal() ** 0.5, fit.verdict


def numpyro_model(problem):
    """Flat priors, so that the mode of the marginal posterior is the maximum of the likelihood."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    def flat(name, size, over=dist.constraints.real):
        return numpyro.sample(name, dist.ImproperUniform(over, (), event_shape=(size,)))

    positive = dist.constraints.independent(dist.constraints.positive, 1)

    def model(y, x=None):
        u = numpyro.sample("u", dist.Normal(jnp.zeros(len(y)), 1.0).to_event(1))
        if problem == "irt":
            items = y.shape[1]
            eta = flat("a", items, positive) * u[:, None] - flat("b", items)
        else:
            b, sd = flat("b", 2), flat("sd", 1, positive)
            eta = b[0] + b[1] * x + sd * u[:, None]
        likelihood = dist.Poisson(jnp.exp(eta)) if problem == "poisson" else dist.Bernoulli(logits=eta)
        numpyro.sample("y", likelihood, obs=y)

    return model


def by_nuts(problem, data):
    import jax
    from numpyro.infer import MCMC, NUTS

    mcmc = MCMC(NUTS(numpyro_model(problem)), num_warmup=500, num_samples=500, progress_bar=False)
    mcmc.run(jax.random.PRNGKey(0), **data)
    draws = mcmc.get_samples()
    theta = np.concatenate([draws[n] if n == "b" else np.log(draws[n]) for n in ("a", "b", "sd") if n in draws], axis=1)
    return theta.mean(axis=0), theta.std(axis=0), "posterior means"


def by_svi(problem, data):
    import jax
    from numpyro.infer import SVI, Trace_ELBO, autoguide, init_to_feasible
    from numpyro.optim import Adam

    guide = autoguide.AutoNormal(numpyro_model(problem), init_loc_fn=init_to_feasible)
    svi = SVI(numpyro_model(problem), guide, Adam(0.01), Trace_ELBO())
    done = svi.run(jax.random.PRNGKey(0), 5000, progress_bar=False, **data)
    means, spreads = (
        np.concatenate([np.asarray(done.params[f"{n}_auto_{what}"]) for n in ("a", "b", "sd") if f"{n}_auto_{what}" in done.params])
        for what in ("loc", "scale")
    )
    return means, spreads, "5,000 steps of Adam"


def frame(data):
    import pandas as pd

    groups, rows = data["y"].shape
    return pd.DataFrame({"y": data["y"].ravel(), "x": data["x"].ravel(), "g": np.repeat(np.arange(groups), rows)})


def by_bambi(problem, data):
    import bambi

    model = bambi.Model("y ~ x + (1 | g)", frame(data), family="poisson" if problem == "poisson" else "bernoulli")
    found = model.fit(draws=500, tune=500, chains=2, cores=2, progressbar=False, random_seed=0).posterior
    draws = [found["Intercept"], found["x"], np.log(found["1|g_sigma"])]
    return np.array([float(d.mean()) for d in draws]), np.array([float(d.std()) for d in draws]), "posterior means"


def by_statsmodels(problem, data):
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM, PoissonBayesMixedGLM

    kind = PoissonBayesMixedGLM if problem == "poisson" else BinomialBayesMixedGLM
    model = kind.from_formula("y ~ x", {"g": "0 + C(g)"}, frame(data), vcp_p=3, fe_p=10)
    found = model.fit_vb()
    return np.concatenate([found.fe_mean, found.vcp_mean]), np.concatenate([found.fe_sd, found.vcp_sd]), "variational Bayes"


PEERS = {"motes": by_motes, "svi": by_svi, "nuts": by_nuts, "bambi": by_bambi, "statsmodels": by_statsmodels}
#: The problems that a formula can say, and that take less than hours there.
APPLIES = {"bambi": ["poisson"], "statsmodels": ["poisson"]}


def lines(peer):
    """Lines that a user writes: those of the function and of its model, without this file's own choices between problems."""
    parts = [PEERS[peer]] + ([numpyro_model] if peer in ("svi", "nuts") else []) + ([frame] if peer in ("bambi", "statsmodels") else [])
    skip = ('"""', "if problem", "else:", "#")
    text = [line.strip() for f in parts for line in textwrap.dedent(inspect.getsource(f)).splitlines()]
    return sum(bool(line) and not line.startswith(skip) for line in text)


def one(problem, peer):
    """Fits, in a process of its own, so that nothing is compiled before."""
    warnings.simplefilter("ignore")
    data = PROBLEMS[problem]()
    began = time.perf_counter()
    theta, se, note = PEERS[peer](problem, data)
    seconds, cpu = time.perf_counter() - began, sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()  # of what was traced in single precision
    truth, truth_se = exact(problem, data)
    apart, ratio = np.abs(theta - truth) / truth_se, se / truth_se
    told = dict(error=apart.max(), low=ratio.min(), high=ratio.max(), seconds=seconds, cpu=cpu, note=note)
    print(json.dumps({k: v if isinstance(v, str) else float(v) for k, v in told.items()}))


def table(problems, peers):
    print("| problem | | error / SE | SE ratio | seconds | of processors | lines | |\n|---|---|---:|---|---:|---:|---:|---|")
    for problem in problems:
        for peer in peers:
            if problem not in APPLIES.get(peer, PROBLEMS):
                continue
            done = subprocess.run([sys.executable, __file__, "one", problem, peer], capture_output=True, text=True)
            if done.returncode != 0:
                print(f"| {problem} | {peer} | | | | | | {(done.stderr.strip().splitlines() or ['failed'])[-1][:100]} |", flush=True)
                continue
            r = json.loads(done.stdout.strip().splitlines()[-1])
            asked = f"; asked: {ASKED[problem]:g} s" if peer == "motes" else ""
            numbers = f"{r['error']:.3f} | {r['low']:.2f}-{r['high']:.2f} | {r['seconds']:.1f} | {r['cpu']:.1f} | {lines(peer)}"
            print(f"| {problem} | {peer} | {numbers} | {r['note']}{asked} |", flush=True)


def main(words):
    if words[:1] == ["one"]:
        return one(*words[1:])
    if words[:1] == ["times"]:
        return table([w for w in words if w in PROBLEMS] or PROBLEMS, ["motes"])
    if words[:1] in ([], ["peers"]):
        table([w for w in words if w in PROBLEMS] or PROBLEMS, [w for w in words if w in PEERS] or PEERS)
    if words[:1] in ([], ["steps"]):
        import own_steps

        own_steps.main()


if __name__ == "__main__":
    main(sys.argv[1:])
