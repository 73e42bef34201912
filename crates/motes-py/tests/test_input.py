"""Bad input is a ValueError that names the argument; awkward input is taken."""

import numpy as np
import pytest
from conftest import numpy_logistic, paper

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
        (np.ma.masked_less([[1.0], [2.0]], 2), [0, 1], "X is not an array .*masked"),
        ([[1.0], [10**400]], [0, 1], "X holds values that are not numbers"),
        ([[1.0], [2.0]], [0, [1, 2]], "y is not an array"),
        ([[1.0], [2.0]], ["infinity", "b"], "stands for a missing value"),
        ([[1.0], [2.0]], ["1", "1.0"], "the labels '1' and '1.0', which a file would not tell apart"),
        ([[1.0], [2.0]], [" a", "a"], "the labels ' a' and 'a', which"),
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
    with pytest.raises(ValueError, match="no column varies"):
        motes.LogisticRegression(np.ones((4, 1)), [0, 1, 0, 1], standardize=True)
    with pytest.raises(ValueError, match="test_fraction"):
        motes.LogisticRegression(X, [0, 1, 0, 1], test_fraction=1.5)
    with pytest.raises(ValueError, match="hidden"):
        motes.BayesianNeuralNetwork(X, [0, 1, 0, 1], hidden=0)
    with pytest.raises(ValueError, match=r"y has shape \(0,\)"):
        motes.Hierarchical([])
    with pytest.raises(ValueError, match=r"y\[1\] is inf"):
        motes.Hierarchical([1.0, np.inf])
    for make in [motes.LogisticRegression.from_csv, motes.Hierarchical.from_csv, motes.Generator.from_path]:
        with pytest.raises(FileNotFoundError, match="nowhere.csv"):
            make("nowhere.csv")
    with pytest.raises(FileNotFoundError, match="dir nowhere is not there"):
        motes.load("nowhere")


@pytest.mark.parametrize(
    "make, settings, words",
    [
        (motes.LogisticRegression, dict(prior_variance=np.nan), "prior_variance is nan"),
        (motes.LogisticRegression, dict(test_fraction=np.nan), "test_fraction is nan"),
        (motes.LogisticRegression, dict(split_seed="a"), "split_seed is 'a'"),
        (motes.LogisticRegression, dict(split_seed=1.5), "split_seed is 1.5"),
        (motes.LogisticRegression, dict(intercept="no"), "intercept is 'no'; give True or False"),
        (motes.LogisticRegression, dict(standardize=2), "standardize is 2"),
        (motes.BayesianNeuralNetwork, dict(hidden="x"), "hidden is 'x'"),
        (motes.BayesianNeuralNetwork, dict(hidden=2.7), "hidden is 2.7"),
        (motes.BayesianNeuralNetwork, dict(hidden=2**70), "below 2"),
        (motes.BayesianNeuralNetwork, dict(hidden=10**13), "hidden is 1.*0: this run needs .* use fewer hidden units"),
        (motes.BayesianNeuralNetwork, dict(hidden=2**62), "hidden is 4.*4: this run needs .* use fewer hidden units"),
    ],
    ids=str,
)
def test_bad_arguments_of_a_model_are_refused(make, settings, words, rows):
    with pytest.raises(ValueError, match=words):
        repr(make(*rows, **settings))


def test_generated_data_take_numbers_of_any_kind():
    assert motes.Hierarchical.generate(dim=np.int64(5), true_theta=np.float32(2)).groups == 5
    with pytest.raises(ValueError, match="true_theta is nan"):
        motes.Hierarchical.generate(true_theta=np.nan)
    with pytest.raises(ValueError, match="dim is 2.5"):
        motes.Hierarchical.generate(dim=2.5)
    with pytest.raises(ValueError, match="hidden is .*this run needs"):
        motes.BayesianNeuralNetwork.mnist(subsample=100, hidden=10**12)


def test_awkward_arrays_are_taken(rows):
    X, y = rows
    expected = paper(motes.LogisticRegression(X, y), particles=4, steps=5).particles
    locked = X.copy()
    locked.setflags(write=False)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    assert not wide.flags.c_contiguous
    for other in [np.asfortranarray(X), locked, wide, X[::-1][::-1], X.tolist(), X.astype(object)]:
        fit = paper(motes.LogisticRegression(other, y), particles=4, steps=5)
        np.testing.assert_array_equal(fit.particles, expected)
    for labels in [y.astype(bool), y.astype(float), np.array(["no", "yes"])[y], y.tolist()]:
        fit = paper(motes.LogisticRegression(X, labels), particles=4, steps=5)
        np.testing.assert_array_equal(fit.particles, expected)
    fit.predict_proba(locked), fit.predict_proba(np.asfortranarray(X))
    single = paper(motes.LogisticRegression(X.astype(np.float32), y), particles=4, steps=5)
    np.testing.assert_allclose(single.particles, expected, atol=1e-5)


def test_labels_have_the_order_of_the_command_line(rows):
    X, y = rows
    model = motes.LogisticRegression(X, np.array(["10", "9"])[y])
    assert model.classes.tolist() == ["9", "10"]
    p = paper(model, particles=20, steps=50).predict_proba(X)
    swapped = paper(motes.LogisticRegression(X, 1 - y), particles=20, steps=50).predict_proba(X)
    np.testing.assert_array_equal(p, swapped)


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(particles=0), "particles=0"),
        (dict(particles=2.5), "particles"),
        (dict(particles=-1), "particles"),
        (dict(steps=0), "steps=0"),
        (dict(steps="many"), "steps"),
        (dict(steps=-1), "steps is -1; give a whole number"),
        (dict(algorithm="em", step_size=0.1), "em .* step_size has no meaning"),
        (dict(algorithm="em", particles=7), "em .* particles has no meaning"),
        (dict(out=""), "out is ''; give a path"),
        (dict(out=3), "out is 3; give a path"),
        (dict(burn_in=10, steps=10), "burn_in=10"),
        (dict(step_size=-1.0), "step_size=-1"),
        (dict(step_size=float("nan")), "step_size is nan"),
        (dict(step_size="big"), "step_size: .*neither a number nor auto"),
        (dict(algorithm="pgf"), "did you mean pgd"),
        (dict(preconditioner="adma"), "did you mean adam"),
        (dict(threads=0), "threads is 0"),
        (dict(seed=-1), "seed"),
        (dict(batch=3), "batch=3 is more than the 2 groups"),
        (dict(batch=1, algorithm="pmgd"), "pmgd needs all data in each step"),
        (dict(precision="f16"), "precision.*f32"),
        (dict(callback=3), "callback is 3"),
        (dict(callback_every=0), "callback_every is 0"),
        (dict(replicates=0), "replicates is 0"),
        (dict(grow=[(1, 2)]), 'grow="1:2" starts below'),
        (dict(metrics_every=3), "a test set"),
        (dict(budget=0), "budget is 0; give a positive number of seconds"),
        (dict(budget="long"), "budget is 'long'"),
        (dict(strict="yes"), "strict is 'yes'; give True or False"),
        (dict(level=1), "level=1 is not between 0 and 1"),
        (dict(tolerance=0.1), 'tolerance is for auto, and pgd .* algorithm="auto"'),
        (dict(algorithm="auto", particles=1), "particles=1 are too few for auto"),
        (dict(algorithm="auto", tolerance=0), "tolerance=0"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        paper(motes.Hierarchical([1.0, 2.0]), **settings)


@pytest.mark.parametrize(
    "setting, words",
    [
        (dict(steps=100), "auto finds its own length; leave steps out or name algorithm=\"pgd\""),
        (dict(burn_in=10), "auto finds its own length; leave burn_in out"),
        (dict(step_size=0.1), "auto finds its own steps, so step_size has no meaning"),
        (dict(step_decay=(0.5, 100)), "step_decay"),
        (dict(grow={2: 50}), "grow"),
        (dict(preconditioner="adam"), "preconditioner"),
        (dict(adjust=True), "adjust"),
        (dict(warm_start="1x5"), "warm_start"),
        (dict(batch=1), "batch"),
    ],
    ids=str,
)
def test_the_default_algorithm_refuses_what_it_has_no_use_for(setting, words, rows):
    """Nothing that is given changes the algorithm in silence."""
    for model in [motes.Hierarchical([1.0, 2.0]), motes.LogisticRegression(*rows), numpy_logistic(*rows)]:
        if "batch" in setting and isinstance(model, motes.Model):
            continue
        with pytest.raises(ValueError, match=words):
            motes.fit(model, **setting, **QUIET)


def test_backquotes_from_elsewhere_are_no_settings(tmp_path):
    table = tmp_path / "`seed`.csv"
    table.write_text("`no-standardize`,y\n" + "1,`lab`\n1,b\n" * 5)
    with pytest.raises(ValueError, match="no column varies in the rows to train on"):
        motes.LogisticRegression.from_csv(table)
    with pytest.raises(ValueError, match="no column '`seed`' as target asks for"):
        motes.LogisticRegression.from_csv(table, target="`seed`")
    with pytest.raises(ValueError, match="there is no algorithm '`seed`'"):
        motes.fit(motes.Hierarchical([1.0, 2.0]), algorithm="`seed`", **QUIET)
    own = motes.Model(1, 1, lambda theta, x: (x - theta, theta - x), name="`from`")
    with pytest.raises(ValueError, match="the model `from` does not give"):
        motes.fit(own, algorithm="pqn", steps=5, step_size=0.1, **QUIET)


def test_whole_numbers_may_be_floats():
    fits = paper(
        motes.Hierarchical([1.0]), particles=2.0, steps=3.0, threads=1.0, callback_every=2.0, replicates=1.0, **QUIET
    )
    assert len(fits) == 1 and fits[0].steps == 3


def test_unknown_settings_are_refused():
    with pytest.raises(ValueError, match="fit has no setting 'init_teta'; did you mean init_theta"):
        motes.fit(motes.Hierarchical([1.0]), init_teta=1)
    with pytest.raises(ValueError, match="fit has no setting 'hidden'; it belongs to the model bnn"):
        motes.fit(motes.Hierarchical([1.0]), hidden=1)
    with pytest.raises(ValueError, match="model is 3"):
        motes.fit(3)
    with pytest.raises(ValueError, match="wisconsin has no setting 'algorithm'; give it to motes.fit"):
        motes.LogisticRegression.wisconsin(algorithm="pmgd")
    with pytest.raises(ValueError, match="no setting 'prior_varience'; did you mean prior_variance"):
        motes.LogisticRegression.wisconsin(prior_varience=2.0)


def test_theta_starts_where_it_is_told(tmp_path):
    model = motes.BayesianNeuralNetwork([[0.0], [1.0]], [0, 1], hidden=2)
    file = tmp_path / "start.txt"
    file.write_text("0.5\n-0.25\n")
    settings = dict(particles=2, steps=3)
    for start in [[0.5, -0.25], (0.5, -0.25), np.array([0.5, -0.25], dtype=np.float32), file, str(file)]:
        fit = paper(model, init_theta=start, **settings)
        assert fit.theta_trace[0].tolist() == [0.5, -0.25]
        assert fit.settings["init-theta"] == [0.5, -0.25]
    for start in [2, 2.0, np.float32(2), np.array(2.0), "2"]:
        assert paper(model, init_theta=start, **settings).theta_trace[0].tolist() == [2, 2]
    for start, words in [
        ([1.0], "init_theta"),
        ([1.0, np.nan], r"init_theta\[1\] is nan"),
        ([[1.0, 2.0]], "init_theta has shape"),
        (np.inf, "init_theta is inf"),
        ("", "init_theta is ''; give a path"),
    ]:
        with pytest.raises(ValueError, match=words):
            paper(model, init_theta=start, **settings)
    file.write_text("0.5\nx\n")
    with pytest.raises(ValueError, match="init_theta: .*line 2: 'x' is not a finite number"):
        paper(model, init_theta=file, **settings)
    with pytest.raises(FileNotFoundError, match="init_theta: cannot read the numbers for theta .*nowhere"):
        paper(model, init_theta=tmp_path / "nowhere", **settings)


def test_every_setting_is_documented():
    for name in motes._registry.run_options():
        assert name in motes.fit.__doc__, name
    for name in motes._registry.algorithms():
        assert name in motes.fit.__doc__, name
    assert "{" not in motes.fit.__doc__


def test_runs_of_other_settings_are_refused_and_damage_is_told(tmp_path):
    run = tmp_path / "run"
    model = motes.Hierarchical([1.0, 2.0])
    fit = paper(model, particles=2, steps=30, checkpoint_every=10, step_size=0.1, out=run)
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace("step-size = 0.1", "step-size = 0.2"))
    with pytest.raises(ValueError, match="config.toml was changed since .*; put it back, or fit the model again"):
        motes.load(run)
    (run / "config.toml").write_text(config)
    older, newest = sorted((run / "checkpoint").iterdir())
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.warns(RuntimeWarning, match="the older generation is used"):
        loaded = motes.load(run)
    assert loaded.k == 20 and not loaded.complete
    with pytest.warns(RuntimeWarning, match="the older generation is used"):
        again = loaded.resume(**QUIET)
    np.testing.assert_array_equal(again.particles, fit.particles)
    for file in (run / "checkpoint").iterdir():
        file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no older checkpoint; fit the model again"):
        motes.load(run)


def test_a_run_whose_data_are_gone_is_refused(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("y\n1\n2\n")
    paper(motes.Hierarchical.from_csv(data), particles=2, steps=5, out=tmp_path / "run")
    data.unlink()
    with pytest.raises(FileNotFoundError, match="data.csv"):
        motes.load(tmp_path / "run")


def test_runs_go_on_by_the_name_of_their_directory(tmp_path):
    model = motes.Hierarchical([1.0, 2.0])
    settings = dict(particles=3, burn_in=5, **QUIET)
    paper(model, steps=10, out=tmp_path / "run", **settings)
    longer = motes.resume(tmp_path / "run", steps=20, **QUIET)
    np.testing.assert_array_equal(longer.particles, paper(model, steps=20, **settings).particles)
    assert longer.path == str(tmp_path / "run")
    with pytest.raises(ValueError, match="new total"):
        motes.resume(tmp_path / "run", steps=2, **QUIET)


def test_directories_are_not_overwritten(tmp_path):
    fit = paper(motes.Hierarchical([1.0]), particles=2, steps=5)
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not empty and is left as it is"):
        fit.save(tmp_path)
    with pytest.raises(ValueError, match="is not empty"):
        paper(motes.Hierarchical([1.0]), steps=5, out=tmp_path)
    with pytest.raises(ValueError, match="not a run directory"):
        motes.load(tmp_path)
    with pytest.raises(OSError, match="cannot"):
        fit.save("/proc/nowhere/run")


def test_a_damaged_trace_is_refused(tmp_path):
    paper(motes.Hierarchical([1.0]), particles=2, steps=5, out=tmp_path / "run")
    file = tmp_path / "run" / "trace.csv"
    good = file.read_bytes()
    header = good[: good.index(b"\n") + 1]
    for bad in [b"garbage", good[:-5], header.ljust(len(good), b"\xff"), header + b"1,2,3\n" * len(good)]:
        file.write_bytes(bad)
        with pytest.raises(ValueError, match="trace.csv is not what this run has written; put it back"):
            motes.load(tmp_path / "run")
    file.write_bytes(good + b"6,0.")  # half a line, of a run that was killed
    assert motes.load(tmp_path / "run").trace["k"].tolist() == [0, 1, 2, 3, 4, 5]


def test_no_path_is_not_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = motes.Hierarchical([1.0])
    generator = motes.fit(motes.Generator.mnist(4), particles=1, steps=1, batch=4, **QUIET)
    fits = paper(model, particles=2, steps=5, replicates=2)
    for write in [fits.save, fits[0].save, generator.save, motes.load]:
        with pytest.raises(ValueError, match="dir is ''; give a path"):
            write("")
    with pytest.raises(ValueError, match="out is ''; give a path"):
        motes.fit(generator.model, steps=1, out="", **QUIET)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_without_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paper(motes.LogisticRegression.wisconsin(), particles=3, steps=5).predict_proba(np.zeros((1, 9)))
    assert list(tmp_path.iterdir()) == []


def test_predictions_refuse_other_shapes(rows):
    X, y = rows
    fit = paper(motes.LogisticRegression(X, y), particles=4, steps=5)
    with pytest.raises(ValueError, match="X has 2 columns and the model was fitted to 3"):
        fit.predict_proba(X[:, :2])
    with pytest.raises(ValueError, match="X has shape"):
        fit.predict_proba(X[0])
    with pytest.raises(ValueError, match="predicts no classes"):
        paper(motes.Hierarchical([1.0]), particles=2, steps=5).predict_proba(X)
    with pytest.raises(ValueError, match="new total"):
        fit.resume(2, **QUIET)


def test_predictions_take_columns_by_name(rows, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    fit = paper(motes.LogisticRegression(frame, y), particles=4, steps=5, out=tmp_path / "run")
    expected = fit.predict_proba(X)
    shuffled = frame[["c", "b", "a"]].assign(more="text")
    for one in [fit, motes.load(tmp_path / "run")]:
        np.testing.assert_array_equal(one.predict_proba(shuffled), expected)
        with pytest.raises(ValueError, match="X has no column 'b'; give the columns"):
            one.predict_proba(frame[["a", "c"]])
    plain = paper(motes.LogisticRegression(X, y), particles=4, steps=5)
    np.testing.assert_array_equal(plain.predict_proba(frame), expected)


def test_many_classes_need_rows(tmp_path):
    X = np.arange(150.0).reshape(-1, 1)
    model = motes.BayesianNeuralNetwork(X, np.arange(150) % 30, hidden=2)
    assert model.classes.tolist() == list(range(30))
    paper(model, particles=2, steps=2).save(tmp_path / "run", report=False)
    assert len(motes.load(tmp_path / "run").model.classes) == 30
    with pytest.raises(ValueError, match="y has 150 classes in 150 rows; give at most 20, or 5 rows"):
        motes.BayesianNeuralNetwork(X, np.arange(150), hidden=2)


def test_a_network_is_tested_on_a_file_of_its_own(tmp_path):
    (tmp_path / "train.csv").write_text("a,kind\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(40)))
    (tmp_path / "test.csv").write_text("kind,a\n0,1\n1,2\n1,3\n")
    model = motes.BayesianNeuralNetwork.from_csv(tmp_path / "train.csv", hidden=2, test=tmp_path / "test.csv")
    assert any("40 rows to train on, 3 to test on" in note for note in model.notes)


def test_a_network_takes_what_the_command_line_takes(tmp_path):
    rows = "".join(f"{'blue' if i % 3 else 'red'},{i % 2}\n" for i in range(40))
    (tmp_path / "rows.csv").write_text("colour,kind\n" + rows)
    of_file = motes.BayesianNeuralNetwork.from_csv
    model = of_file(tmp_path / "rows.csv", hidden=2, reference={"colour": "red"}, products="dense")
    paper(model, particles=2, steps=2).save(tmp_path / "run", report=False)
    config = (tmp_path / "run" / "config.toml").read_text()
    assert 'reference = ["colour=red"]' in config and 'products = "dense"' in config
    with pytest.raises(ValueError, match="did you mean dense"):
        of_file(tmp_path / "rows.csv", products="dens")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_frames_give_what_pandas_gives(library):
    pd, other = pytest.importorskip("pandas"), pytest.importorskip(library)
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=60),
            "count": rng.integers(0, 9, 60),
            "colour": pd.Categorical(rng.choice(["red", "blue", "green"], 60)),
            "word": rng.choice(["a", "b"], 60),
            "is": rng.normal(size=60) > 0,
        }
    )
    y = rng.integers(0, 2, 60)
    if library == "polars":
        given, labels = other.from_pandas(frame), other.Series(y)
    else:
        given, labels = other.Table.from_pandas(frame), other.chunked_array([y[:20], y[20:]])
    fits = [paper(motes.LogisticRegression(X, of), particles=4, steps=5) for X, of in [(frame, y), (given, labels)]]
    assert fits[0].x_names == fits[1].x_names
    np.testing.assert_array_equal(fits[1].theta, fits[0].theta)
    expected = fits[0].predict_proba(frame)
    np.testing.assert_array_equal(fits[0].predict_proba(given), expected)
    np.testing.assert_array_equal(fits[1].predict_proba(given.select(list(frame)[::-1])), expected)
    with pytest.raises(ValueError, match="X has no column 'colour'; give the columns that the model was fitted to"):
        fits[1].predict_proba(given.select(["size", "count", "word", "is"]))


def test_the_first_of_pandas_categories_is_the_reference():
    pd = pytest.importorskip("pandas")
    words = np.random.default_rng(6).choice(["low", "middle", "high"], 60)
    y = np.arange(60) % 2
    for ordered in (True, False):
        dose = pd.Categorical(words, ["none", "low", "middle", "high"], ordered=ordered)
        frame = pd.DataFrame({"dose": dose, "word": words})
        # Nobody has taken none; words without an order go by the alphabet.
        expected = ["dose=high", "dose=middle", "word=low", "word=middle", "intercept"]
        assert motes.LogisticRegression(frame, y).x_names == expected
        named = motes.LogisticRegression(frame, y, feature_names=["a", "b"], reference={"b": "low"})
        assert named.x_names == ["a=high", "a=middle", "b=high", "b=middle", "intercept"]
        assert motes.LogisticRegression(frame, y, reference={"dose": "high"}).x_names[:2] == ["dose=low", "dose=middle"]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_the_first_of_other_ordered_categories_is_the_reference(library):
    pd, other = pytest.importorskip("pandas"), pytest.importorskip(library)
    words, y = ["low", "middle", "high"] * 20, np.arange(60) % 2
    levels = ["none", "low", "middle", "high"]
    if library == "polars":
        frames = [other.DataFrame({"dose": other.Series(words, dtype=other.Enum(levels))})]
    else:
        frame = pd.DataFrame({"dose": pd.Categorical(words, levels, ordered=True)})
        frames = [kind.from_pandas(frame, preserve_index=False) for kind in (other.Table, other.RecordBatch)]
    for frame in frames:
        model = motes.LogisticRegression(frame, y)
        assert model.x_names == ["dose=high", "dose=middle", "intercept"]


def test_series_in_another_order_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"size": np.arange(20.0)}, index=np.arange(20) + 100)
    y, weights = (pd.Series(np.arange(20) % k + (k == 3), index=frame.index) for k in (2, 3))
    motes.LogisticRegression(frame, y, weights=weights)
    with pytest.raises(ValueError, match=r"weights and X have different row labels; order it by weights.loc\[X.index\]"):
        motes.LogisticRegression(frame, y, weights=weights[::-1])
    with pytest.raises(ValueError, match=r"y and X have different row labels"):
        motes.LogisticRegression(frame, y[::-1])
    given = motes.LogisticRegression(frame, y, weights=weights[::-1].to_numpy())
    assert given.d_x == 2


def test_frames_of_words_are_read_as_the_command_line_reads_them(cli, tmp_path):
    pd = pytest.importorskip("pandas")
    random = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "dose": random.normal(size=60),
            "colour": random.choice(["red", "blue", "green"], size=60),
            "ill": random.integers(2, size=60).astype(bool),
            "site": ["Bonn"] * 60,
        }
    )
    y = random.choice(["no", "yes"], size=60)
    model = motes.LogisticRegression(frame, y, reference={"colour": "red"})
    assert model.x_names == ["dose", "colour=blue", "colour=green", "ill=True", "intercept"]
    assert "column 'site' is constant and was left out" in model.notes
    fit = paper(model, particles=4, steps=5, out=tmp_path / "here")
    frame.assign(y=y).to_csv(tmp_path / "d.csv", index=False)
    words = ["--algorithm", "pgd", "--particles", 4, "--steps", 5, "--no-assess", "--test-fraction", 0]
    cli("fit", "logistic", "--data", tmp_path / "d.csv", "--reference", "colour=red", *words, "--out", tmp_path / "there")
    np.testing.assert_array_equal(motes.load(tmp_path / "there").particles, fit.particles)
    p = fit.predict_proba(frame[::-1])
    np.testing.assert_array_equal(p[::-1], fit.predict_proba(frame))
    other = frame.assign(colour="pink")
    with pytest.raises(ValueError, match="'pink' in column 'colour'"):
        fit.predict_proba(other)
    red = fit.predict_proba(frame.assign(colour="red"))
    np.testing.assert_array_equal(fit.predict_proba(other, unknown="reference"), red)
