"""Data for the peers: the same rows, standardisation and splits that Motes uses.

  wbc()          -> features (683,9) standardised with the population std over all complete rows, labels (683,)
  split(n,seed)  -> train/test row indices equal to scikit-learn's train_test_split(test_size=.2, random_state=seed)
  mnist49()      -> 1000 images of 4s and 9s (1000,784), standardised where not constant, labels, row indices
The data folder is data/ at the root of the repository, or $MOTES_DATA.
"""
import csv, gzip, math, os
from pathlib import Path
import numpy as np

DATA = Path(os.environ.get('MOTES_DATA', Path(__file__).resolve().parents[2] / 'data'))


def wbc(path=DATA / 'wisconsin-breast-cancer.csv'):
    rows = list(csv.reader(open(path)))[1:]
    keep = [i for i, r in enumerate(rows) if '?' not in r]
    f = np.array([[float(c) for c in rows[i][1:10]] for i in keep])
    f = (f - f.mean(0)) / f.std(0)
    return f, np.array([float(rows[i][10] == 'malignant') for i in keep]), np.array(keep)


def split(n, seed, n_train=None):
    n_test = math.ceil(0.2 * n) if n_train is None else n - n_train
    p = np.random.RandomState(seed).permutation(n)
    return p[n_test:n if n_train is None else n_test + n_train], p[:n_test]


def idx(path):
    raw = (gzip.open if str(path).endswith('.gz') else open)(path, 'rb').read()
    nd = raw[3]
    dims = [int.from_bytes(raw[4 + 4 * i:8 + 4 * i], 'big') for i in range(nd)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * nd).reshape(dims)


def mnist49(folder=DATA / 'mnist'):
    im = idx(folder / 'train-images-10k-idx3-ubyte.gz').reshape(-1, 784)
    lb = idx(folder / 'train-labels-10k-idx1-ubyte.gz')
    rows = np.where((lb == 4) | (lb == 9))[0]
    rows = rows[split(rows.size, 0, n_train=1000)[0]]
    x = im[rows].astype(np.float64)
    s = x.std(0)
    i = s != 0
    x[:, i] = (x[:, i] - x[:, i].mean(0)) / s[i]
    return x, (lb[rows] == 9).astype(np.int32), rows
