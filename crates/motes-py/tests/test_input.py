"""Bad input is a ValueError that names the argument; awkward input is taken."""

import numpy as np
import pytest

import motes

QUIET = dict(progress=False)


@pytest.mark.parametrize("cls", [motes.LogisticRegression, motes.BayesianNeuralNetwork])
@pytest.mark.parametrize(
    "X, y, words",
    [
        (np.zeros(3), [0, 1, 0], r"X has shape \(3,\)"),
        (np.zeros((3, 2, 1)), [0, 1, 0], r"X has shape \(3, 2, 1\)"),
        (np.zeros((0, 2)), [], r"X has shape \(0, 2\) and holds no data"),
        (np.zeros((3, 0)), [0, 1, 0], "X has shape"),
        (np.array([["a"], ["b"]]), [0, 1], "X has dtype"),
        (np.array([["a"], [1]], dtype=object), [0, 1], "X holds values that are not numbers"),
        (np.array([[1j], [2]]), [0, 1], "X has dtype complex128"),
        ([[1.0], [np.nan]], [0, 1], r"X\[1, 0\] is nan"),
        ([[1.0], [2.0]], [0, 1, 1], "y has 3 labels and X has 2 rows"),
        ([[1.0], [2.0]], [[0], [1]], r"y has shape \(2, 1\)"),
        ([[1.0], [2.0]], [1, 1], "y has 1 class"),
        ([[1.0], [2.0]], [0.0, np.nan], "y holds labels that are not finite"),
        ([[1.0], [2.0]], ["?", "b"], "stands for a missing value"),
        ([[1.0], [2.0, 3.0]], [0, 1], "X is not an array"),
    ],
)
def test_bad_data_are_refused(cls, X, y, words):
    with pytest.raises(ValueError, match=words):
        cls(X, y)


def test_other_bad_data_are_refused():
    X = np.arange(8.0).reshape(4, 2)
    with pytest.raises(ValueError, match="y has 3 class"):
        motes.LogisticRegression(X, [0, 1, 2, 2])
    with pytest.raises(ValueError, match="prior_variance=-1"):
        motes.LogisticRegression(X, [0, 1, 0, 1], -1)
    with pytest.raises(ValueError, match="prior_variance"):
        motes.LogisticRegression(X, [0, 1, 0, 1], "wide")
    with pytest.raises(ValueError, match="feature_names has 1 names; give 2"):
        motes.LogisticRegression(X, [0, 1, 0, 1], feature_names=["a"])
    with pytest.raises(ValueError, match="constant"):
        motes.LogisticRegression(np.ones((4, 1)), [0, 1, 0, 1], standardize=True)
    with pytest.raises(ValueError, match="test_fraction"):
        motes.LogisticRegression(X, [0, 1, 0, 1], test_fraction=1.5)
    with pytest.raises(ValueError, match="hidden"):
        motes.BayesianNeuralNetwork(X, [0, 1, 0, 1], hidden=0)
    with pytest.raises(ValueError, match=r"y has shape \(0,\)"):
        motes.Hierarchical([])
    with pytest.raises(ValueError, match=r"y\[1\] is inf"):
        motes.Hierarchical([1.0, np.inf])
    with pytest.raises(ValueError, match="cannot read the data .*nowhere.csv"):
        motes.LogisticRegression.from_csv("nowhere.csv")


def test_awkward_arrays_are_taken(rows):
    X, y = rows
    expected = motes.fit(motes.LogisticRegression(X, y), particles=4, steps=5, **QUIET).particles
    locked = X.copy()
    locked.setflags(write=False)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    assert not wide.flags.c_contiguous
    for other in [np.asfortranarray(X), locked, wide, X[::-1][::-1], X.tolist(), X.astype(object)]:
        fit = motes.fit(motes.LogisticRegression(other, y), particles=4, steps=5, **QUIET)
        np.testing.assert_array_equal(fit.particles, expected)
    for labels in [y.astype(bool), y.astype(float), np.array(["no", "yes"])[y], y.tolist()]:
        fit = motes.fit(motes.LogisticRegression(X, labels), particles=4, steps=5, **QUIET)
        np.testing.assert_array_equal(fit.particles, expected)
    fit.predict_proba(locked), fit.predict_proba(np.asfortranarray(X))
    single = motes.fit(motes.LogisticRegression(X.astype(np.float32), y), particles=4, steps=5, **QUIET)
    np.testing.assert_allclose(single.particles, expected, atol=1e-5)


def test_labels_have_the_order_of_the_command_line(rows):
    X, y = rows
    model = motes.LogisticRegression(X, np.array(["10", "9"])[y])
    assert model.classes.tolist() == ["9", "10"]
    p = motes.fit(model, particles=20, steps=50, **QUIET).predict_proba(X)
    swapped = motes.fit(motes.LogisticRegression(X, 1 - y), particles=20, steps=50, **QUIET).predict_proba(X)
    np.testing.assert_array_equal(p, swapped)


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(particles=0), "particles=0"),
        (dict(particles=2.5), "particles"),
        (dict(particles=-1), "particles"),
        (dict(steps=0), "steps=0"),
        (dict(steps="many"), "steps"),
        (dict(burn_in=10, steps=10), "burn_in=10"),
        (dict(step_size=-1.0), "step_size=-1"),
        (dict(step_size=float("nan")), "step_size is nan"),
        (dict(step_size="big"), "step_size: .*neither a number nor auto"),
        (dict(algorithm="pgf"), "did you mean pgd"),
        (dict(preconditioner="adma"), "did you mean adam"),
        (dict(threads=0), "threads is 0"),
        (dict(seed=-1), "seed"),
        (dict(batch=1), "mini-batches"),
        (dict(precision="f16"), "precision.*f32"),
        (dict(callback=3), "callback is 3"),
        (dict(callback_every=0), "callback_every is 0"),
        (dict(replicates=0), "replicates is 0"),
        (dict(grow=[(1, 2)]), "grow 1:2 starts below"),
        (dict(metrics_every=3), "a test set"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        motes.fit(motes.Hierarchical([1.0, 2.0]), **settings, **QUIET)


def test_unknown_settings_are_refused():
    with pytest.raises(TypeError, match="did you mean init_theta"):
        motes.fit(motes.Hierarchical([1.0]), init_teta=1)
    with pytest.raises(TypeError, match="no setting 'hidden'"):
        motes.fit(motes.Hierarchical([1.0]), hidden=1)
    with pytest.raises(ValueError, match="model is 3"):
        motes.fit(3)


def test_directories_are_not_overwritten(tmp_path):
    fit = motes.fit(motes.Hierarchical([1.0]), particles=2, steps=5, **QUIET)
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and is left as it is"):
        fit.save(tmp_path)
    with pytest.raises(ValueError, match="is not empty"):
        motes.fit(motes.Hierarchical([1.0]), steps=5, out=tmp_path, **QUIET)
    with pytest.raises(ValueError, match="not a run directory"):
        motes.load(tmp_path)
    with pytest.raises(OSError, match="cannot"):
        fit.save("/proc/nowhere/run")


def test_nothing_is_written_without_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    motes.fit(motes.LogisticRegression.wisconsin(), particles=3, steps=5, **QUIET).predict_proba(np.zeros((1, 9)))
    assert list(tmp_path.iterdir()) == []


def test_predictions_refuse_other_shapes(rows):
    X, y = rows
    fit = motes.fit(motes.LogisticRegression(X, y), particles=4, steps=5, **QUIET)
    with pytest.raises(ValueError, match="X has 2 columns and the model was fitted to 3"):
        fit.predict_proba(X[:, :2])
    with pytest.raises(ValueError, match="X has shape"):
        fit.predict_proba(X[0])
    with pytest.raises(ValueError, match="predicts no classes"):
        motes.fit(motes.Hierarchical([1.0]), particles=2, steps=5, **QUIET).predict_proba(X)
    with pytest.raises(ValueError, match="new total"):
        fit.resume(2, **QUIET)
