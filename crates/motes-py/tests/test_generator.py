"""The generator network: the same bits as the command line, and everything that its users give or press."""

import json
import os

import numpy as np
import pytest
from conftest import growth, interrupt, last_words

import motes

QUIET = dict(progress=False)
TINY = dict(particles=2, steps=3, batch=8, **QUIET)


@pytest.fixture(scope="module")
def fit():
    return motes.fit(motes.Generator.mnist(64), **TINY)


def assert_same(a, b):
    for name in ["config.toml", "trace.csv", "posterior.npz", "weights.safetensors"]:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    one, other = (json.loads((d / "summary.json").read_text()) for d in (a, b))
    one.pop("time"), other.pop("time")
    assert one == other


CASES = {
    "pgd": dict(particles=2, steps=3, batch=8, batchnorm="one-pass", seed=3),
    "abp": dict(algorithm="abp", epochs=1, batch=40, transitions=2, step_size=1e-3, theta_rate=2e-3),
    "short-run": dict(algorithm="short-run", steps=2, batch=8, transitions=2, sigma=0.02),
    "vae": dict(algorithm="vae", steps=2, batch=8, lambda_=0.1),
}


@pytest.mark.parametrize("case", CASES)
def test_files_equal_those_of_the_command_line(case, cli, tmp_path):
    settings, there, here, saved = CASES[case], tmp_path / "there", tmp_path / "here", tmp_path / "saved"
    flags = [w for k, v in settings.items() for w in (f"--{k.rstrip('_').replace('_', '-')}", v)]
    cli("fit", "generator", "--images", 64, *flags, "--out", there, "--no-report", "--quiet")
    model = motes.Generator.mnist(64)
    fit = motes.fit(model, **settings, out=here, report=False, threads=1, **QUIET)
    assert_same(there, here)
    assert fit.path == str(here) and fit.complete
    in_memory = motes.fit(model, **settings, **QUIET)
    assert in_memory.path is None
    in_memory.save(saved, report=False)
    assert_same(there, saved)
    np.testing.assert_array_equal(in_memory.loss, fit.loss)
    with np.load(there / "posterior.npz") as arrays:
        np.testing.assert_array_equal(arrays["particles"], in_memory.particles)
    np.testing.assert_array_equal(motes.load(there).particles, fit.particles)


def test_tasks_equal_those_of_the_command_line(cli, fit, tmp_path):
    fit.save(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()

    def made(*args):
        cli(*args[:1], tmp_path / "run", *args[1:], "--quiet")
        return np.load(max(tmp_path.glob("run/*.npy"), key=lambda p: p.stat().st_mtime_ns))

    np.testing.assert_array_equal(made("reconstruct", "--count", 5), fit.reconstruct(5))
    np.testing.assert_array_equal(made("interpolate", "--from", 3, "--to", 9), fit.interpolate(3, 9))
    for source in ["prior", "gaussian", "labels"]:
        there = made("synthesize", "--from", source, "--count", 5, "--seed", 1)
        np.testing.assert_array_equal(there, fit.synthesize(5, source, seed=1))
    there = made("synthesize", "--from", "mixture", "--components", 2, "--count", 5)
    np.testing.assert_array_equal(there, fit.synthesize(5, "mixture", components=2))
    here = fit.inpaint(steps=4, **QUIET)
    np.testing.assert_array_equal(made("inpaint", "--steps", 4), here)
    hole = np.zeros((32, 32), dtype=bool)
    hole[10:22, 10:22] = True
    np.testing.assert_array_equal(fit.inpaint(fit.test_images(), hole, steps=4, **QUIET), here)
    assert here.shape == (16, 1, 32, 32) and np.abs(here).max() <= 1


def test_a_fit_goes_on_as_if_it_had_not_stopped(cli, fit, tmp_path):
    model = motes.Generator.mnist(64)
    whole = motes.fit(model, **{**TINY, "steps": 6})
    whole = motes.fit(model, **{**TINY, "steps": 6, "burn_in": 1})
    longer = fit.resume(6, **QUIET)
    np.testing.assert_array_equal(longer.loss, whole.loss)
    np.testing.assert_array_equal(longer.particles, whole.particles)
    assert (fit.k, len(fit.loss)) == (3, 3), "the fit that was resumed stays as it was"
    np.testing.assert_array_equal(fit.resume(4, **QUIET).loss, whole.loss[:4])
    # A callback stops it; here, there and back it goes on.
    steps = []
    stopped = motes.fit(
        model, **{**TINY, "steps": 6}, out=tmp_path / "run", callback=lambda s: steps.append(s) or s.k < 2
    )
    assert [s.k for s in steps] == [0, 1, 2] and steps[2].scalars["loss"] == stopped.loss[1] and not steps[0].scalars
    assert not stopped.complete and stopped.k == 2 and stopped.particles.shape == (2, 64, 64)
    stopped.save(tmp_path / "copy")
    cli("resume", tmp_path / "copy", "--quiet")
    again = motes.load(tmp_path / "run")
    assert not again.complete and again.k == 2
    np.testing.assert_array_equal(again.decode(np.zeros((1, 64))), stopped.decode(np.zeros((1, 64))))
    again.resume(**QUIET)
    for run in ["run", "copy"]:
        done = motes.load(tmp_path / run)
        assert done.complete and "6 steps" in done.summary()
        np.testing.assert_array_equal(done.loss, whole.loss)
        np.testing.assert_array_equal(done.particles, whole.particles)
    with pytest.raises(ValueError, match="^steps=2 is the new total and 6 were asked for"):
        whole.resume(2, **QUIET)


def test_arrays_equal_the_images_they_came_from(cli, fit, tmp_path):
    values = fit.model.images
    assert values.shape == (64, 1, 32, 32) and values.dtype == np.float32
    pixels = np.rint((values + 1) * 127.5).astype(np.uint8)
    read_only = pixels[:, 0].copy()
    read_only.flags.writeable = False
    awkward = np.asfortranarray(np.repeat(pixels, 2, axis=0)[::2])
    labels = np.arange(64) % 2
    for images in [values, values.astype(np.float64), pixels, read_only, awkward, pixels.astype(np.int64)]:
        model = motes.Generator(images, labels)
        np.testing.assert_array_equal(model.images, values)
    given = motes.fit(model, **TINY)
    np.testing.assert_array_equal(given.particles, fit.particles)
    # In a directory they lie beside the config, and move with it.
    given.save(tmp_path / "a")
    os.rename(tmp_path / "a", tmp_path / "moved")
    cli("resume", tmp_path / "moved", "--steps", 4, "--quiet")
    cli("synthesize", tmp_path / "moved", "--from", "labels", "--count", 2, "--quiet")
    longer = motes.load(tmp_path / "moved")
    np.testing.assert_array_equal(longer.loss, fit.resume(4, **QUIET).loss)
    made = longer.synthesize(2, "labels")
    np.testing.assert_array_equal(np.load(tmp_path / "moved" / "synthesize-labels.npy"), made)
    with pytest.raises(ValueError, match="all images of .* were trained on; name others with images"):
        longer.test_images()


def test_images_of_other_sizes_and_colours_are_taken():
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 40, 36), dtype=np.uint8)
    fit = motes.fit(motes.Generator(images), particles=1, steps=1, batch=6, **QUIET)
    assert fit.model.channels == 3 and fit.reconstruct(2).shape == (2, 3, 32, 32)
    assert motes.Generator(np.full((1, 3, 32, 32), 0.5)).images[0, 2, 5, 7] == pytest.approx(0.5, abs=1 / 255)


def test_images_of_a_file_are_those_of_the_command_line(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    header = bytes([0, 0, 8, 3]) + b"".join(n.to_bytes(4, "big") for n in pixels.shape)
    (tmp_path / "images.idx").write_bytes(header + pixels.tobytes())
    read = motes.Generator.from_path(tmp_path / "images.idx")
    np.testing.assert_array_equal(read.images, motes.Generator(pixels).images)
    assert len(motes.Generator.from_path(tmp_path / "images.idx", images=2)) == 2


ZEROS = np.zeros((4, 32, 32), dtype=np.uint8)


@pytest.mark.parametrize(
    "images, labels, words",
    [
        (ZEROS[0], None, r"^images has shape \(32, 32\); give \(images, height, width\)"),
        (np.zeros((4, 2, 32, 32)), None, r"^images has shape .* with 1 or 3 channels"),
        (np.zeros((4, 32, 32, 3)), None, r"^images has shape .* images.transpose\(0, 3, 1, 2\)"),
        (ZEROS[:0], None, "^images has shape .* holds no data"),
        (np.zeros((4, 0, 32)), None, "^images has shape .* holds no data"),
        (ZEROS.astype(complex), None, "^images has dtype complex128"),
        (ZEROS.astype(str), None, "^images has dtype"),
        (ZEROS.astype(bool), None, "^images has dtype bool"),
        ([[1, 2], [3]], None, "^images is not an array|^images has dtype object"),
        (ZEROS + 200.0, None, r"^images holds 200.0; scale floats to \[-1, 1\]"),
        (ZEROS * np.nan, None, "^images holds nan"),
        (ZEROS.astype(int) - 1, None, "^images holds -1"),
        (np.zeros((1, 4, 1000), dtype=np.uint8), None, "^images has images of 1000 x 4 pixels"),
        (ZEROS, [1, 2], r"^labels has shape \(2,\); give \(4,\)"),
        (ZEROS, [1, 2, 3, 256], "^labels must be whole numbers from 0 to 255"),
        (ZEROS, [1.0, 2.0, 3.0, 4.0], "^labels must be whole"),
    ],
)
def test_bad_images_are_refused(images, labels, words):
    with pytest.raises(ValueError, match=words):
        motes.Generator(images, labels)


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(algorithm="soul"), "algorithm of the generator .*soul.*pgd"),
        (dict(particles=0), "^particles=0 leaves no"),
        (dict(particles=1.5), "^particles is 1.5; give a whole number"),
        (dict(transitions=3), "^transitions means nothing to pgd"),
        (dict(precision="f64"), "^the generator works in single precision"),
        (dict(batch=63, particles=1), "^with batch=63 the last batch of 64 images holds a single one"),
        (dict(step_size=-1.0), "^step_size=-1 is not a positive"),
        (dict(sigma="x"), "^sigma: "),
        (dict(lambda_=0.1, theta_rate=0.1), "^theta_rate and lambda_ say the same"),
        (dict(batchnorm="three"), "^batchnorm: "),
        (dict(steps=2, epochs=2), "^steps and epochs"),
        (dict(epochs=0), "^epochs=0 leaves nothing"),
        (dict(threads=0), "^threads"),
        (dict(particles=10**9), "^this (training|run) needs .* particles"),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        motes.fit(motes.Generator.mnist(64), **{**QUIET, **settings})


def test_other_bad_input_is_refused(fit, tmp_path):
    with pytest.raises(ValueError, match="no setting 'epoch'; did you mean epochs"):
        motes.fit(fit.model, epoch=3)
    with pytest.raises(ValueError, match="cannot take 20000 images of the 10000 .* choose images from 1 to"):
        motes.Generator.mnist(20_000)
    with pytest.raises(ValueError, match="^channels=2 is not possible"):
        motes.Generator.mnist(2, channels=2)
    with pytest.raises(FileNotFoundError, match="cannot read .* check the path"):
        motes.Generator.from_path(tmp_path / "none")
    for work, words in [
        (lambda: fit.decode(np.zeros((2, 63))), r"^latents has shape \(2, 63\); give \(images, 64\)"),
        (lambda: fit.decode(np.full((1, 64), np.inf)), "^latents holds values that are not finite"),
        (lambda: fit.decode(np.zeros((0, 64))), "^latents has shape"),
        (lambda: fit.interpolate(0, 64), "^j is 64; choose from 0 to 63"),
        (lambda: fit.interpolate(0, 1, count=1), "^count is 1"),
        (lambda: fit.synthesize(0), "^count is 0"),
        (lambda: fit.synthesize(source="else"), "'else'"),
        (lambda: fit.synthesize(components=3), '^components belongs to source="mixture"'),
        (lambda: fit.inpaint(np.zeros((1, 28, 28))), r"^images has shape \(1, 28, 28\); give \(images, 1, 32, 32\)"),
        (lambda: fit.inpaint(mask=(0, 0, 40, 3)), r"^mask is \(0, 0, 40, 3\)"),
        (lambda: fit.inpaint(mask=np.ones((32, 32))), "^mask has shape"),
        (lambda: fit.inpaint(mask=np.ones((32, 32), dtype=bool)), "^mask leaves no pixel"),
        (lambda: fit.inpaint(steps=0), "^steps is 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            work()
    with pytest.raises(ValueError, match="is not empty"):
        (tmp_path / "file").write_text("")
        fit.save(tmp_path)


def test_a_step_that_is_too_large_is_a_diverged_error(fit):
    with pytest.raises(motes.DivergedError, match="try step_size=0.0001$") as caught:
        motes.fit(fit.model, **TINY, step_size=1e5)
    assert caught.value.step >= 1 and caught.value.step_size == 1e5 and caught.value.suggestion == 1e-4


def test_an_exception_of_the_callback_comes_back(fit):
    def fail(step):
        raise ZeroDivisionError("in the callback")

    with pytest.raises(ZeroDivisionError, match="in the callback") as caught:
        motes.fit(fit.model, **TINY, callback=fail)
    assert caught.traceback[-1].name == "fail"


def test_a_generator_is_a_fit_like_any_other(fit):
    assert isinstance(fit, motes.Fit) and fit.diagnostics["verdict"] != "ok"
    assert fit.scalars["loss"] == pytest.approx(fit.loss.mean())
    assert fit.posterior_mean.shape == (64, 64) and fit.theta.size > 300_000 and len(fit.theta_names) == 8
    fits = motes.fit(fit.model, **TINY, replicates=2)
    assert len(fits) == 2 and (fits[0].particles == fit.particles).all()


SCRIPT = """
import time, warnings
import numpy as np
import motes

model = motes.Generator.mnist({batch})
settings = dict(particles={particles}, steps=10**6, batch={batch}, threads=1, progress=False)
print("ready", flush=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fit = motes.fit(model, **settings)
stopped = time.time()
assert not fit.complete and "interrupted after step" in str(caught[0].message), caught
again = fit.resume(callback=lambda step: step.k <= fit.k, progress=False)
whole = motes.fit(model, **settings, callback=lambda step: step.k < again.k)
np.testing.assert_array_equal(whole.particles, again.particles)
print(stopped, "ready", flush=True)
try:
    fit.inpaint(fit.test_images(4), steps=10**6, progress=False)
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""


# Steps of milliseconds, and the paper's, each of which takes seconds.
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("particles, batch", [(1, 64), (10, 128)])
def test_ctrl_c_stops_within_a_second_and_can_be_resumed(child, particles, batch):
    process = child(SCRIPT.format(particles=particles, batch=batch))
    assert process.stdout.readline() == "ready\n"

    def again():
        line = process.stdout.readline()
        assert line.endswith("ready\n"), process.communicate(timeout=60)
        return line

    interrupt(process, 1.0, again)
    interrupt(process, 0.2, lambda: last_words(process))


@pytest.mark.parametrize("algorithm", ["pgd", "vae"])
def test_a_hundred_trainings_leak_nothing(algorithm):
    model = motes.Generator.mnist(2)

    def one():
        fit = motes.fit(model, algorithm=algorithm, steps=1, batch=2, threads=1, report=False, **QUIET)
        fit.particles, fit.summary(), fit.decode(fit.particles[0])

    # The weights and what the optimiser remembers take 3 MB: one leaked in each training would be 300 MB.
    grown = growth(one, 100)
    assert grown < 1 << 20, f"{grown / 2**20:.2f} MiB more after a hundred trainings"
