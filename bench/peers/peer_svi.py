"""Variational EM in NumPyro: theta as parameters, a Gaussian guide over the latent variables, both moved by Adam on the ELBO.

Theta and its truth come from `cargo bench -p motes-models --bench auto -- data MODEL`, in the file of --truth. A whole run is one
compiled scan that returns theta at each step; the estimate is the mean over the second half of the steps so far,
and of three seeds the median counts.
"""
import argparse, json, os, time
from pathlib import Path

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
import jax, jax.numpy as jnp, numpy as np, numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal, AutoNormal

numpyro.enable_x64()
BED = Path(__file__).resolve().parents[2] / 'crates/motes-models/tests/bed/data'
WITHIN = 0.2
SEEDS = 3


def table(name):
    text = (BED / name).read_text().replace('Yes', '1').replace('No', '0')
    return np.array([[float(cell) for cell in line.split(',')] for line in text.splitlines()[1:]])


def cbpp(_):
    herd, y, n, period = table('cbpp.csv').T
    z = np.stack([np.ones_like(y), *(period == k for k in (2, 3, 4))], 1)
    herds, of = np.unique(herd, return_inverse=True)

    def model():
        theta = numpyro.param('theta', jnp.zeros(5))
        with numpyro.plate('herds', len(herds)):
            x = numpyro.sample('x', dist.Normal(0.0, jnp.exp(theta[4])))
        with numpyro.plate('rows', len(y)):
            numpyro.sample('y', dist.Binomial(n.astype(int), logits=z @ theta[:4] + x[of]), obs=y)
    return model


def irt(truth):
    items = len(truth['theta']) // 2
    y = np.array(truth['answers']).reshape(-1, items)

    def model():
        theta = numpyro.param('theta', jnp.concatenate([jnp.ones(items), jnp.zeros(items)]))
        with numpyro.plate('persons', len(y)):
            x = numpyro.sample('x', dist.Normal(0.0, 1.0))
            numpyro.sample('y', dist.Bernoulli(logits=x[:, None] * theta[:items] + theta[items:]).to_event(1), obs=y)
    return model


def pima(_):
    rows = table('pima.csv')
    z, y = rows[:, :-1], rows[:, -1]
    z = np.hstack([np.ones((len(y), 1)), (z - z.mean(0)) / z.std(0, ddof=1)])

    def model():
        theta = numpyro.param('theta', jnp.zeros(1))
        x = numpyro.sample('x', dist.Normal(theta[0] * jnp.ones(8), np.sqrt(5.0)).to_event(1))
        with numpyro.plate('rows', len(y)):
            numpyro.sample('y', dist.Bernoulli(logits=z @ x), obs=y)
    return model


MODELS = {'cbpp': cbpp, 'irt-40': irt, 'pima': pima}
GUIDES = {'normal': AutoNormal, 'full': AutoMultivariateNormal}


class Compiled:
    """A run of so many steps, compiled once for all learning rates."""

    def __init__(self, model, guide, particles, steps):
        cell = {}
        svi = SVI(model, GUIDES[guide](model), numpyro.optim.Adam(lambda _: cell['rate']), Trace_ELBO(num_particles=particles))
        self.firsts, self.steps = [svi.init(jax.random.PRNGKey(seed)) for seed in range(SEEDS)], steps

        def step(state, _):
            state, _ = svi.update(state)
            return state, svi.get_params(state)['theta']

        def whole(state, rate):
            cell['rate'] = rate
            return jax.lax.scan(step, state, None, length=steps)[1]

        began = time.perf_counter()
        self.whole = jax.jit(whole).lower(self.firsts[0], 0.01).compile()
        self.compilation = time.perf_counter() - began

    def needed(self, path, truth):
        """Steps until the tail mean stays near the truth, or infinitely many, and its error at the end."""
        sums = np.vstack([np.zeros(path.shape[1]), path.cumsum(0)])
        k = np.arange(1, self.steps + 1)
        means = (sums[k] - sums[k // 2]) / (k - k // 2)[:, None]
        errors = np.abs((means - truth['theta']) / truth['se']).max(1)
        errors = np.where(np.isnan(errors), np.inf, errors)
        outside = np.flatnonzero(errors > WITHIN)
        first = int(outside[-1]) + 2 if len(outside) else 1
        return first if first <= self.steps else np.inf, float(errors[-1])

    def run(self, rate, truth):
        seconds, found = [], []
        for first in self.firsts:
            began = time.perf_counter()
            path = np.asarray(self.whole(first, rate).block_until_ready())
            seconds.append(time.perf_counter() - began)
            found.append(self.needed(path, truth))
        needed, error = (float(np.median(values)) for values in zip(*found))
        per_step = min(seconds) / self.steps
        there = np.isfinite(needed)
        return dict(steps=self.steps, needed=needed if there else None, seconds=per_step * needed if there else None,
                    seconds_per_step=per_step, compilation=self.compilation, error_at_end=error)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument('--model', choices=MODELS, required=True)
    ap.add_argument('--truth', type=Path, required=True)
    ap.add_argument('--steps', type=int, default=10000)
    ap.add_argument('--settings', default='', help='GUIDE,RATE,PARTICLES; several with spaces between; all if left out')
    a = ap.parse_args()
    truth = json.loads(a.truth.read_text())
    truth = {key: np.array(value) if key in ('theta', 'se') else value for key, value in truth.items()}
    guides = ['normal', 'full'] if a.model == 'pima' else ['normal']  # elsewhere posteriors are products of one-dimensional ones
    grid = [(g, rate, n) for g in guides for rate in (0.003, 0.01, 0.03, 0.1) for n in (1, 10)]
    if a.settings:
        grid = [(g, float(rate), int(n)) for g, rate, n in (s.split(',') for s in a.settings.split())]
    compiled = {}
    for g, rate, n in grid:
        if (g, n) not in compiled:
            compiled[g, n] = Compiled(MODELS[a.model](truth), g, n, a.steps)
        print(json.dumps(dict(guide=g, rate=rate, particles=n, **compiled[g, n].run(rate, truth))), flush=True)


main()
