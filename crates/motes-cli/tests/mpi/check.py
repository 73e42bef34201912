"""Runs that several processes share leave the files of one, and end together whatever happens to one of them."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

SHARED, USUAL = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
TOY = "fit hierarchical --algorithm pgd --dim 4000 --groups 1 --particles 40 --seed 6 --quiet --no-report"
LONG = f"{TOY} --no-assess --steps 4000 --burn-in 10 --checkpoint-every 200 --threads 1"
LIMIT = 120
place = pathlib.Path(tempfile.mkdtemp(prefix="motes-mpi-"))


def command(ranks, words):
    words = words.split()
    return [SHARED, *words] if ranks == 0 else ["mpirun", "-n", str(ranks), SHARED, *words]


def start(ranks, words, **more):
    return subprocess.Popen(
        command(ranks, words), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def make(ranks, words, code=0):
    process = start(ranks, words)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == code, f"{words} on {ranks} ranks: exit code {process.returncode}\n{out}{err}"
    return out + err


def contents(run):
    """The files of a run directory, without what tells times or depends on the place."""
    found = {}
    for path in sorted((place / run).rglob("*")):
        name = str(path.relative_to(place / run))
        if not path.is_file() or name == "report.html":
            continue
        data = path.read_bytes()
        if name == "summary.json":
            data = "\n".join(line for line in data.decode().split("\n") if "second" not in line).encode()
        if name.startswith("checkpoint"):
            (length,) = struct.unpack("<Q", data[:8])
            header = json.loads(data[8 : 8 + length])
            own = json.loads(header["__metadata__"]["motes"])
            del own["seconds"]
            data = json.dumps([header, own] if header.pop("__metadata__") else [], sort_keys=True).encode() + data[8 + length : -4]
        found[name] = data
    # Of the generations of checkpoints the last one counts.
    generations = sorted(name for name in found if name.startswith("checkpoint/0"))
    return {name: data for name, data in found.items() if name not in generations[:-1]}


def same(run, other):
    left, right = contents(run), contents(other)
    assert left.keys() == right.keys(), f"{run} has {sorted(left)}, {other} has {sorted(right)}"
    for name in left:
        assert left[name] == right[name], f"{name} of {run} and {other} differ"


def processes_of(process, name="motes"):
    """The ranks that an mpirun has started, in their order."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = status.read_text()
        except OSError:
            continue
        pid, rest = text.split(" (", 1)
        comm, rest = rest.rsplit(") ", 1)
        if comm == name and int(rest.split()[1]) == process.pid:
            found.append(int(pid))
    return sorted(found)


def begun(run, process):
    """Waits for the first checkpoint."""
    since = time.monotonic()
    while not list((place / run / "checkpoint").glob("*")):
        assert process.poll() is None and time.monotonic() - since < LIMIT, f"{run} does not begin"
        time.sleep(0.05)


def ends(process):
    since = time.monotonic()
    out, err = process.communicate(timeout=60)
    return process.returncode, out + err, time.monotonic() - since


def bits():
    for name, words in {
        "toy": f"{TOY} --steps 40 --burn-in 10 --adjust --step-size 0.01",
        "auto": "fit hierarchical --dim 6000 --particles 8 --seed 3 --max-evaluations 400 --quiet --no-report",
        "logistic": "fit logistic --algorithm pqn --particles 300 --steps 40 --burn-in 10 --seed 3 --metrics-every 5 --quiet --no-report",
        "bnn": "fit bnn --algorithm pgd --particles 30 --steps 6 --burn-in 2 --subsample 100 --no-assess --seed 3 --quiet --no-report",
    }.items():
        subprocess.run([USUAL, *words.split(), "--out", f"{name}-0"], cwd=place, check=True, timeout=LIMIT)
        for ranks in (1, 2, 3, 4, 7):
            make(ranks, f"{words} --threads {1 + ranks % 2} --out {name}-{ranks}")
            same(f"{name}-{ranks}", f"{name}-0")


def a_killed_rank():
    make(0, f"{LONG} --out whole")
    process = start(3, f"{LONG} --out killed")
    begun("killed", process)
    os.kill(processes_of(process)[1], signal.SIGKILL)
    code, _, seconds = ends(process)
    assert code == 137 and seconds < 30, (code, seconds)
    for ranks in (5, 0):
        assert (place / "killed" / "checkpoint").is_dir()
        subprocess.run(["cp", "-r", "killed", f"resumed-{ranks}"], cwd=place, check=True)
        make(ranks, f"resume resumed-{ranks} --quiet --no-report --threads 1")
        same(f"resumed-{ranks}", "whole")


def signals():
    for number, to in [(signal.SIGTERM, "mpirun"), (signal.SIGINT, "mpirun"), (signal.SIGTERM, "a rank")]:
        run = f"{number.name}-{to[0]}"
        process = start(3, f"{LONG} --out {run}")
        begun(run, process)
        os.kill(process.pid if to == "mpirun" else processes_of(process)[1], number)
        code, _, seconds = ends(process)
        assert code == 1 and seconds < 30, (run, code, seconds)
        make(2, f"resume {run} --quiet --no-report --threads 1")
        same(run, "whole")


def failures():
    said = make(3, f"{TOY} --steps 40 --step-size 1e15 --out diverged", 2)
    assert said.count("diverged at step") == 1 and len(said.strip().split("\n")) == 1, said
    for words, part in [
        ("fit hierarchical --algorithm soul --out r", "several ranks cannot share"),
        ("fit hierarchical --algorithm pgd --replicates 3 --out r", "--replicates"),
        ("fit hierarchical --algorithm pgd --dim x --out r", "--dim"),
        ("report diverged", "fit and resume"),
        (f"{TOY} --steps 9 --out diverged", "diverged"),
    ]:
        said = make(2, words, 2)
        assert part in said and said.count("motes:") == 1, said
    apart = ["mpirun", "-n", "1", SHARED, *TOY.split(), "--steps", "9", "--out", "s", ":", "-n", "1", SHARED]
    apart += [*TOY.split(), "--steps", "8", "--out", "s"]
    done = subprocess.run(apart, cwd=place, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2 and "ranks 0 and 1 have different settings" in done.stderr, done


def a_frozen_rank():
    """A rank that neither works nor dies holds the others up; it is for the launcher to end them, and no checkpoint is lost."""
    process = start(3, f"{LONG} --out frozen")
    begun("frozen", process)
    os.kill(processes_of(process)[2], signal.SIGSTOP)
    time.sleep(2)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGTERM)
    ends(process)
    make(2, "resume frozen --quiet --no-report --threads 1")
    same("frozen", "whole")


def without_a_launcher():
    """MPI is not initialised: that alone would take longer than the whole. Here it could not be."""
    words = "fit hierarchical --algorithm pgd --dim 10 --particles 3 --steps 5 --burn-in 1 --no-assess --no-report --quiet --out"
    broken = {**os.environ, "OMPI_MCA_pml": "none-of-them"}
    for ranks, works in [(0, True), (1, True), (2, False)]:
        done = subprocess.run(command(ranks, f"{words} small-{ranks}"), cwd=place, env=broken, capture_output=True, timeout=LIMIT)
        assert (done.returncode == 0) == works, (ranks, done)


for check in (bits, a_killed_rank, signals, failures, a_frozen_rank, without_a_launcher):
    since = time.monotonic()
    check()
    print(f"test-mpi: {check.__name__.replace('_', ' ')}: as it should be ({time.monotonic() - since:.0f} s)", flush=True)
subprocess.run(["rm", "-r", str(place)], check=True)
