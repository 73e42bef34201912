"""Coefficients, predictions with intervals, several classes, and weights."""

import csv

import numpy as np
import pytest

import motes

QUIET = dict(progress=False)


def drawn(rows=300, classes=2, seed=0):
    """Features on odd scales, and labels that lean on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) * [10.0, 0.01, 1.0] + [50.0, 0.0, 3.0]
    standard = (X - [50.0, 0.0, 3.0]) / [10.0, 0.01, 1.0]
    logits = standard @ rng.normal(size=(3, classes)) * 1.5
    noisy = logits + rng.gumbel(size=logits.shape)
    return X, np.array([f"c{k}" for k in noisy.argmax(axis=1)])


def test_coefficients_are_those_of_the_files(tmp_path):
    X, y = drawn()
    fit = motes.fit(motes.LogisticRegression(X, y, feature_names=["a", "b", "c"]), out=tmp_path / "run", **QUIET)
    told = fit.coefficients
    assert list(told["name"]) == ["a", "b", "c", "intercept"] and "class" not in told
    with open(tmp_path / "run" / "coefficients.csv") as file:
        rows = list(csv.DictReader(file))
    assert sorted(rows[0]) == sorted(told)
    for name, column in told.items():
        if name != "name":
            there = [float(row[name] or "nan") for row in rows]
            np.testing.assert_allclose(column, there, rtol=1e-12, err_msg=name)
    # By hand: weights are per standard deviation of their column.
    np.testing.assert_allclose(told["mean"][:3], fit.posterior_mean[:3] / X.std(axis=0))
    intercept = fit.posterior_mean[3] - (fit.posterior_mean[:3] / X.std(axis=0)) @ X.mean(axis=0)
    np.testing.assert_allclose(told["mean"][3], intercept)
    assert (told["low"] < told["mean"]).all() and (told["mean"] < told["high"]).all()
    assert motes.load(tmp_path / "run").coefficients["mean"].tolist() == told["mean"].tolist()
    assert motes.fit(motes.Hierarchical([1.0, 2.0]), **QUIET).coefficients is None


def test_intervals_of_predictions_are_quantiles_over_draws():
    X, y = drawn()
    fit = motes.fit(motes.LogisticRegression(X, y), **QUIET)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    t = scaled @ fit.clouds[:, :3].T + fit.clouds[:, 3]
    second = 1.0 / (1.0 + np.exp(-t))
    p = fit.predict_proba(X)
    own = np.where((p[:, 1] > p[:, 0])[:, None], second, 1.0 - second)
    for level in (0.95, 0.5):
        wanted = np.quantile(own, [0.5 - level / 2, 0.5 + level / 2], axis=1).T
        np.testing.assert_allclose(fit.predict_interval(X, level), wanted, atol=1e-9)
    np.testing.assert_array_equal(fit.predict_interval(X), fit.predict_interval(X, 0.95))
    with pytest.raises(ValueError, match="level is 2"):
        fit.predict_interval(X, 2)


def test_several_classes(tmp_path):
    X, y = drawn(classes=4)
    model = motes.MultinomialRegression(X, y, test_fraction=0.25)
    fit = motes.fit(model, out=tmp_path / "run", **QUIET)
    assert fit.ok and model.classes.tolist() == ["c0", "c1", "c2", "c3"]
    told = fit.coefficients
    sums = [told["mean"][told["name"] == name].sum() for name in ("x1", "x2", "x3", "intercept")]
    np.testing.assert_allclose(sums, 0.0, atol=1e-9 * np.abs(told["mean"]).max())
    p = fit.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    right = model.classes[p.argmax(axis=1)] == y
    assert right.mean() > 1.0 - fit.metrics["baseline_error"]
    assert np.array(fit.test["confusion"]).sum() == 75 and fit.test["roc"] is None
    low, high = fit.predict_interval(X).T
    assert (low <= high).all() and (low <= p.max(axis=1) + 1e-12).all()
    loaded = motes.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(X), p)
    with pytest.raises(ValueError, match="y has 1 class"):
        motes.MultinomialRegression(X, ["a"] * len(X))


def test_weights_count_rows(tmp_path):
    X, y = drawn(rows=100)
    weights = 2 * (np.arange(100) % 3)
    again = np.repeat(np.arange(100), weights)
    settings = dict()
    for kind in (motes.LogisticRegression, motes.MultinomialRegression):
        a = motes.fit(kind(X, y, weights=weights, **settings), out=tmp_path / kind.__name__, **QUIET)
        b = motes.fit(kind(X[again], y[again], **settings), **QUIET)
        assert abs(a.theta_mean - b.theta_mean) < 4 * np.hypot(a.mc_error, b.mc_error)
        assert abs(a.loglik - b.loglik) < 0.1 and abs(a.bic - b.bic) < 0.2
        # They are kept with the data.
        finer = motes.resume(tmp_path / kind.__name__, tolerance=0.03, **QUIET)
        assert abs(finer.theta_mean - a.theta_mean) < 4 * a.mc_error
    with pytest.raises(ValueError, match="row 1 has the weight -1"):
        motes.LogisticRegression(X, y, weights=-np.ones(100))
    with pytest.raises(ValueError, match="2 weights for 100 rows"):
        motes.LogisticRegression(X, y, weights=[1.0, 1.0])
    with pytest.raises(ValueError, match="are 0"):
        motes.LogisticRegression(X, y, weights=np.zeros(100))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_estimator_takes_frames_of_numbers_and_refuses_words(library):
    pytest.importorskip("sklearn")
    pd, other = pytest.importorskip("pandas"), pytest.importorskip(library)

    from motes.sklearn import EmpiricalBayesLogisticRegression

    X, y = drawn()
    frame = pd.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    as_given = {"pandas": lambda f: f, "polars": lambda f: other.from_pandas(f), "pyarrow": lambda f: other.Table.from_pandas(f)}[library]
    model, expected = EmpiricalBayesLogisticRegression().fit(as_given(frame), y), EmpiricalBayesLogisticRegression().fit(X, y)
    # Frames have another order in memory, in which means are rounded otherwise.
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(as_given(frame)), expected.predict_proba(X), rtol=1e-6)
    assert list(model.feature_names_in_) == list(frame)
    for words in (np.where(X[:, 0] > 0, "much", "little"), pd.Categorical(np.where(X[:, 0] > 0, "much", "little"))):
        with pytest.raises(ValueError, match="X has words in column 'dose'; put a OneHotEncoder before"):
            EmpiricalBayesLogisticRegression().fit(as_given(frame.assign(dose=words)), y)


def test_the_estimator_takes_weights_classes_and_sparse_matrices():
    pytest.importorskip("sklearn")
    sparse = pytest.importorskip("scipy.sparse")
    from sklearn.base import clone

    from motes.sklearn import EmpiricalBayesLogisticRegression

    X, y = drawn(classes=3)
    model = EmpiricalBayesLogisticRegression().fit(X, y)
    assert model.verdict_ == "ok" and model.coef_.shape == (3, 3) and model.intercept_.shape == (3,)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-9 * np.abs(model.coef_).max())
    assert model.coef_interval_.shape == (3, 3, 2) and model.intercept_interval_.shape == (3, 2)
    low, high = np.moveaxis(model.coef_interval_, -1, 0)
    assert (low < model.coef_).all() and (model.coef_ < high).all()
    assert model.score(X, y) > 0.6 and model.decision_function(X).shape == (300, 3)
    # The same as the model by itself.
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    fit = motes.fit(motes.MultinomialRegression(scaled, y, standardize=False), **QUIET)
    np.testing.assert_allclose(model.predict_proba(X), fit.predict_proba(scaled), atol=1e-9)
    again = clone(model).set_params(n_jobs=-1).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.predict_proba(sparse.csr_matrix(X)), model.predict_proba(X))
    # Balanced classes: the rare one is named more often.
    X, y = drawn(rows=400, seed=3)
    rare, common = np.unique(y, return_counts=True)[0][np.argsort(np.unique(y, return_counts=True)[1])]
    keep = (y == common) | (np.arange(400) % 5 == 0)
    X, y = X[keep], y[keep]
    plain, balanced = (EmpiricalBayesLogisticRegression(class_weight=w).fit(X, y) for w in (None, "balanced"))
    assert (balanced.predict(X) == rare).sum() > (plain.predict(X) == rare).sum()
    by_hand = np.where(y == rare, 0.5 * len(y) / (y == rare).sum(), 0.5 * len(y) / (y == common).sum())
    weighted = EmpiricalBayesLogisticRegression().fit(X, y, sample_weight=by_hand)
    np.testing.assert_array_equal(weighted.coef_, balanced.coef_)
    with pytest.raises(ValueError, match="give weights of 0 or more"):
        EmpiricalBayesLogisticRegression(class_weight={common: -1, rare: 1}).fit(X, y)
    # A class that does not count is still one.
    X, y = drawn(classes=3)
    model = EmpiricalBayesLogisticRegression().fit(X, y, sample_weight=(y != "c0").astype(float))
    assert model.predict_proba(X).shape == (300, 3)
    with pytest.raises(ValueError, match="leave learn and prior_variance out"):
        EmpiricalBayesLogisticRegression(learn="mean").fit(*drawn(classes=3))
