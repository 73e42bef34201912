"""What a trained decoder can do, what it leaves, what it refuses, and that it assumes no device."""

import json
import os
import signal
import struct
import time
import zlib

import numpy as np
import pytest
from conftest import paper
from test_decoder import small, table, torch

import motes
import motes.torch

nn = torch.nn


def linear(sigma=0.7, count=30):
    """A linear decoder with known weights, fitted so that they stay as they are."""
    random = np.random.default_rng(2)
    w = random.normal(size=(4, 2))
    module = nn.Linear(2, 4, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(w))
    data = random.normal(size=(count, 2)) @ w.T + sigma * random.normal(size=(count, 4))
    decoder = motes.torch.Decoder(module, data, latent=2, sigma=sigma)
    return paper(decoder, steps=2, theta_rate=1e-300, particles=3), w, data


def posterior(w, y, sigma):
    covariance = np.linalg.inv(np.eye(2) + w.T @ w / sigma**2)
    return y @ w @ covariance / sigma**2, covariance


def test_inferred_latents_are_draws_from_the_posterior():
    sigma, n = 0.7, 400
    fit, w, data = linear(sigma)
    draws = fit.infer(data[:5], particles=n, steps=300, progress=False)
    assert draws.shape == (5, n, 2)
    mean, covariance = posterior(w, data[:5], sigma)
    error = np.sqrt(np.diag(covariance) / n)
    assert (abs(draws.mean(axis=1) - mean) < 4 * error).all()
    pooled = (draws - mean[:, None]).reshape(-1, 2)
    # The standard error of a covariance of 2,000 draws is below 0.033 of its scale.
    assert (abs(pooled.T @ pooled / len(pooled) - covariance) < 0.13 * np.sqrt(np.outer(*[np.diag(covariance)] * 2))).all()
    again = fit.infer(data[:5], particles=n, steps=300, progress=False)
    np.testing.assert_array_equal(draws, again)


def test_holes_are_filled_by_the_latents_that_fit_best():
    sigma = 0.7
    fit, w, data = linear(sigma)
    holes = data.copy()
    holes[:, 3] = np.nan
    holes[0, 1] = np.nan
    filled = fit.inpaint(holes, progress=False)
    for y, made in zip(holes, filled):
        seen = np.isfinite(y)
        mean, _ = posterior(w[seen], y[seen], sigma)
        np.testing.assert_allclose(made, w @ mean, atol=0.02)
    mask = np.array([False, False, False, True])
    np.testing.assert_allclose(fit.inpaint(data, mask, progress=False)[1:], filled[1:], atol=1e-9)


def test_data_are_decoded_drawn_and_joined():
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, size=40)
    decoder = motes.torch.Decoder(small(), table(), latent=2, labels=labels)
    fit = paper(decoder, steps=4, particles=5)
    assert fit.latents.shape == (40, 5, 2)
    np.testing.assert_array_equal(fit.latents[7, 3], fit.particles[3, 7])
    with torch.no_grad():
        z = torch.from_numpy(fit.latents[:6, 0].copy())
        np.testing.assert_allclose(fit.reconstruct(6), fit.module(z).numpy(), rtol=1e-6)
    line = fit.interpolate(3, 8, 5)
    np.testing.assert_allclose(line[[0, -1]], fit.reconstruct()[[3, 8]], rtol=1e-5, atol=1e-7)
    for source in ("prior", "gaussian", "mixture", "labels"):
        made = fit.synthesize(9, source=source)
        assert made.shape == (9, 3) and np.isfinite(made).all()
    assert np.array_equal(fit.synthesize(9), fit.synthesize(9)) and not np.array_equal(fit.synthesize(9), fit.synthesize(9, seed=1))
    with pytest.raises(ValueError, match="prior, gaussian, mixture"):
        fit.synthesize(2, source="posterior")
    bernoulli = paper(motes.torch.Decoder(small(), table(), latent=2, likelihood="bernoulli"), steps=2)
    assert (bernoulli.synthesize(50) > 0).all() and (bernoulli.synthesize(50) < 1).all()


def pixels(path):
    """The size of a PNG file and its bytes, unfiltered."""
    raw = path.read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">2I", raw[16:24])
    length = struct.unpack(">I", raw[33:37])[0]
    lines = np.frombuffer(zlib.decompress(raw[41 : 41 + length]), np.uint8).reshape(height, -1)
    assert (lines[:, 0] == 0).all()
    return width, height, lines[:, 1:]


def test_a_run_directory_holds_pictures_and_weights(tmp_path):
    images = np.random.default_rng(0).uniform(size=(20, 6, 5)).astype(np.float32)
    module = nn.Sequential(nn.Linear(2, 30), nn.BatchNorm1d(30), nn.Unflatten(1, (6, 5)))
    decoder = motes.torch.Decoder(module, images, latent=2, sigma=0.5)
    fit = paper(decoder, steps=6, batch=10, out=tmp_path / "run", report=False)
    width, height, shown = pixels(tmp_path / "run" / "pictures" / "reconstructions.png")
    # Two rows of data and two of what they decode to, each pixel 7 x 7 and 2 white ones around each image.
    assert (width, height) == (16 * (7 * 5 + 2) + 2, 4 * (7 * 6 + 2) + 2)
    low, high = images.min(), images.max()
    first = np.floor((images[0].astype(float) - low) / (high - low) * 255 + 0.5)
    np.testing.assert_array_equal(shown[2 : 2 + 42, 2 : 2 + 35], first.repeat(7, axis=0).repeat(7, axis=1))
    last = np.floor((images[19].astype(float) - low) / (high - low) * 255 + 0.5)
    np.testing.assert_array_equal(shown[90 : 90 + 42, 2 + 3 * 37 : 2 + 3 * 37 + 35], last.repeat(7, axis=0).repeat(7, axis=1))
    assert (shown[:, :2] == 255).all() and (shown[44:46] == 255).all() and (shown[90:132, 4 * 37 + 2 :] == 255).all()
    assert pixels(tmp_path / "run" / "pictures" / "samples.png")[:2] == (16 * 37 + 2, 2 * 44 + 2)
    raw = (tmp_path / "run" / "weights.safetensors").read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8 : 8 + size])
    state = module.state_dict()
    assert list(head) == list(state)
    for name, told in head.items():
        first, last = (8 + size + at for at in told["data_offsets"])
        kind = {"F32": np.float32, "I64": np.int64}[told["dtype"]]
        values = np.frombuffer(raw[first:last], kind).reshape(told["shape"])
        np.testing.assert_array_equal(values, state[name].numpy())
    before = fit.decode(np.ones((1, 2)))
    paper(decoder, steps=2, seed=9)
    np.testing.assert_array_equal(motes.load(tmp_path / "run", decoder).decode(np.ones((1, 2))), before)
    np.testing.assert_array_equal(fit.decode(np.ones((1, 2))), before)
    mask = fit.inpaint(images[:2], mask=(1, 1, 3, 4), steps=5, progress=False)
    assert mask.shape == (2, 6, 5)


def test_a_table_leaves_tables(tmp_path):
    decoder = motes.torch.Decoder(small(), table(), latent=2, columns=["a", "b", "c"])
    fit = paper(decoder, epochs=2, batch=20, out=tmp_path / "run")
    assert fit.steps == 4 and (tmp_path / "run" / "report.html").exists()
    lines = (tmp_path / "run" / "reconstructions.csv").read_text().splitlines()
    assert lines[0] == "a,b,c,a decoded,b decoded,c decoded" and len(lines) == 41
    np.testing.assert_allclose([float(v) for v in lines[1].split(",")], [*table()[0], *fit.reconstruct(1)[0]], rtol=1e-6)
    several = motes.fit(decoder, epochs=2, replicates=2, progress=False)
    assert len(several) == 2 and not np.array_equal(several[0].theta, several[1].theta)
    np.testing.assert_array_equal(several[0].module[0].weight.detach().numpy().ravel(), several[0].theta[:16].astype("f"))


def test_progress_and_callbacks_tell_the_loss():
    told = []
    decoder = motes.torch.Decoder(small(), table(), latent=2)
    fit = paper(decoder, steps=5, callback=lambda step: told.append(step.scalars.get("loss")))
    assert told[1:] == pytest.approx(fit.loss.tolist(), rel=1e-12) and set(fit.scalars) == {"loss", "x_rms"}


WRONG = {
    "module is": dict(module=lambda z: z),
    "module has no parameters": dict(module=nn.Tanh()),
    "module returns rows of shape \\(3,\\) and data has rows of shape \\(4,\\)": dict(data=table(columns=4)),
    "module failed for latents of shape \\(4, 5\\)": dict(latent=5),
    "module returned tuple": dict(module=nn.LSTM(2, 3)),
    "latent is 0": dict(latent=0),
    "data has shape \\(5,\\)": dict(data=np.zeros(5)),
    "data has dtype <U1": dict(data=np.array([["a", "b", "c"]])),
    "data holds nan at \\(2, 1\\)": dict(data=np.where(np.arange(120).reshape(40, 3) == 7, np.nan, table())),
    "data holds -1.0 at": dict(data=-np.ones((4, 3)), likelihood="bernoulli"),
    "sigma is 0": dict(sigma=0),
    "sigma is 1.0 and belongs": dict(likelihood="bernoulli", sigma=1.0),
    "likelihood is 'poisson'": dict(likelihood="poisson"),
    "likelihood returned \\(\\)": dict(likelihood=lambda output, y: output.sum()),
    "likelihood returns values that are not finite": dict(likelihood=lambda output, y: output * torch.nan),
    "encoder must return a mean": dict(encoder=nn.Linear(3, 3)),
    "encoder gives others each time": dict(encoder=nn.Sequential(nn.Linear(3, 4), nn.Dropout())),
    "encoder failed for data": dict(encoder=nn.Linear(4, 4)),
    "labels has shape": dict(labels=[1, 2]),
    "batchnorm is": dict(batchnorm="none"),
    "name is 'generator'": dict(name="generator"),
    "columns has 2 names": dict(columns=["a", "b"]),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_cannot_be_trained_is_refused(message):
    given = {"module": small(), "data": table(), "latent": 2, **WRONG[message]}
    with pytest.raises(ValueError, match=message) as refused:
        motes.torch.Decoder(**given)
    assert "\n" not in str(refused.value) and "; " in str(refused.value)


def test_what_cannot_be_fitted_is_refused():
    decoder = motes.torch.Decoder(small(), table(), latent=2)
    for message, settings in {
        "no algorithm of a decoder 'pqn'": dict(algorithm="pqn"),
        "algorithm is 'auto', which trains no decoders": dict(algorithm="auto", epochs=2),
        "tolerance is 0.01, and a decoder is trained": dict(tolerance=0.01),
        "vae needs an inference network": dict(algorithm="vae"),
        "single precision": dict(precision="f64"),
        "steps and epochs": dict(steps=3, epochs=2),
        "epochs is 0": dict(epochs=0),
        "holds a single one": dict(batch=13, particles=1),
        "has no setting 'lambda_'": dict(lambda_=1.0),
    }.items():
        with pytest.raises(ValueError, match=message):
            motes.fit(decoder, **{"progress": False, **settings})


def test_a_diverging_fit_says_so_and_leaves_the_last_checkpoint(tmp_path):
    decoder = motes.torch.Decoder(small(norm=False), table(), latent=2)
    with pytest.raises(motes.DivergedError, match="step_size"):
        paper(decoder, steps=500, step_size=3.0, out=tmp_path / "run", checkpoint_every=1, report=False)
    kept = motes.load(tmp_path / "run", decoder)
    assert kept.k > 0 and np.isfinite(kept.theta).all() and np.isfinite(kept.particles).all()

    # A loss that becomes NaN is one, too.
    def likelihood(output, y):
        return -((output - y) ** 2) * (torch.nan if output.abs().max() > 0.9 else 1.0)

    module = small(norm=False)
    decoder = motes.torch.Decoder(module, table(), latent=2, likelihood=likelihood)
    with pytest.raises(motes.DivergedError, match="step"):
        paper(decoder, steps=500, theta_rate=0.05)


def test_an_error_in_a_module_comes_back():
    class Fails(nn.Linear):
        def forward(self, z):
            if self.training and z.shape[0] > 100:
                raise ZeroDivisionError("in the module")
            return super().forward(z)

    decoder = motes.torch.Decoder(nn.Sequential(Fails(2, 3), nn.BatchNorm1d(3)), table(), latent=2)
    with pytest.raises(ZeroDivisionError, match="in the module"):
        paper(decoder, steps=2, particles=10, batch=20)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("where", ["decoder", "encoder"])
def test_ctrl_c_inside_a_module_gives_the_step_up_without_a_trace(where, tmp_path):
    calls = 0

    class Interrupts(nn.Module):
        def forward(self, rows):
            nonlocal calls
            calls += 1
            if calls == stop:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.5)
            return rows

    def made():
        torch.manual_seed(0)
        encoder = nn.Sequential(Interrupts() if where == "encoder" else nn.Identity(), nn.Linear(3, 4))
        last = Interrupts() if where == "decoder" else nn.Identity()
        return motes.torch.Decoder(nn.Sequential(small(), last), table(), latent=2, encoder=encoder)

    stop, settings = -1, dict(algorithm="vae" if where == "encoder" else "pgd", steps=9, batch=20, burn_in=2)
    whole = paper(made(), **settings)
    decoder = made()
    stop = calls + 7
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(RuntimeWarning, match="interrupted after step . of 9"):
            fit = paper(decoder, out=tmp_path / "run", report=False, **settings)
    finally:
        signal.signal(signal.SIGINT, before)
    assert 0 < fit.k < 9 and not fit.complete
    resumed = motes.load(tmp_path / "run", made()).resume(progress=False)
    for got in (fit.resume(progress=False), resumed):
        np.testing.assert_array_equal(got.theta, whole.theta)
        np.testing.assert_array_equal(got.particles, whole.particles)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batchnorm"])
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "callable"])
def test_nothing_assumes_the_processor(likelihood, norm, monkeypatch):
    """On a device that computes nothing but refuses every tensor of another one, as a GPU would."""
    from motes import _decoder_network, _decoder_search

    given = (lambda output, y: -((output - y) ** 2)) if likelihood == "callable" else likelihood
    decoder = motes.torch.Decoder(small(norm=norm), table(), latent=2, likelihood=given, encoder=nn.Linear(3, 4))
    network = decoder._network
    theta, buffers = np.array(network.start), np.array(network.buffers)
    back = []

    def numbers(tensor, dtype=torch.float64):
        back.append(tensor.device.type)
        return np.zeros(tensor.shape, np.dtype(str(dtype)[6:]))

    monkeypatch.setattr(_decoder_network, "numbers", numbers)
    network.module.to("meta"), network.encoder.to("meta")
    network.device = torch.device("meta")
    network._weights, network._phi = (list(module.parameters()) for module in (network.module, network.encoder))
    network._buffers = list(network.module.buffers())
    x, groups = np.ones((5, 4, 2), np.float32), np.arange(5)
    want = ["grad_x", "grad_theta", *(["buffers"] if norm else []), "scalars"]
    network.evaluate(theta[: network.d_theta], x, groups, ["log_density", *want], buffers)
    network.evaluate(theta[: network.d_theta], x, None if len(x) == 40 else groups, ["log_density"], buffers)
    network.evaluate(theta, x, groups, want[1:], buffers)
    network._encode(theta, x, groups)
    network.decode(x[0])
    y, seen = network.given(table(5)), np.ones((5, 3), bool)
    assert y.device.type == "meta"
    best = _decoder_search.best_latents(network, y, seen, 3, 0, lambda done: None)
    assert _decoder_search.draws(network, y, best, 4, 4, 0.1, 0, lambda done: None).shape == (5, 4, 2)
    assert len(back) > 8 and set(back) == {"meta"}
    with pytest.raises(RuntimeError, match="device"):  # it would be noticed
        network.module(torch.ones(2, 2))
