"""The cost of a step of pgd on a model of one's own: beside one jitted lax.scan of the same algorithm, and with PyTorch.

Milliseconds a step, by the difference of a long and a short run, so that compilation does not count. Both sides take turns; the least of
so many rounds counts, on the clock and of the processors.
"""

from __future__ import annotations

import math
import time
import warnings

import numpy as np

H, PARTICLES, ROUNDS = 1e-6, 32, 8


def problem(groups, rows=6):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(groups, rows))
    return {"x": x, "y": rng.poisson(np.exp(0.5 + 0.4 * x)).astype(float)}


def density(lib):
    def log_joint(p, u, row):
        eta = p["b"][0] + p["b"][1] * row["x"] + lib.exp(p["s"]) * u["u"]
        return lib.sum(row["y"] * eta - lib.exp(eta)) - 0.5 * u["u"] ** 2

    return log_joint


def by_motes(make, data):
    """Makes so many steps of a fit."""
    import motes

    model = make(data, len(data["y"]))

    def run(steps):
        settings = dict(particles=PARTICLES, steps=steps, step_size=H, trace_every=steps, keep_clouds=0, no_assess=True)
        motes.fit(model, "pgd", progress=False, **settings)

    run(2)
    return run


def least(sides, short, long):
    """Milliseconds a step of each side, on the clock and of the processors."""
    told = [{short: [], long: []} for _ in sides]
    for _ in range(ROUNDS):
        for run, seen in zip(sides, told):
            for steps in (short, long):
                began = time.perf_counter(), time.process_time()
                run(steps)
                seen[steps].append((time.perf_counter() - began[0], time.process_time() - began[1]))
    differ = [np.min(seen[long], axis=0) - np.min(seen[short], axis=0) for seen in told]
    return [1e3 * apart / (long - short) for apart in differ]


def of_jax(data, groups):
    import jax.numpy as jnp

    import motes

    return motes.Model.from_jax(density(jnp), params={"b": 2, "s": ()}, latent={"u": ()}, data=data, groups=groups)


def of_torch(data, groups):
    import torch

    import motes

    return motes.Model.from_torch(density(torch), params={"b": 2, "s": ()}, latent={"u": ()}, data=data, groups=groups)


def by_scan(data, counts):
    """The same steps in one compiled loop, for so many of them."""
    import jax
    import jax.numpy as jnp

    data = {name: jnp.asarray(value) for name, value in data.items()}
    groups, one = len(data["y"]), density(jnp)

    def total(theta, x):
        def of(u, row):
            return one({"b": theta[:2], "s": theta[2]}, {"u": u}, row)

        return jax.vmap(jax.vmap(of, in_axes=(0, None)))(x, data).sum()

    def step(carry, key):
        theta, x = carry
        of_theta, of_x = jax.grad(total, argnums=(0, 1))(theta, x)
        x = x + H * of_x + math.sqrt(2 * H) * jax.random.normal(key, x.shape)
        return (theta + H * of_theta / PARTICLES, x), theta

    scan = jax.jit(lambda keys: jax.lax.scan(step, (jnp.zeros(3), jnp.zeros((groups, PARTICLES))), keys))
    keys = {steps: jax.random.split(jax.random.PRNGKey(0), steps) for steps in counts}

    def run(steps):
        jax.block_until_ready(scan(keys[steps]))

    for steps in counts:
        run(steps)
    return run


def torch_alone(data):
    """Milliseconds of PyTorch's own part of a step: the derivatives that it is asked for."""
    model = of_torch(data, len(data["y"]))
    theta, x = np.zeros(3), np.zeros((len(data["y"]), PARTICLES, 1))

    def once():
        began = time.perf_counter()
        model._evaluate(theta, x, None, ("grad_x", "grad_theta"))
        return time.perf_counter() - began

    return 1e3 * min(once() for _ in range(30))


def main():
    warnings.simplefilter("ignore")
    print("| groups x 32 particles x 6 rows | Motes, ms a step | jitted lax.scan | ratio | on top | of processors | lax.scan | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for groups, short, long in ((20, 200, 2200), (1000, 20, 320), (10_000, 5, 35)):
        data = problem(groups)
        (mine, own), (scan, its) = least([by_motes(of_jax, data), by_scan(data, (short, long))], short, long)
        clock = f"{mine:.3f} | {scan:.3f} | {mine / scan:.2f} | {1e3 * (mine - scan):.0f} us"
        print(f"| {groups} | {clock} | {own:.3f} | {its:.3f} | {own / its:.2f} |", flush=True)
    data = problem(20)
    ((mine, _),), alone = least([by_motes(of_torch, data)], 50, 350), torch_alone(data)
    print(f"\nfrom_torch, 20 groups: {mine:.3f} ms a step, of which PyTorch takes {alone:.3f}; {mine - alone:.3f} on top")
