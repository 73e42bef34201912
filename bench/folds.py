"""Log loss over five folds: Motes as it comes beside scikit-learn's StandardScaler + LogisticRegressionCV.

    python bench/folds.py MOTES DIRECTORY [--write docs/tables.md]

MOTES is the command; DIRECTORY holds the files named below (those that are not there are left out); statsmodels brings
the other real tables. bench/folds.sh installs what it needs. Text columns are coded alike for both: scikit-learn
gets the dummies of the training rows. Times are of the processor, with one thread for each program, so that other work on
the machine changes them little.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import tempfile
import time
import warnings

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import numpy as np
import pandas as pd
import statsmodels.datasets
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

#: File, target, columns left out.
REAL = [
    ("bacteria.csv", "y", ["ID"]),
    ("birthwt.csv", "low", ["bwt"]),
    ("Pima.tr.csv", "type", []),
    ("Pima.te.csv", "type", []),
    ("titanic.csv", "survived", []),
    ("breast_cancer.csv", None, []),
    ("sm_spector.csv", "GRADE", []),
    ("infert.csv", "case", ["stratum", "pooled.stratum"]),
    ("wisconsin-breast-cancer.csv", "class", ["id"]),
]
#: The same of the tables that come with statsmodels.
OF_STATSMODELS = [
    ("anes96", "vote", []),
    ("ccard", "OWNRENT", []),
    ("fair", "affairs", []),
    ("modechoice", "choice", ["individual"]),
]
MARKS = "<!-- folds -->", "<!-- end of folds -->"


def real(directory: pathlib.Path):
    """Name, frame, target and columns to leave out of each real table."""
    for file, target, drop in REAL:
        path = directory / file
        if path.exists():
            frame = pd.read_csv(path, na_values=["?"])
            yield file.removesuffix(".csv"), frame, target or frame.columns[-1], drop
    for name, target, drop in OF_STATSMODELS:
        frame = getattr(statsmodels.datasets, name).load_pandas().data
        # Time spent in affairs becomes whether there was any; the other targets are 0 and 1 already.
        frame[target] = (frame[target] > 0).astype(int)
        yield name, frame, target, drop


def tables(directory: pathlib.Path):
    """Name, frame and target of each table, real ones first, in random order: some are sorted, which upsets inner folds."""
    for name, frame, target, drop in real(directory):
        frame = frame.dropna().drop(columns=drop)
        yield name, frame.sample(frac=1, random_state=0).reset_index(drop=True), target
    for name, informative in (("synthetic, 3 of 30 weights", 3), ("synthetic, 30 of 30 weights", 30)):
        X, y = make_classification(300, 30, n_informative=informative, n_redundant=0, random_state=7, class_sep=0.5)
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(30)])
        frame["y"] = y
        yield name, frame, "y"


def spent_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def by_motes(command: str, place: pathlib.Path, train: pd.DataFrame, test: pd.DataFrame, target: str):
    """The probability of the second class for each test row, that class, the verdict and the seconds of both commands."""
    train.to_csv(place / "train.csv", index=False)
    test.to_csv(place / "test.csv", index=False)
    run = place / "run"
    begun = spent_by_children()
    fit = [command, "fit", "logistic", "--data", place / "train.csv", "--target", target, "--test-fraction", "0"]
    subprocess.run([*fit, "--threads", "1", "--quiet", "--no-report", "--out", run], check=True)
    predict = [command, "predict", run, "--data", place / "test.csv", "--unknown", "reference"]
    out = subprocess.run([*predict, "--output", place / "out.csv"], capture_output=True, text=True)
    seconds = spent_by_children() - begun
    if out.returncode:
        raise RuntimeError(out.stderr)
    summary = json.loads((run / "summary.json").read_text())
    second = summary["data"]["classes"][1]
    p = pd.read_csv(place / "out.csv")[f"p({second})"].to_numpy()
    return p, second, summary["diagnostics"]["verdict"], seconds


def by_sklearn(train: pd.DataFrame, test: pd.DataFrame, target: str, second: str):
    """The same of scikit-learn."""
    begun = time.process_time()
    X = pd.get_dummies(train.drop(columns=target), drop_first=True).astype(float)
    Z = pd.get_dummies(test.drop(columns=target)).reindex(columns=X.columns, fill_value=0).astype(float)
    y = (train[target].astype(str) == second).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegressionCV(Cs=10, scoring="neg_log_loss", max_iter=5000)
        p = make_pipeline(StandardScaler(), model).fit(X, y).predict_proba(Z)[:, 1]
    return p, time.process_time() - begun


def losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return -np.where(y == 1, np.log(p), np.log1p(-p))


def compare(command: str, frame: pd.DataFrame, target: str):
    """Both losses of all rows, both times, and the verdicts."""
    ours, theirs, seconds, verdicts = [], [], np.zeros(2), []
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for train, test in folds.split(frame, frame[target].astype(str)):
        train, test = frame.iloc[train], frame.iloc[test]
        with tempfile.TemporaryDirectory() as place:
            p, second, verdict, spent = by_motes(command, pathlib.Path(place), train, test, target)
        q, other = by_sklearn(train, test, target, second)
        y = (test[target].astype(str) == second).to_numpy().astype(int)
        ours.append(losses(p, y))
        theirs.append(losses(q, y))
        seconds += spent, other
        verdicts.append(verdict)
    return np.concatenate(ours), np.concatenate(theirs), seconds, verdicts


def row(name: str, frame: pd.DataFrame, target: str, command: str) -> str:
    ours, theirs, seconds, verdicts = compare(command, frame, target)
    difference = ours - theirs
    error = difference.std(ddof=1) / math.sqrt(len(difference))
    good = difference.mean() <= max(0.002, error)
    said = ", ".join(f"{verdicts.count(v)} {v}" for v in sorted(set(verdicts)))
    cells = [name, str(len(frame)), f"{ours.mean():.4f}", f"{theirs.mean():.4f}", f"{difference.mean():+.4f} ± {error:.4f}"]
    cells += ["yes" if good else "**no**", f"{seconds[0]:.1f}", f"{seconds[1]:.1f}", said]
    line = "| " + " | ".join(cells) + " |"
    print(line, flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("motes")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    args = parser.parse_args()
    lines = [
        "| table | rows | Motes | LogisticRegressionCV | difference | no worse | processor s | scikit-learn, s | verdicts |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [row(name, frame, target, args.motes) for name, frame, target in tables(args.directory)]
    if args.write:
        text = args.write.read_text()
        before, rest = text.split(MARKS[0], 1)
        after = rest.split(MARKS[1], 1)[1]
        args.write.write_text(before + MARKS[0] + "\n" + "\n".join(lines) + "\n" + MARKS[1] + after)


if __name__ == "__main__":
    main()
