"""Decoders of one's own in JAX, against closed forms, against those in PyTorch, and as strangers would use them."""

import pickle

import numpy as np
import pytest
from conftest import paper
from linear_decoder import ROWS, rests

import motes

jax = pytest.importorskip("jax")
jnp = jax.numpy

import motes.jax  # noqa: E402


def line(w, z):
    return z @ w.T


def posterior_of_a_line(phi, y):
    return y @ phi["mean"].T, jnp.broadcast_to(phi["log_variance"], (len(y), 2))


@pytest.mark.parametrize("algorithm", ROWS)
def test_a_linear_decoder_comes_to_rest_where_it_must(algorithm):
    def made(data, seed):
        random = np.random.default_rng(seed)
        start = random.uniform(-0.7, 0.7, size=(3, 2)).astype(np.float32)
        phi = {"log_variance": np.zeros(2, np.float32), "mean": random.uniform(-0.5, 0.5, size=(2, 3)).astype(np.float32)}
        return motes.jax.Decoder(line, start, data, latent=2, sigma=1.0, encoder=(posterior_of_a_line, phi))

    rests(made, algorithm)


def two_layers(p, z):
    return jnp.tanh(z @ p["in"]["w"] + p["in"]["b"]) @ p["out"][0] + p["out"][1]


def weights(seed=0, dtype=np.float32, columns=3):
    random = np.random.default_rng(seed)

    def some(*shape):
        return (0.5 * random.normal(size=shape)).astype(dtype)

    return {"in": {"b": some(8), "w": some(2, 8)}, "out": (some(8, columns), some(columns))}


def encoder(phi, y):
    return y @ phi  # means and logarithms of variances side by side


def table(rows=40, columns=3, seed=0):
    return np.random.default_rng(seed).uniform(size=(rows, columns)).astype(np.float32)


def small(data=None, sigma=0.5, dtype=np.float32, **given):
    if "likelihood" not in given:
        given["sigma"] = sigma
    phi = 0.1 * np.random.default_rng(1).normal(size=(3, 4)).astype(dtype)
    return motes.jax.Decoder(two_layers, weights(dtype=dtype), table() if data is None else data, 2, encoder=(encoder, phi), **given)


LIKELIHOODS = {
    "gaussian": dict(sigma=0.5),
    "bernoulli": dict(likelihood="bernoulli"),
    "rows": dict(likelihood=lambda output, y: -((output - y) ** 2).sum(1)),
    "values": dict(likelihood=lambda output, y: -(jnp.abs(output - y) ** 1.5)),
}


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_gradients_are_those_of_the_log_density(likelihood, x64):
    checks = motes.check_model(small(table().astype(float), dtype=float, **LIKELIHOODS[likelihood]))
    assert checks.ok and len(checks) >= 2, checks


@pytest.mark.parametrize("algorithm", ["pgd", "abp", "short-run", "vae"])
def test_both_libraries_make_the_same_steps(algorithm):
    torch = pytest.importorskip("torch")
    import motes.torch

    start, phi = weights(), 0.1 * np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    inference = torch.nn.Linear(3, 4, bias=False)
    with torch.no_grad():
        for layer, (w, b) in ((module[0], (start["in"]["w"], start["in"]["b"])), (module[2], start["out"])):
            layer.weight.copy_(torch.from_numpy(w.T.copy()))
            layer.bias.copy_(torch.from_numpy(b))
        inference.weight.copy_(torch.from_numpy(phi.T.copy()))
    theirs = motes.torch.Decoder(module, table(), latent=2, sigma=0.5, encoder=inference)
    settings = dict(steps=20, batch=15, theta_rate=1e-3, seed=4, particles=3)
    ours, theirs = (paper(decoder, algorithm, **settings) for decoder in (small(), theirs))
    # The same noise; they differ by rounding alone.
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-4)
    np.testing.assert_allclose(ours.latents, theirs.latents, atol=1e-3 * np.abs(theirs.latents).max())
    np.testing.assert_allclose(ours.params["in"]["w"], theirs.params["0.weight"].numpy().T, atol=1e-4)
    assert abs(ours.loss / ours.loss[0] - 1).max() > 0.05
    z = ours.latents[:4]
    np.testing.assert_allclose(ours.decode(z), theirs.decode(z), atol=1e-3)


@pytest.mark.parametrize("algorithm", ["pgd", "abp", "short-run", "vae"])
def test_a_fit_in_parts_is_the_same_fit(algorithm, tmp_path):
    settings = dict(batch=16, theta_rate=1e-2, seed=3, burn_in=5)
    whole = paper(small(), algorithm, steps=12, **settings)
    part = paper(small(), algorithm, steps=7, out=tmp_path / "run", report=False, **settings)
    for fit in (motes.load(tmp_path / "run", small()).resume(12, progress=False), part.resume(12, progress=False)):
        for name in ("theta", "particles", "loss"):
            np.testing.assert_array_equal(getattr(fit, name), getattr(whole, name))
    assert not np.array_equal(whole.theta, np.array(small().start)[: len(whole.theta)])
    with pytest.raises(ValueError, match="the data have changed"):
        motes.load(tmp_path / "run", small(table(seed=1)))
    with pytest.raises(ValueError, match="the model was made with sigma = 0.5.* and now has 0.7"):
        motes.load(tmp_path / "run", small(sigma=0.7))


def test_latents_of_new_data_are_those_of_the_closed_form():
    sigma, n, random = 0.7, 400, np.random.default_rng(2)
    w = random.normal(size=(4, 2))
    data = random.normal(size=(30, 2)) @ w.T + sigma * random.normal(size=(30, 4))
    fit = paper(motes.jax.Decoder(line, w, data, 2, sigma=sigma), steps=2, theta_rate=1e-300, particles=3)
    draws = fit.infer(data[:5], particles=n, steps=300, progress=False)
    covariance = np.linalg.inv(np.eye(2) + w.T @ w / sigma**2)
    mean = data[:5] @ w @ covariance / sigma**2
    assert (abs(draws.mean(axis=1) - mean) < 4 * np.sqrt(np.diag(covariance) / n)).all()
    pooled = (draws - mean[:, None]).reshape(-1, 2)
    assert (abs(pooled.T @ pooled / len(pooled) - covariance) < 0.13 * np.sqrt(np.outer(*[np.diag(covariance)] * 2))).all()
    holes = data.copy()
    holes[:, 3] = np.nan
    seen = w[:3]
    best = data[:, :3] @ seen @ np.linalg.inv(np.eye(2) + seen.T @ seen / sigma**2) / sigma**2
    np.testing.assert_allclose(fit.inpaint(holes, progress=False), best @ w.T, atol=0.02)


def test_what_a_fit_has_and_leaves(tmp_path):
    images = np.random.default_rng(0).uniform(size=(20, 6, 5)).astype(np.float32)

    def module(p, z):
        return (z @ p["w"]).reshape(-1, 6, 5)

    w = np.random.default_rng(1).normal(size=(2, 30)).astype(np.float32)
    decoder = motes.jax.Decoder(module, {"w": w}, images, 2, likelihood="bernoulli", labels=np.arange(20) % 2)
    assert repr(decoder).endswith("data=20, latent=2, parameters=60)")
    fit = paper(decoder, epochs=2, batch=10, out=tmp_path / "run", report=False)
    assert fit.steps == 4 and fit.latents.shape == (20, 10, 2) and fit.theta_names[0] == "w[0]"
    for name in ("pictures/reconstructions.png", "pictures/samples.png", "weights.safetensors"):
        assert (tmp_path / "run" / name).stat().st_size > 100
    assert b'"w": {"dtype": "F32", "shape": [2, 30]' in (tmp_path / "run" / "weights.safetensors").read_bytes()
    z = fit.latents[:3, 0]
    np.testing.assert_allclose(fit.params["w"].ravel(), fit.theta, rtol=1e-6)
    np.testing.assert_allclose(fit.decode(z), 1 / (1 + np.exp(-np.asarray(fit.module(z)))), rtol=1e-5)
    for source in ("prior", "gaussian", "mixture", "labels"):
        assert fit.synthesize(5, source=source).shape == (5, 6, 5)
    assert fit.interpolate(0, 3, 4).shape == (4, 6, 5)
    several = motes.fit(decoder, epochs=1, replicates=2, progress=False)
    assert not np.array_equal(several[0].params["w"], several[1].params["w"])
    paper(decoder, epochs=3, seed=9)  # which leaves other fits as they are
    np.testing.assert_allclose(fit.params["w"].ravel(), fit.theta, rtol=1e-6)


def test_fits_can_be_pickled():
    fit = paper(motes.jax.Decoder(line, np.ones((3, 2), np.float32), table(), 2), epochs=2)
    copy = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(copy.decode(np.ones((2, 2))), fit.decode(np.ones((2, 2))))
    np.testing.assert_array_equal(copy.resume(epochs=4, progress=False).theta, fit.resume(epochs=4, progress=False).theta)


def test_a_module_of_flax_needs_its_apply_and_its_parameters():
    nn = pytest.importorskip("flax.linen")

    class Module(nn.Module):
        norm: bool = False

        @nn.compact
        def __call__(self, z):
            h = nn.Dense(8)(z)
            h = nn.BatchNorm(use_running_average=True)(h) if self.norm else nn.LayerNorm()(h)
            return nn.Dense(3)(nn.tanh(h))

    module = Module()
    start = module.init(jax.random.key(0), jnp.ones((1, 2)))
    fit = paper(motes.jax.Decoder(module.apply, start, table(), latent=2, sigma=0.5), epochs=20, batch=20, theta_rate=1e-2)
    assert fit.loss[-4:].mean() < 0.8 * fit.loss[:4].mean()
    assert fit.theta_names[0] == "params.Dense_0.bias[0]"
    np.testing.assert_allclose(fit.decode(np.ones((2, 2))), module.apply(fit.params, jnp.ones((2, 2))), rtol=1e-5)
    module = Module(norm=True)
    with pytest.raises(ValueError, match="running statistics at batch_stats.BatchNorm_0.mean.*normalise by layer"):
        motes.jax.Decoder(module.apply, module.init(jax.random.key(0), jnp.ones((1, 2))), table(), latent=2)


WRONG = {
    "module is of type int; give a function": dict(module=3),
    "params holds no arrays": dict(params={}),
    "params holds int64 at in.b": dict(params={"in": {"b": np.arange(3)}}),
    "module returns rows of shape \\(3,\\) and data has rows of shape \\(4,\\)": dict(data=table(columns=4)),
    "module failed for latents of shape \\(4, 5\\)": dict(latent=5),
    "module returned tuple": dict(module=lambda p, z: (z, z)),
    "module returned \\(\\) for latents": dict(module=lambda p, z: z.sum()),
    "module returns values that are not finite": dict(module=lambda p, z: two_layers(p, z) / 0.0),
    "latent is 0": dict(latent=0),
    "data has shape \\(5,\\)": dict(data=np.zeros(5)),
    "data has dtype <U1": dict(data=np.array([["a", "b", "c"]])),
    "data holds nan at \\(2, 1\\)": dict(data=np.where(np.arange(120).reshape(40, 3) == 7, np.nan, table())),
    "data holds -1.0 at": dict(data=-np.ones((4, 3)), likelihood="bernoulli"),
    "sigma is 1.0 and belongs": dict(likelihood="bernoulli", sigma=1.0),
    "likelihood is 'poisson'": dict(likelihood="poisson"),
    "likelihood returned \\(\\)": dict(likelihood=lambda output, y: output.sum()),
    "likelihood returns values that are not finite": dict(likelihood=lambda output, y: output * jnp.nan),
    "encoder is of type function; give a function of parameters and data, and its parameters": dict(encoder=encoder),
    "the encoder's parameters holds no arrays": dict(encoder=(encoder, {})),
    "encoder must return a mean": dict(encoder=(lambda phi, y: y, np.ones(2))),
    "encoder failed for data": dict(encoder=(encoder, np.ones((9, 4)))),
    "default_step_size is 0": dict(default_step_size=0),
    "columns has 2 names": dict(columns=["a", "b"]),
    "name is 'generator'": dict(name="generator"),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_trained_is_refused(message):
    given = {"module": two_layers, "params": weights(), "data": table(), "latent": 2, **WRONG[message]}
    with pytest.raises(ValueError, match=message) as refused:
        motes.jax.Decoder(**given)
    assert "\n" not in str(refused.value) and "; " in str(refused.value)


def test_a_diverging_fit_says_so():
    with pytest.raises(motes.DivergedError, match="step_size"):
        paper(small(), steps=500, step_size=3.0)


def test_step_sizes_are_numbers_that_people_write():
    assert small(sigma=0.1).default_step_size == 0.001 and small(sigma=30.0).default_step_size == 0.1
