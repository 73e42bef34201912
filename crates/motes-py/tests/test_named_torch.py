"""Models of a density of one group in PyTorch."""

import math

import numpy as np
import pytest
from conftest import draws_from_the_prior

import motes

torch = pytest.importorskip("torch")

QUIET = dict(progress=False)


def random_intercepts(y, **options):
    """u_g ~ N(mu, sd^2), y_gi ~ N(u_g, 1)."""

    def log_joint(p, u, row):
        prior = -0.5 * ((u["u"] - p["mu"]) / p["sd"]) ** 2 - torch.log(p["sd"])
        return prior - 0.5 * ((row["y"] - u["u"]) ** 2).sum()

    params = {"mu": motes.Real(), "sd": motes.Positive()}
    return motes.Model.from_torch(log_joint, params=params, latent={"u": ()}, data={"y": y}, groups=len(y), **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_random_intercepts(dtype):
    y = np.random.default_rng(1).normal(2.0, 1.0, (100, 3)) + np.random.default_rng(2).normal(0, 1.2, (100, 1))
    model = random_intercepts(torch.tensor(y, dtype=dtype))
    if dtype == torch.float64:
        assert motes.check_model(model).ok
    fit = motes.fit(model, **QUIET)
    # Means of three are N(mu, sd^2 + 1/3).
    variance = y.mean(axis=1).var()
    sd = math.sqrt(variance - 1 / 3)
    assert fit.verdict == "ok"
    assert abs(fit.params["mu"] - y.mean()) < 0.2 * math.sqrt(variance / 100)
    assert fit.se["mu"] == pytest.approx(math.sqrt(variance / 100), rel=0.1)
    assert abs(fit.params["sd"] - sd) < 0.2 * fit.se["sd"]
    assert fit.latents["u"].mean().shape == (100,)


def test_the_device_of_the_data_is_asked():
    """On the device `meta`, which computes nothing, everything must be built of tensors that are there."""
    seen = set()

    def log_joint(p, u, row):
        seen.update({p["mu"].device.type, u["u"].device.type, row["y"].device.type})
        return -0.5 * (u["u"] - p["mu"]) ** 2 - 0.5 * (row["y"] - u["u"]) ** 2

    y = torch.zeros(4, dtype=torch.float32, device="meta")
    motes.Model.from_torch(log_joint, params={"mu": ()}, latent={"u": ()}, data={"y": y}, groups=4)
    assert seen == {"meta"}


def test_constraints_are_those_of_numpy():
    rng = np.random.default_rng(3)
    for part in (
        motes.Positive(2),
        motes.Interval(-1, 2, 2),
        motes.Simplex(3),
        motes.Ordered(3),
        motes.CholeskyCorr(3),
        motes.CovarianceCholesky(2),
    ):
        z = rng.normal(size=part.free)
        np.testing.assert_allclose(part.natural(torch.from_numpy(z), torch).numpy(), part.natural(z, np), atol=1e-12)
        assert float(part.log_jacobian(torch.from_numpy(z), torch)) == pytest.approx(float(part.log_jacobian(z, np)))


@pytest.mark.parametrize(
    "density, words",
    [
        (lambda p, u, row: row["y"].new_zeros(2), r"shape \(2,\)"),
        (lambda p, u, row: 3.0, "returned float"),
    ],
)
def test_wrong_densities_are_refused(density, words):
    with pytest.raises(ValueError, match=words):
        motes.Model.from_torch(density, params={"mu": ()}, latent={"u": ()}, data={"y": np.zeros(4)}, groups=4)


def test_particles_are_drawn_from_the_prior():
    draws_from_the_prior(motes.Model.from_torch)
