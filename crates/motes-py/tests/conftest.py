"""What the tests share: the real binary, a process to interrupt, a model with a prior, and the logistic regression written in NumPy."""

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import motes

ROOT = Path(__file__).resolve().parents[3]
WISCONSIN = ROOT / "data" / "wisconsin-breast-cancer.csv"
#: Seconds within which Ctrl-C stops a fit. It takes a fraction of one, but others may want the processor too.
SOON = 2.5


def pytest_configure(config):
    # Most fits here are far too short to be trusted, and say so.
    config.addinivalue_line("filterwarnings", "ignore::motes.VerdictWarning")


def paper(model, algorithm="pgd", **settings):
    """A fit by one of the paper's algorithms, which is not assessed afterwards: that would only take time."""
    return motes.fit(model, algorithm, **{"no_assess": True, "progress": False, **settings})


@pytest.fixture
def x64():
    """JAX in double precision, for exact answers."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def maximised(loglik, start):
    """Where a function has its maximum, standard errors there, and its value."""
    jax, optimize = pytest.importorskip("jax"), pytest.importorskip("scipy.optimize")
    value, hessian = jax.jit(jax.value_and_grad(lambda t: -loglik(t))), jax.jit(jax.hessian(loglik))
    found = optimize.minimize(lambda t: [np.asarray(v, dtype=float) for v in value(t)], np.asarray(start), jac=True, method="BFGS").x
    for _ in range(5):
        found = found + np.linalg.solve(np.asarray(hessian(found)), np.asarray(value(found)[1]))
    assert np.abs(value(found)[1]).max() < 1e-6
    return found, np.sqrt(np.diag(np.linalg.inv(-np.asarray(hessian(found))))), -float(value(found)[0])


def near(fit, exact, se):
    """Within 0.2 SE and 4 MC errors of the exact estimate, standard errors within 10 %."""
    error = np.abs(fit.theta_mean - exact)
    assert (error < 0.2 * se).all() and (error < 4 * fit._of_theta("mc_error")).all()
    np.testing.assert_allclose(fit._of_theta("se"), se, rtol=0.1)


@pytest.fixture(scope="session")
def cli():
    """Runs the command line, which must succeed."""
    places = [os.environ.get("MOTES_BIN"), ROOT / "target/release/motes", ROOT / "target/debug/motes"]
    binary = next((p for p in places if p and Path(p).exists()), None)
    if binary is None:
        pytest.fail("there is no motes binary; build it with `cargo build` or name it in MOTES_BIN")

    def run(*args, code=0):
        done = subprocess.run([str(binary), *map(str, args)], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout

    return run


@pytest.fixture
def child():
    """Starts Python with a script that heeds Ctrl-C, and ends it with the test."""
    started = []

    def start(script):
        # Whoever started the tests may ignore the signal.
        heeds = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(subprocess.Popen([sys.executable, "-c", heeds + script], **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def interrupt(process, wait, answer):
    """Presses Ctrl-C after a while; the process must soon say when it stopped, in the first word of its answer."""
    time.sleep(wait)
    sent = time.time()
    process.send_signal(signal.SIGINT)
    assert 0 < float(answer().split()[0]) - sent < SOON


def last_words(process):
    """What a process still says before it ends well."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def rows():
    """Features and labels of a small regression."""
    random = np.random.default_rng(1)
    X = random.normal(size=(60, 3))
    y = (X @ [1.0, -0.5, 0.2] + random.logistic(size=60) > 0).astype(int)
    return X, y


class Mallinfo2(ctypes.Structure):
    """What glibc's `mallinfo2` returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def growth(one, times):
    """How many bytes more are in use once something was done so many times, after it has settled.

    Resident memory would not do: what is freed stays with the allocator, tens of MiB more or less of it by chance.
    """
    mallinfo2 = getattr(ctypes.CDLL(None), "mallinfo2", None) if sys.platform.startswith("linux") else None
    if mallinfo2 is None:
        pytest.skip("only glibc 2.33 and later tells how much memory is in use")
    mallinfo2.restype = Mallinfo2

    def in_use():
        gc.collect()
        memory = mallinfo2()
        # Python's own small blocks, of 512 bytes at most, do not come from malloc.
        return memory.uordblks + memory.hblkhd + 512 * sys.getallocatedblocks()

    for _ in range(times // 5):
        one()
    before = in_use()
    for _ in range(times):
        one()
    return in_use() - before


def draws_from_the_prior(make):
    """Holds particles of a model by this constructor against its prior, which names latents in another order."""
    model = make(
        lambda p, u, row: -0.5 * ((u["u"] - p["mu"]) / p["sd"]) ** 2 - 0.5 * ((row["y"] - u["v"]) ** 2).sum(),
        params={"mu": motes.Real(), "sd": motes.Positive(init=2.0)},
        latent={"u": (), "v": 2},
        data={"y": np.zeros((3, 2))},
        groups=3,
        prior=lambda p, z: {"v": -z["v"], "u": p["mu"] + p["sd"] * z["u"]},
    )
    z = np.random.default_rng(0).normal(size=(3, 4, 3))
    drawn = np.asarray(model.prior(np.array([0.5, np.log(2.0)]), z, np.arange(3)))
    np.testing.assert_allclose(drawn, np.concatenate([0.5 + 2 * z[..., :1], -z[..., 1:]], axis=-1), rtol=1e-6)


def numpy_logistic(X, y, variance=5.0, **options):
    """The built-in logistic regression, written again with NumPy."""

    def gradients(theta, x):
        p = 1 / (1 + np.exp(-x @ X.T))
        return (x - theta).sum(axis=1, keepdims=True) / variance, (y - p) @ X - (x - theta) / variance

    def log_density(theta, x):
        t = x @ X.T
        return t @ y - np.logaddexp(0, t).sum(axis=1) - ((x - theta) ** 2).sum(axis=1) / (2 * variance)

    def hessian(theta, x):
        return np.full((len(x), 1, 1), -x.shape[1] / variance)

    return motes.Model(
        1,
        X.shape[1],
        gradients,
        log_density,
        hessian,
        statistics=lambda x: x.mean(axis=1, keepdims=True),
        m_step=lambda mean: mean,
        prior=lambda theta, z: theta + np.sqrt(variance) * z,
        **options,
    )
