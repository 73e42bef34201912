"""Models of one's own, written with NumPy."""

import math
import os
import signal
import textwrap
import time
import traceback

import numpy as np
import pytest
from conftest import interrupt, last_words, numpy_logistic, paper

import motes

QUIET = dict(progress=False)


@pytest.mark.parametrize(
    "settings",
    [
        dict(),
        dict(algorithm="pqn"),
        dict(algorithm="pmgd"),
        dict(algorithm="soul"),
        dict(algorithm="mean-field"),
        dict(adjust=True, adjust_after=0),
        dict(algorithm="joint-mh", particles=2, adjust_after=0),
        dict(init_particles="prior"),
        dict(warm_start="1x5", preconditioner="adam"),
    ],
    ids=lambda s: "-".join(map(str, s.values())) or "pgd",
)
def test_traces_equal_those_of_the_built_in_model(settings, rows):
    X, y = rows
    settings = {"particles": 20, "steps": 60, "step_size": 0.02, **settings}
    own = paper(numpy_logistic(X, y), **settings)
    built_in = paper(motes.LogisticRegression(X, y, learn="mean", intercept=False, standardize=False), **settings)
    # Sums are taken in another order: rounding, amplified by 60 steps of a contraction.
    np.testing.assert_allclose(own.trace["theta"], built_in.trace["theta"], rtol=0, atol=1e-11)
    np.testing.assert_allclose(own.particles, built_in.particles, rtol=0, atol=1e-10)
    assert np.ptp(own.trace["theta"]) > 0


def test_mini_batches_equal_those_of_the_built_in_model(rows):
    X, y = rows
    seen = []

    def gradients(theta, x, batch):
        seen.append(batch)
        chosen = slice(None) if batch is None else batch
        Xb, yb = X[chosen], y[chosen]
        p = 1 / (1 + np.exp(-x @ Xb.T))
        grad_x = len(X) / len(Xb) * (yb - p) @ Xb - (x - theta) / 5.0
        return (x - theta).sum(axis=1, keepdims=True) / 5.0, grad_x

    model = motes.Model(1, 3, gradients, numpy_logistic(X, y).log_density, data_terms=len(X))
    assert motes.check_model(model).ok
    settings = dict(particles=10, steps=30, step_size=0.01)
    for batch in [7, None]:
        seen.clear()
        own = paper(model, batch=batch, **settings)
        sizes = {None if b is None else len(b) for b in seen}
        built_in = paper(motes.LogisticRegression(X, y, learn="mean", intercept=False, standardize=False), batch=batch, **settings)
        np.testing.assert_allclose(own.trace["theta"], built_in.trace["theta"], rtol=0, atol=1e-12)
        assert batch in sizes and (batch is not None or sizes == {None})
    with pytest.raises(ValueError, match="^batch=100 is more than the 60 data terms"):
        paper(model, batch=100, **settings)
    with pytest.raises(ValueError, match="^data_terms is 0"):
        motes.Model(1, 3, gradients, data_terms=0)
    with pytest.raises(ValueError, match="mini-batches"):
        paper(numpy_logistic(X, y), batch=7, **settings)


def test_single_precision_reaches_the_callable(rows):
    X, y = rows
    seen = set()
    model = numpy_logistic(X, y)
    inner = model.gradients

    def gradients(theta, x):
        seen.add((theta.dtype.name, x.dtype.name, x.shape))
        return inner(theta, x)

    model = motes.Model(1, 3, gradients)
    paper(model, particles=4, steps=3, precision="f32")
    assert seen == {("float64", "float32", (4, 3))}


def test_one_crossing_per_step(rows):
    calls = []
    model = numpy_logistic(*rows)
    own = motes.Model(1, 3, lambda theta, x: calls.append(len(x)) or model.gradients(theta, x))
    paper(own, particles=1000, steps=10, step_size=0.01)
    assert calls == [1000] * 10


def test_noise_that_threads_share_is_the_same():
    # 32,000 coordinates in one block; those of a mini-batch are moved group by group, by one thread.
    groups = 1000

    def gradients(theta, x, numbers):
        return np.zeros((*x.shape[:2], 1)), numbers[:, None, None] - x

    model = motes.Model(1, 1, gradients, groups=groups)

    def moved(**settings):
        return paper(model, particles=32, steps=1, step_size=0.1, **settings).particles

    one, both, batch = moved(threads=1), moved(threads=2), moved(batch=groups // 2, threads=1)
    np.testing.assert_array_equal(one, both)
    of_batch = (batch != 0).all(axis=0)
    assert of_batch.sum() == groups // 2
    np.testing.assert_array_equal(batch[:, of_batch], one[:, of_batch])
    noise = (one - 0.1 * np.arange(groups)) / np.sqrt(0.2)
    assert abs(noise.mean()) < 4 / np.sqrt(noise.size) and abs(noise.var() - 1) < 4 * np.sqrt(2 / noise.size)
    assert len(np.unique(noise)) > 0.99 * noise.size


def test_check_model_names_the_wrong_derivative(rows):
    right = numpy_logistic(*rows)
    assert motes.check_model(right).ok
    pieces = [c.piece for c in motes.check_model(right)]
    assert pieces == [
        "theta-gradient",
        "x-gradient",
        "theta-Hessian",
        "theta-gradients by particle",
        "M-step",
        "sums over a block of particles",
        "what is asked for by itself",
    ]

    def gradients(theta, x):
        grad_theta, grad_x = right.gradients(theta, x)
        grad_x[:, 1] *= 1.01
        return grad_theta, grad_x

    checks = motes.check_model(motes.Model(1, 3, gradients, right.log_density))
    wrong = [c for c in checks if not c.ok]
    assert [c.piece for c in wrong] == ["x-gradient"] and not checks.ok
    assert "x[1]" in wrong[0].place and 0.005 < wrong[0].error < 0.02
    assert "WRONG: at x[1]" in repr(checks)
    hessian = motes.Model(1, 3, right.gradients, right.log_density, lambda theta, x: 2 * right.hessian(theta, x))
    assert [c.piece for c in motes.check_model(hessian) if not c.ok] == ["theta-Hessian"]
    assert motes.check_model(motes.Model(1, 3, right.gradients)).ok
    assert motes.check_model(motes.LogisticRegression(*rows)).ok


def test_an_exception_comes_back_with_its_traceback(rows):
    class Mine(Exception):
        pass

    calls = 0

    def gradients(theta, x):
        nonlocal calls
        calls += 1
        if calls == 5:
            raise Mine("on the fifth call")
        return np.zeros((len(x), 1)), -x

    with pytest.raises(Mine, match="on the fifth call") as caught:
        paper(motes.Model(1, 3, gradients), particles=4, steps=20, step_size=0.01)
    assert calls == 5
    assert "gradients" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("piece", ["log_density", "hessian", "statistics", "m_step", "prior"])
def test_every_callable_may_raise(piece, rows):
    model = numpy_logistic(*rows)
    pieces = {p: getattr(model, p) for p in ["log_density", "hessian", "statistics", "m_step", "prior"]}
    armed = False

    def failing(*args):
        if armed:
            raise KeyError(piece)
        return pieces[piece](*args) if callable(pieces[piece]) else None

    own = motes.Model(1, 3, model.gradients, **{**pieces, piece: failing})
    armed = True
    settings = {
        "log_density": dict(adjust=True, adjust_after=0),
        "hessian": dict(algorithm="pqn"),
        "statistics": dict(algorithm="pmgd"),
        "m_step": dict(algorithm="pmgd"),
        "prior": dict(init_particles="prior"),
    }[piece]
    with pytest.raises(KeyError, match=piece):
        paper(own, particles=4, steps=20, step_size=0.01, **settings)
    assert len(pieces) == 5


@pytest.mark.parametrize("place", ["theta", "x"])
def test_nan_is_a_diverged_error(place):
    calls = 0

    def gradients(theta, x):
        nonlocal calls
        calls += 1
        grad_theta, grad_x = np.zeros((len(x), 1)), -x
        if calls == 4:
            (grad_theta if place == "theta" else grad_x)[0, 0] = np.nan
        return grad_theta, grad_x

    with pytest.raises(motes.DivergedError) as caught:
        paper(motes.Model(1, 2, gradients), particles=3, steps=20, step_size=0.01)
    error = caught.value
    assert error.step == 4 and math.isnan(error.norm) and error.step_size == 0.01 and 0 < error.suggestion < 0.01
    assert "step 4" in str(error) and f"step_size={error.suggestion}" in str(error) and "NaN" in str(error)


PIECES = dict(gradients=lambda theta, x: (x - theta, theta - 2 * x), log_density=lambda theta, x: -(x**2)[:, 0])


@pytest.mark.parametrize(
    "piece, settings, step",
    [
        ("gradients", dict(algorithm="pmgd"), 1),
        ("gradients", dict(algorithm="marginal-mh", adjust_after=2), 1),
        ("log_density", dict(adjust=True, adjust_after=2), 3),
        ("log_density", dict(algorithm="joint-mh", adjust_after=2), 3),
        ("log_density", dict(algorithm="marginal-mh", adjust_after=2), 3),
    ],
    ids=str,
)
def test_nan_of_other_pieces_is_a_diverged_error(piece, settings, step):
    nan = dict(gradients=lambda theta, x: (x * np.nan, -x), log_density=lambda theta, x: np.full(len(x), np.nan))
    model = motes.Model(1, 1, **{**PIECES, piece: nan[piece]})
    with pytest.raises(motes.DivergedError, match=f"step {step}: .* = NaN with h = 0.01; try step_size=") as caught:
        paper(model, particles=3, steps=5, step_size=0.01, **settings)
    error = caught.value
    assert (error.step, error.step_size) == (step, 0.01) and math.isnan(error.norm) and 0 < error.suggestion < 0.01
    assert "a callable returned NaN" in str(error) and "checkpoints" not in str(error)


def test_nan_of_a_log_density_that_only_judges_is_told():
    model = motes.Model(1, 1, **{**PIECES, "log_density": lambda theta, x: np.full(len(x), np.nan)})
    with pytest.warns(RuntimeWarning, match="log_density is NaN at the end"):
        fit = paper(model, particles=3, steps=5, step_size=0.01)
    assert fit.diagnostics["shadow_acceptance"] is None and np.isfinite(fit.theta).all()


@pytest.mark.parametrize("settings", [dict(), dict(adjust=True), dict(algorithm="marginal-mh")], ids=str)
def test_a_density_of_zero_is_a_rejection(settings):
    model = motes.Model(1, 1, **{**PIECES, "log_density": lambda theta, x: np.full(len(x), -np.inf)})
    after = {"adjust_after": 0} if settings else {}
    fit = paper(model, particles=3, steps=5, step_size=0.01, **settings, **after)
    assert fit.diagnostics["shadow_acceptance"] == 0 and fit.diagnostics["acceptance"] in (0, None)
    assert fit.diagnostics["verdict"] != "ok"


def test_a_singular_hessian_is_not_called_nan():
    model = motes.Model(1, 1, **PIECES, hessian=lambda theta, x: np.zeros((len(x), 1, 1)))
    with pytest.raises(motes.DivergedError, match="singular") as caught:
        paper(model, algorithm="pqn", particles=3, steps=5)
    assert "NaN" not in str(caught.value)


def test_checkpoints_are_told_of_where_there_are_any(tmp_path):
    model = motes.Model(1, 2, lambda theta, x: (0 * x[:, :1], -1000.0 * x))
    with pytest.raises(motes.DivergedError, match="earlier checkpoints are kept"):
        paper(model, particles=3, steps=2000, step_size=1.0, out=tmp_path / "run", checkpoint_every=1)
    changed = motes._core.in_python("was changed; put it back, or `fit-again()`")
    assert changed == "was changed; put it back, or fit the model again"


class Attached:
    """As PyTorch's tensors that require gradients."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self.values

    def __array__(self, *args, **options):
        raise RuntimeError("use detach() first")


def test_gradients_that_are_attached_are_detached(rows):
    right = numpy_logistic(*rows)
    expected = paper(right, particles=4, steps=5)
    model = motes.Model(
        1, 3, lambda *at: tuple(map(Attached, right.gradients(*at))), lambda *at: Attached(right.log_density(*at))
    )
    np.testing.assert_array_equal(paper(model, particles=4, steps=5).particles, expected.particles)
    motes.Model(1, 3, right.gradients, statistics=lambda x: Attached(x[:, :1]), m_step=lambda mean: mean)


def test_divergence_names_a_step_size():
    model = motes.Model(1, 2, lambda theta, x: (0 * x[:, :1], -1000.0 * x))
    with pytest.raises(motes.DivergedError, match="try step_size=") as caught:
        paper(model, particles=3, steps=2000, step_size=1.0)
    assert caught.value.norm > 1e99


RETURNS = {
    "no pair": (lambda theta, x: x, "gradients returned ndarray; return the pair"),
    "theta": (lambda theta, x: (np.zeros(7), x), r"grad_theta of gradients returned shape \(7,\).*\(4, 1\)"),
    "x": (lambda theta, x: (np.zeros((4, 1)), x[:, :2]), r"grad_x of gradients returned shape \(4, 2\).*\(4, 3\)"),
    "text": (lambda theta, x: (np.zeros((4, 1)), "no"), "grad_x of gradients returned no array of numbers"),
    "complex": (lambda theta, x: (x[:, :1], x * 1j), r"grad_x of gradients returned no array .*complex128"),
    "words": (lambda theta, x: (x[:, :1], x.astype(str)), "grad_x of gradients returned no array .*dtype"),
    "masked": (lambda theta, x: (np.ma.masked_less(x[:, :1], 9), x), "grad_theta of gradients .*masked"),
    "none": (lambda theta, x: None, "gradients returned NoneType"),
}


@pytest.mark.parametrize("case", RETURNS)
def test_wrong_returns_are_refused(case):
    gradients, words = RETURNS[case]
    with pytest.raises(ValueError, match=words):
        paper(motes.Model(1, 3, gradients), particles=4, steps=3, step_size=0.01)


def test_wrong_shapes_of_other_callables_are_refused(rows):
    right = numpy_logistic(*rows)
    for piece, wrong, settings in [
        ("log_density", lambda theta, x: np.zeros((len(x), 2)), dict(adjust=True, adjust_after=0)),
        ("hessian", lambda theta, x: np.zeros((len(x), 2, 2)), dict(algorithm="pqn")),
        ("prior", lambda theta, z: z[:1], dict(init_particles="prior")),
    ]:
        model = motes.Model(1, 3, right.gradients, **{piece: wrong})
        with pytest.raises(ValueError, match=f"{piece} returned shape"):
            paper(model, particles=4, steps=3, step_size=0.01, **settings)
    with pytest.raises(ValueError, match="statistics returned shape"):
        motes.Model(1, 3, right.gradients, statistics=lambda x: 1.0, m_step=lambda mean: mean)


def test_arguments_of_a_model_are_checked():
    f = lambda theta, x: (x[:, :1], x)  # noqa: E731
    for arguments, words in [
        (dict(d_theta=0, d_x=1, gradients=f), "d_theta is 0"),
        (dict(d_theta=1, d_x=1.5, gradients=f), "d_x is 1.5"),
        (dict(d_theta=1, d_x=1, gradients=3), "gradients is 3"),
        (dict(d_theta=1, d_x=1, gradients=f, hessian=1), "hessian is 1"),
        (dict(d_theta=1, d_x=1, gradients=f, m_step=f), "statistics and m_step belong together"),
        (dict(d_theta=2, d_x=1, gradients=f, names=["a"]), "names of theta has 1 names; give 2"),
        (dict(d_theta=2, d_x=1, gradients=f, names=["a", "a"]), "distinct"),
        (dict(d_theta=1, d_x=1, gradients=f, names={"y": ["a"]}), "'theta' and 'x'"),
        (dict(d_theta=1, d_x=1, gradients=f, name="logistic"), "built-in"),
        (dict(d_theta=1, d_x=1, gradients=f, names=["k"]), "names of theta has 'k', which is a column"),
        (dict(d_theta=1, d_x=1, gradients=f, theta_terms=[1, 2]), "theta_terms has 2 values"),
        (dict(d_theta=1, d_x=1, gradients=f, curvature=float("nan")), "curvature is nan"),
        (dict(d_theta=1, d_x=1, gradients=f, default_step_size="x"), "default_step_size is 'x'"),
    ]:
        with pytest.raises(ValueError, match=words):
            motes.Model(**arguments)
    with pytest.raises(ValueError, match="seed is -1"):
        motes.check_model(motes.Model(1, 1, f), seed=-1)


def test_a_model_may_have_a_start_of_its_own():
    f = lambda theta, x: (0 * x - theta, -x)  # noqa: E731
    settings = dict(particles=3, steps=5, step_size=0.1, **QUIET)
    model = motes.Model(2, 2, f, start=np.array([3, 4]))
    assert paper(model, **settings).theta_trace[0].tolist() == [3, 4]
    assert paper(model, init_theta=[5, 6], **settings).theta_trace[0].tolist() == [5, 6]
    assert paper(motes.Model(2, 2, f), **settings).theta_trace[0].tolist() == [0, 0]
    for start, words in [([1], "start has 1 values; give one for each of 2"), ([1, np.inf], r"start\[1\] is inf")]:
        with pytest.raises(ValueError, match=words):
            motes.Model(2, 2, f, start=start)


def test_names_reach_the_files(tmp_path):
    f = lambda theta, x: (0 * x - theta, -x)  # noqa: E731
    names = {"theta": ["level, or so", "slope"], "x": ["u", "v"]}
    model = motes.Model(2, 2, f, names=names, name="line")
    fit = paper(model, particles=3, steps=5, step_size=0.1, out=tmp_path / "run")
    assert list(fit.trace) == ["k", "level, or so", "slope"]
    assert fit.theta_names == names["theta"] and fit.x_names == names["x"]
    loaded = motes.load(tmp_path / "run", model=model)
    np.testing.assert_array_equal(loaded.theta_trace, fit.theta_trace)
    longer = loaded.resume(9, **QUIET)
    whole = paper(model, particles=3, steps=9, burn_in=2, step_size=0.1)
    np.testing.assert_array_equal(longer.particles, whole.particles)
    assert longer.trace["k"][-1] == 9 and "line by pgd" in longer.summary()
    with pytest.raises(ValueError, match="give it as model="):
        motes.load(tmp_path / "run")


def test_the_command_line_refuses_what_it_cannot_resume(cli, tmp_path):
    model = motes.Model(1, 1, lambda theta, x: (x - theta, theta - x), name="mine")
    paper(model, particles=3, steps=5, out=tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()
    cli("report", tmp_path / "run")
    cli("resume", tmp_path / "run", "--steps", 9, code=2)


def test_missing_pieces_are_named():
    model = motes.Model(1, 1, lambda theta, x: (x - theta, theta - x))
    with pytest.raises(ValueError, match='pqn needs the theta-Hessian.*algorithm="pgd"'):
        paper(model, algorithm="pqn")
    with pytest.raises(ValueError, match="the log density"):
        paper(model, adjust=True)


SCRIPT = """
import time, warnings
import numpy as np
import motes

def gradients(theta, x):
    {work}
    return (x - theta).sum(axis=1, keepdims=True), theta - 2 * x

model = {model}
print("ready", flush=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit = motes.fit(model, "pgd", particles=20, steps=10**9, burn_in=5, keep_clouds=0,
                    trace_every=1000, threads=1, progress=False)
stopped = time.time()
assert not fit.complete and "interrupted after step" in str(caught[0].message), caught
again = fit.resume(callback=lambda step: step.k < fit.k + 3, progress=False)
assert again.k == fit.k + 3
whole = motes.fit(model, "pgd", particles=20, steps=10**9, burn_in=5, keep_clouds=0,
                  trace_every=1000, threads=1, progress=False, callback=lambda step: step.k < again.k)
assert whole.k == again.k
np.testing.assert_array_equal(whole.particles, again.particles)
print(stopped, flush=True)
"""


@pytest.mark.parametrize("kind", ["built-in", "python", "slow"])
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_stops_within_a_second_and_can_be_resumed(child, kind):
    model = "motes.Model(1, 4, gradients)" if kind != "built-in" else "motes.Hierarchical.generate(dim=20000)"
    work = "time.sleep(0.05)" if kind == "slow" else "pass"
    script = textwrap.dedent(SCRIPT).replace("{work}", work).replace("{model}", model)
    process = child(script)
    assert process.stdout.readline() == "ready\n"
    interrupt(process, 0.7, lambda: last_words(process))


WARM = """
import time, warnings
import numpy as np
import motes

model = motes.Hierarchical([1.0, 2.0])
settings = dict(algorithm="pgd", particles=3, steps=9, progress=False)
print("ready", flush=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit = motes.fit(model, warm_start="1x1000000000", out={out}, **settings)
print(time.time(), flush=True)
assert fit.k == 0 and not fit.complete and "interrupted after step 0" in str(caught[0].message), caught
assert fit.theta.shape == (1,) and fit.particles.shape == (3, 2) and len(fit.trace["k"]) == 0
"""

AUTO = """
import time
import numpy as np
import motes

random = np.random.default_rng(0)
model = motes.LogisticRegression(random.normal(size=(20000, 800)), random.integers(2, size=20000))
print("ready", flush=True)
try:
    fit = motes.fit(model, "pgd", particles=1, steps=10**9, progress=False)
    assert not fit.complete
except KeyboardInterrupt:
    pass  # before the first step
print(time.time(), flush=True)
"""


@pytest.mark.parametrize("script", [WARM.format(out=None), WARM, AUTO], ids=["warm", "directory", "auto"])
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_stops_what_comes_before_the_first_step(child, script, tmp_path):
    process = child(script.replace("{out}", repr(str(tmp_path / "run"))))
    assert process.stdout.readline() == "ready\n"
    interrupt(process, 0.3, lambda: last_words(process))


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("out", [None, "run"])
def test_a_warm_start_that_was_stopped_begins_again(out, tmp_path):
    calls = 0

    def gradients(theta, x):
        nonlocal calls
        calls += 1
        if calls == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)
        return x - theta, theta - 2 * x

    model = motes.Model(1, 1, gradients)
    settings = dict(particles=3, steps=9, step_size=0.1, warm_start="1x20", **QUIET)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.warns(RuntimeWarning, match="interrupted after step 0 of 9"):
            fit = paper(model, out=out and tmp_path / out, **settings)
    finally:
        signal.signal(signal.SIGINT, before)
    assert fit.k == 0 and calls < 20
    resumed, whole = fit.resume(), paper(model, **settings)
    np.testing.assert_array_equal(resumed.particles, whole.particles)
    np.testing.assert_array_equal(resumed.theta_trace, whole.theta_trace)


def test_callback_sees_every_step_and_may_stop():
    model, steps = motes.Hierarchical([1.0, 2.0]), []
    fit = paper(model, particles=3, steps=10, callback=steps.append)
    assert [s.k for s in steps] == list(range(11))
    np.testing.assert_array_equal([s.theta[0] for s in steps], fit.trace["theta"])
    assert steps[1].step_size > 0 and steps[1].acceptance is None
    short = paper(model, particles=3, steps=10, callback=lambda s: s.k < 4)
    assert short.k == 4 and not short.complete
    np.testing.assert_array_equal(short.resume(**QUIET).particles, fit.particles)
    few = []
    paper(model, particles=3, steps=10, callback=few.append, callback_every=4)
    assert [s.k for s in few] == [0, 4, 8]

    def failing(step):
        raise LookupError(f"at {step.k}")

    with pytest.raises(LookupError, match="at 0"):
        paper(model, particles=3, steps=10, callback=failing)
