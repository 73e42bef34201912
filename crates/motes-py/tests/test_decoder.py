"""Decoders of one's own in PyTorch, against closed forms and against the built-in generator."""

import pickle
import sys

import numpy as np
import pytest
from conftest import paper
from linear_decoder import ROWS, rests

import motes

torch = pytest.importorskip("torch")
nn = torch.nn

import motes.torch  # noqa: E402

# Small networks are slower on several threads, above all if others want these.
torch.set_num_threads(1)


class Line(nn.Module):
    """q(x|y) = N(A y, diag(exp l)), which holds the exact posterior of a linear decoder with orthogonal columns."""

    def __init__(self):
        super().__init__()
        self.mean, self.log_variance = nn.Linear(3, 2, bias=False), nn.Parameter(torch.zeros(2))

    def forward(self, y):
        return self.mean(y), self.log_variance.expand(len(y), 2)


@pytest.mark.parametrize("algorithm", ROWS)
def test_a_linear_decoder_comes_to_rest_where_it_must(algorithm):
    def made(data, seed):
        torch.manual_seed(seed)
        return motes.torch.Decoder(nn.Linear(2, 3, bias=False), data, latent=2, sigma=1.0, encoder=Line())

    rests(made, algorithm)


def small(sizes=(2, 8, 3), norm=True, dropout=0.0, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    layers = [nn.Linear(sizes[0], sizes[1])]
    layers += [nn.BatchNorm1d(sizes[1])] if norm else []
    layers += [nn.Tanh()] + ([nn.Dropout(dropout)] if dropout else [])
    return nn.Sequential(*layers, nn.Linear(sizes[1], sizes[2])).to(dtype)


def table(rows=40, columns=3, seed=0):
    return np.random.default_rng(seed).uniform(size=(rows, columns)).astype(np.float32)


LIKELIHOODS = {
    "gaussian": dict(sigma=0.5),
    "bernoulli": dict(likelihood="bernoulli"),
    "rows": dict(likelihood=lambda output, y: -((output - y) ** 2).sum(1)),
    "values": dict(likelihood=lambda output, y: -torch.abs(output - y) ** 1.5),
}


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batchnorm"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_gradients_are_those_of_the_log_density(likelihood, norm):
    module = small(norm=norm, dtype=torch.float64)
    decoder = motes.torch.Decoder(module, table().astype(float), latent=2, **LIKELIHOODS[likelihood])
    checks = motes.check_model(decoder)
    assert checks.ok and len(checks) >= 2, checks


def same(a, b):
    for name in ("theta", "particles", "loss"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for key, value in a.module.state_dict().items():
        assert torch.equal(value.clone(), b.module.state_dict()[key]), key


@pytest.mark.parametrize("algorithm", ["pgd", "abp", "short-run", "vae"])
@pytest.mark.parametrize("kind", ["plain", "batchnorm", "dropout"])
def test_a_fit_in_parts_is_the_same_fit(algorithm, kind, tmp_path):
    def made():
        module = small(norm=kind == "batchnorm", dropout=0.3 if kind == "dropout" else 0.0)
        torch.manual_seed(1)
        encoder = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
        return motes.torch.Decoder(module, table(), latent=2, sigma=0.5, encoder=encoder)

    settings = dict(batch=16, theta_rate=1e-2, seed=3, burn_in=5)
    decoder = made()
    whole = paper(decoder, algorithm, steps=12, **settings)
    start = np.array(decoder.start)[: len(whole.theta)]
    assert not np.array_equal(whole.theta, start)
    part = paper(made(), algorithm, steps=7, out=tmp_path / "run", report=False, **settings)
    torch.rand(5)  # whatever others draw
    # Another process would make the decoder anew.
    same(motes.load(tmp_path / "run", made()).resume(12, progress=False), whole)
    same(paper(made(), algorithm, steps=7, **settings).resume(12, progress=False), whole)
    same(motes.fit(decoder, progress=False, **{**part.settings, "steps": 12}), whole)


def test_data_and_modules_that_changed_are_refused(tmp_path):
    paper(motes.torch.Decoder(small(), table(), latent=2), steps=3, out=tmp_path / "run", report=False)
    with pytest.raises(ValueError, match="the data have changed"):
        motes.load(tmp_path / "run", motes.torch.Decoder(small(), table(seed=1), latent=2))
    assert "sigma = 1" in (tmp_path / "run" / "config.toml").read_text()
    with pytest.raises(ValueError, match="the model was made with sigma = 1.* and now has 0.7"):
        motes.load(tmp_path / "run", motes.torch.Decoder(small(), table(), latent=2, sigma=0.7))
    assert motes.load(tmp_path / "run", motes.torch.Decoder(small(), table(), latent=2)).k == 3
    other = motes.torch.Decoder(small((2, 9, 3)), table(), latent=2)
    with pytest.raises(ValueError, match="fit"):
        motes.load(tmp_path / "run", other)


class Paper(nn.Module):
    """The paper's network; its parameters come in the order of the built-in one's."""

    def __init__(self):
        super().__init__()
        self.lin, self.bn_lin = nn.Linear(64, 1024), nn.BatchNorm1d(1024)
        self.up, self.bn_up = nn.ConvTranspose2d(4, 64, 5, 1, 2, bias=False), nn.BatchNorm2d(64)
        parts = [(nn.Conv2d(64, 64, k, padding=k // 2), nn.BatchNorm2d(64)) for k in (5, 3, 5, 3)]
        self.parts = nn.ModuleList(layer for pair in parts for layer in pair)
        self.out = nn.ConvTranspose2d(64, 1, 4, 2, 1)

    def forward(self, x):
        gelu = nn.functional.gelu
        h = gelu(self.bn_lin(self.lin(x))).view(-1, 4, 16, 16)
        h = gelu(self.bn_up(self.up(h)))
        for i in (0, 4):
            r = gelu(self.parts[i + 1](self.parts[i](h)))
            h = gelu(self.parts[i + 3](self.parts[i + 2](r))) + h
        return torch.tanh(self.out(h))


@pytest.mark.parametrize("algorithm", ["pgd", "short-run"])
def test_the_papers_network_follows_the_built_in_one(algorithm):
    built_in = motes.Generator.mnist(12)
    particles = 2 if algorithm == "pgd" else 1
    settings = dict(particles=particles, batch=6, step_size=1e-4, seed=5)
    if algorithm != "pgd":
        settings["transitions"] = 2
    start = paper(built_in, algorithm, steps=1, theta_rate=1e-300, **settings).theta
    decoder = motes.torch.Decoder(Paper(), built_in.images, latent=64, sigma=0.01)
    # The same noise: they differ by rounding alone, which the first steps of RMSProp make larger.
    fits = [paper(m, algorithm, steps=5, init_theta=start, theta_rate=1e-4, **settings) for m in (built_in, decoder)]
    np.testing.assert_allclose(fits[1].loss[:1], fits[0].loss[:1], rtol=1e-5)
    np.testing.assert_allclose(fits[1].loss, fits[0].loss, rtol=2e-3)
    assert abs(fits[0].loss / fits[0].loss[0] - 1).max() > 0.02
    np.testing.assert_allclose(fits[1].particles, fits[0].particles, rtol=0, atol=0.2 * np.abs(fits[0].particles).max())


def test_the_papers_network_follows_the_built_in_losses_over_seeds():
    built_in = motes.Generator.mnist(8)
    settings = dict(particles=2, batch=4, step_size=1e-4)
    start = paper(built_in, steps=1, theta_rate=1e-300, **settings).theta
    decoder = motes.torch.Decoder(Paper(), built_in.images, latent=64, sigma=0.01)

    def losses(model, seeds, rate=2e-4):
        fits = [paper(model, steps=20, init_theta=start, theta_rate=rate, seed=seed, **settings) for seed in seeds]
        means = np.array([fit.loss.mean() for fit in fits])
        return means.mean(), means.var(ddof=1) / len(means)

    # The same algorithm with other noise: the mean of 20 steps, and its error over seeds.
    (a, of_a), (b, of_b) = losses(built_in, range(6)), losses(decoder, range(100, 106))
    assert abs(a - b) < 3 * np.sqrt(of_a + of_b)
    # It can fail: weights that learn half as fast are far off.
    c, of_c = losses(decoder, range(100, 103), 1e-4)
    assert abs(a - c) > 6 * np.sqrt(of_a + of_c)


def test_an_encoder_may_normalise(tmp_path):
    def made():
        torch.manual_seed(1)
        encoder = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
        return motes.torch.Decoder(small(norm=False), 3 + table(), latent=2, sigma=0.5, encoder=encoder)

    network, noise = made()._network, np.random.default_rng(0).normal(size=(40, 2, 2)).astype(np.float32)
    theta, buffers, everybody = np.array(network.start), np.array(network.buffers), np.arange(40)
    z = network._encode(theta, noise, everybody)
    gradient, buffers = network.evaluate(theta, z, everybody, ("grad_theta", "buffers"), buffers)
    # The bound written down again, by the statistics of the batch.
    again, encoder = made(), made()._network.encoder.train()
    y, noise = torch.from_numpy(3 + table()), torch.from_numpy(noise)
    mean, log_variance = encoder(y).split(2, dim=1)
    draws = mean.unsqueeze(1) + (0.5 * log_variance).exp().unsqueeze(1) * noise
    np.testing.assert_allclose(z, draws.detach(), rtol=1e-5, atol=1e-6)
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    bound = -((y.unsqueeze(1) - again.module(draws)) ** 2).sum() / (2 * 0.5**2) - 2 * divergence
    weights = [*again.module.parameters(), *encoder.parameters()]
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(bound, weights)]).numpy()
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    # Running statistics move once for both questions: a tenth of the way from 0 to the mean.
    np.testing.assert_allclose(network.encoder[0].running_mean, 0.1 * (3 + table()).mean(axis=0), rtol=1e-5)
    settings = dict(theta_rate=1e-2, batch=16, burn_in=1, seed=3)
    whole = paper(made(), "vae", steps=12, **settings)
    paper(made(), "vae", steps=7, out=tmp_path / "run", report=False, **settings)
    same(motes.load(tmp_path / "run", made()).resume(12, progress=False), whole)
    with pytest.raises(ValueError, match="no variance"):
        paper(made(), "vae", steps=1, batch=39)


def test_passes_are_counted_where_people_go_on():
    decoder = motes.torch.Decoder(small(), table(), latent=2)
    fit = paper(decoder, epochs=2, batch=16, burn_in=1)
    assert fit.steps == 6 and "epochs=34" in fit.diagnostics["advice"] and "steps=" not in fit.summary()
    longer, whole = fit.resume(epochs=4, progress=False), paper(decoder, epochs=4, batch=16, burn_in=1)
    assert longer.steps == 12
    same(longer, whole)
    with pytest.raises(ValueError, match="steps and epochs"):
        fit.resume(12, epochs=4)
    for wrong, words in (({"epochs": 0}, "epochs is 0"), ({"batch": 3}, "settled when the run began"), ({"lr": 1}, "theta_rate")):
        with pytest.raises(ValueError, match=words):
            fit.resume(**wrong)


def test_fits_and_decoders_can_be_pickled(monkeypatch):
    data = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    decoder = motes.torch.Decoder(nn.Linear(1, 2), data, latent=1)
    again = pickle.loads(pickle.dumps(decoder))
    fit = motes.fit(decoder, epochs=5, progress=False)
    np.testing.assert_array_equal(motes.fit(again, epochs=5, progress=False).theta, fit.theta)
    copy = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(copy.decode(np.ones((2, 1))), fit.decode(np.ones((2, 1))))

    class Local(nn.Linear):
        pass

    # Whoever has loaded cloudpickle can pickle local classes too.
    for module in ("cloudpickle", "joblib.externals.cloudpickle"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(ValueError, match="the decoder's module cannot be pickled"):
        pickle.dumps(motes.fit(motes.torch.Decoder(Local(1, 2), data, latent=1), epochs=1, progress=False))
