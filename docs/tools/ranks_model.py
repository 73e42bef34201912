"""The model behind the table for many ranks in docs/clusters.md: it measures nothing.

A rank is one core. Collectives take ALPHA for each doubling of the ranks, and what they carry takes its bytes over BANDWIDTH; a rank
has whole blocks. What every rank does for all rows by itself takes OWN for each number of them.
"""

import math

ALPHA, BANDWIDTH, OWN = 10e-6, 10e9, 1e-9
RANKS = (8, 32, 128, 512, 1000)

#: Seconds of work in a step, blocks, collectives, numbers in the sums, and numbers of all rows that are exchanged.
CASES = {
    "pgd, 10^6 groups of one latent variable, N = 100": (5.1e-9 * 1e8, 6135, 3, 1, 0),
    "pgd, 10^8 observations in 10^6 groups, N = 10, 16 sums": (10e-9 * 1e9, 10_000, 3, 16, 0),
    "auto, the same with 5 leapfrog steps": (10e-9 * 1e9 * 6, 10_000, 8, 16 * 10 + 256, 6 * 1e7),
    "pgd, 1000 groups of one latent variable, N = 1000": (5.1e-9 * 1e6, 63, 3, 1, 0),
}

for name, (work, blocks, collectives, sums, rows) in CASES.items():
    cells = []
    for ranks in RANKS:
        depth = math.ceil(math.log2(ranks))
        nodes = sums * 8 * ranks * math.ceil(math.log2(max(2, blocks / ranks)))
        time = work * math.ceil(blocks / ranks) / blocks + collectives * depth * ALPHA
        time += (nodes + 8 * rows) / BANDWIDTH + OWN * rows
        cells.append(f"{100 * work / ranks / time:.0f}")
    print("|", name, "|", " | ".join(cells), "|")
