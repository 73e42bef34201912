"""Motes beside its peers: interleaved rounds, two threads each, minima compared. Prints Markdown, writes bench/out/latest.json.

In each round the peer's process makes some runs (compiled before, and warm), then Motes makes as many, each a process
of its own whose loop time is read from summary.json. The first round tries every variant of the peer; the fastest two go on.
"""
import argparse, datetime, json, os, re, shutil, statistics, subprocess, sys, tempfile, time
from dataclasses import dataclass
from pathlib import Path

import auto

HERE = Path(__file__).resolve().parent
OUT = HERE / 'out'
THREADS = 2
SECTIONS = ['toy', 'logistic', 'bnn', 'generator', 'start', 'auto', 'normals', 'limits']
NOT_YET = 'not there yet'


class NotYet(Exception):
    """The binary does not know the model."""


@dataclass
class Case:
    section: str
    name: str
    precision: str
    asked: float
    motes: list       # arguments of `motes fit`
    peer: list        # the peer's script and arguments
    variants: list    # further arguments, of which the fastest count
    reps: int         # runs of each side per round
    rounds: int = 0   # 0: as asked for


def cases():
    small = [f'--normal {n} --unroll {u}'.split() for n in ('erfinv', 'hash') for u in (1, 8)]
    pgd = [f'--normal {v}'.split() for v in ('erfinv', 'hash', 'hash --unroll 4', 'hash --layout ND', 'hash --layout ND --unroll 4')]
    hierarchical = [
        ('PGD D=10,000 N=1000 K=100', 'scale', (5, 2.5), ['--algorithm', 'pgd', '--dim', 10000, '--particles', 1000, '--steps', 100, '--step-size', 1e-4], [['--normal', 'hash']], 2),
        ('PGD D=100 N=10 K=300', 'fig1', (3, 3), ['--algorithm', 'pgd', '--dim', 100, '--particles', 10, '--steps', 300, '--step-size', 2 / 102], small, 25),
        ('PMGD D=1 N=100 K=20,000', 'fig2', (2.2, 3), ['--algorithm', 'pmgd', '--dim', 1, '--particles', 100, '--steps', 20000, '--step-size', 0.015], small, 15),
    ]
    for name, peer, asked, flags, variants, reps in hierarchical:
        for f, asked in zip(('f32', 'f64'), asked):
            # One group, as the peer has it.
            yield Case('toy', f'toy {name}', f, asked, ['hierarchical', '--groups', 1, *flags, '--precision', f],
                       ['peer_toy.py', '--f', f, '--cases', peer, '--reps', reps], variants, reps)
    for algorithm, n, asked in [('pgd', 1, (3.3, 3)), ('pgd', 10, (3, 3)), ('pgd', 100, (3, 3.3)), ('soul', 100, (4, 3.6))]:
        for f, asked in zip(('f32', 'f64'), asked):
            soul = algorithm == 'soul'
            flags = ['--particles', n, '--steps', 400, '--step-size', 0.01, '--precision', f, '--algorithm', algorithm]
            yield Case('logistic', f'logistic {algorithm.upper()} N={n} K=400', f, asked, ['logistic', *flags],
                       ['peer_blr.py', '--f', f, '--alg', algorithm, '--N', n, '--reps', 15], small if soul else pgd, 15)
    for algorithm, n, steps, dense, sparse in [('pgd', 1, 300, 1.0, 1.5), ('pgd', 10, 60, 1.2, 1.9), ('pgd', 100, 20, 1.2, 2.2), ('soul', 100, 10, 0.95, 1.3)]:
        for products, asked in [('dense', dense), ('sparse', sparse)]:
            flags = ['--particles', n, '--steps', steps, '--step-size', 0.1, '--algorithm', algorithm, '--products', products]
            yield Case('bnn', f'bnn {algorithm.upper()} N={n} K={steps} {products}', 'f32', asked, ['bnn', *flags],
                       ['peer_bnn.py', '--alg', algorithm, '--N', n, '--steps', steps, '--reps', 3],
                       [['--normal', 'erfinv'], ['--active', '--normal', 'hash']], 3)


def fit(motes, flags):
    """Loop and wall seconds of one run; its directory is on the same disk as users' runs would be, and removed."""
    folder = Path(tempfile.mkdtemp(dir=OUT, prefix='run-'))
    command = [motes, 'fit', *map(str, flags), '--threads', str(THREADS), '--quiet', '--out', str(folder)]
    try:
        began = time.perf_counter()
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        wall = time.perf_counter() - began
        if done.returncode != 0:
            if re.search(r'there is no (model|algorithm)', done.stderr):
                raise NotYet
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads((folder / 'summary.json').read_text())['time']['seconds'], wall
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def peer_ms(case, variant):
    """The peer's least time over its runs."""
    command = [sys.executable, *map(str, case.peer), *variant]
    done = subprocess.run(command, cwd=HERE / 'peers', capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
    return min(row['ms_min'] if 'ms_min' in row else row['ms_per_step_min'] * row['steps'] for row in rows)


def compare(case, motes, rounds):
    """The minima over the rounds, and every round's."""
    fit(motes, case.motes)
    peers = {' '.join(v): [] for v in case.variants}
    ours = []
    for r in range(rounds):
        best = sorted(peers, key=lambda v: min(peers[v], default=0))[:2 if r else None]
        for v in best:
            peers[v].append(peer_ms(case, v.split()))
            ours.append(1e3 * min(fit(motes, case.motes)[0] for _ in range(case.reps)))
    least = {v: min(ms) for v, ms in peers.items()}
    fastest, plain = min(least, key=least.get), least[' '.join(case.variants[0])]
    return dict(case=case.name, precision=case.precision, peer_ms=least[fastest], peer_variant=fastest, peer_plain_ms=plain, motes_ms=min(ours), ratio=least[fastest] / min(ours),
                asked=case.asked, met=least[fastest] / min(ours) >= case.asked, peer_rounds=peers, motes_rounds=ours, peer=' '.join(map(str, case.peer)),
                command='motes fit ' + ' '.join(map(str, case.motes)))


def digits(ms):
    return f'{ms:.0f}' if ms >= 100 else f'{ms:.3g}'


def comparisons(motes, sections, rounds, only):
    rows = []
    header = ('| case | precision | peer as it is, ms | peer at its best, ms | Motes ms | ratio to as it is | ratio to best | asked | best variant |\n'
              '|---|---|---:|---:|---:|---:|---:|---:|---|')
    for case in cases():
        if case.section not in sections or not re.search(only, f'{case.name} {case.precision}'):
            continue
        if not rows:
            print(header)
        try:
            row = compare(case, motes, rounds)
            cells = [digits(row['peer_plain_ms']), digits(row['peer_ms']), digits(row['motes_ms']), f"{row['peer_plain_ms'] / row['motes_ms']:.2f}",
                     f"{row['ratio']:.2f}", f'{case.asked}', f"`{row['peer_variant']}`"]
        except NotYet:
            row = dict(case=case.name, precision=case.precision, status=NOT_YET)
            cells = ['', '', NOT_YET, '', '', f'{case.asked}', '']
        rows.append(row)
        print('| ' + ' | '.join([case.name, case.precision, *cells]) + ' |', flush=True)
    if rows:
        print()
    return rows


# Without these, page faults cost PyTorch a third of its time.
TORCH_MEMORY = dict(MALLOC_MMAP_MAX_='0', MALLOC_TRIM_THRESHOLD_='9000000000', MALLOC_TOP_PAD_='67108864')


def generator(rounds):
    """A PGD step of the generator network at batch 128, N = 10, and decoding as many images: PyTorch and Motes by turns."""
    def lines(command, **more):
        done = subprocess.run(command, capture_output=True, text=True, **more)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        return json.loads([line for line in done.stdout.splitlines() if line.startswith('{')][-1])

    python = str(HERE.parent / subprocess.run(['bash', HERE / 'torch.sh'], check=True, capture_output=True, text=True).stdout.strip())
    bench = ['cargo', 'bench', '--quiet', '-p', 'motes-models', '--bench', 'generator', '--']
    subprocess.run([*bench, 'decode', '--batch', '1', '--reps', '1'], cwd=HERE.parent, check=True, capture_output=True)
    rows = []
    print('| generator, 1280 images | PyTorch s | Motes s | ratio | PyTorch processor s | Motes processor s | ratio | PyTorch peak MB | Motes peak MB | asked |')
    print('|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|')
    for name, ours, peer, asked in [('PGD step, two passes', 'two-pass', ['pgd_two_pass', '--chunk', '128'], 2.5),
                                    ('PGD step, one pass', 'one-pass', ['pgd_one_pass'], 2.5), ('decode', 'decode', ['decode', '--chunk', '128'], 2.4)]:
        theirs, mine = [], []
        for _ in range(rounds):
            theirs.append(lines([python, 'peer_generator.py', '--case', *peer, '--channels-last', '--threads', str(THREADS), '--reps', '3'],
                                cwd=HERE / 'peers', env={**os.environ, **TORCH_MEMORY}))
            mine.append(lines([*bench, ours, '--reps', '3', '--threads', str(THREADS)], cwd=HERE.parent))
        least = [min(r['s_min'] for r in theirs), min(r['s_min'] for r in mine)]
        # `own` is the peer's processor seconds per second at its least disturbed repetition.
        processor = [min(r['s_min'] * r['own_at_min'] for r in theirs), min(r['processor_s_min'] for r in mine)]
        peak = [max(r['rss_peak_mb'] for r in theirs), max(r['peak_mb'] for r in mine)]
        rows.append(dict(case=name, asked=asked, ratio=least[0] / least[1], peer_rounds=theirs, motes_rounds=mine))
        print(f'| {name} | {least[0]:.2f} | {least[1]:.2f} | {least[0] / least[1]:.2f} | {processor[0]:.1f} | {processor[1]:.1f} | {processor[0] / processor[1]:.2f} '
              f'| {peak[0]:.0f} | {peak[1]:.0f} | {asked} |', flush=True)
    print()
    return rows


def start(motes):
    """Wall time from the start of the process until it has written its files and ended."""
    rows = []
    print('| from start to files | least ms | median ms | asked ms | met |\n|---|---:|---:|---:|---|')

    def measure(name, command, asked, once):
        wall = [1e3 * once() for _ in range(21)][1:]
        row = dict(case=name, least_ms=min(wall), median_ms=statistics.median(wall), asked_ms=asked)
        rows.append(row)
        verdict = f"< {asked} | {'yes' if row['median_ms'] < asked else 'NO'}" if asked else ' | '
        print(f"| {name}: `{command}` | {digits(row['least_ms'])} | {digits(row['median_ms'])} | {verdict} |", flush=True)

    for name, flags in [('a small fit (300 steps)', ['--algorithm', 'pgd', '--steps', 300]), ('the default number of steps (5000)', ['--algorithm', 'pgd'])]:
        measure(name, ' '.join(['motes fit hierarchical', *map(str, flags)]), 100, lambda: fit(motes, ['hierarchical', *flags])[1])
    with tempfile.TemporaryDirectory(dir=OUT, prefix='run-') as folder:
        subprocess.run([motes, 'fit', 'hierarchical', '--quiet', '--out', folder], check=True)

        def report():
            began = time.perf_counter()
            subprocess.run([motes, 'report', folder], check=True, capture_output=True)
            return time.perf_counter() - began

        measure('its report', 'motes report RUN', None, report)
    print()
    return rows


def rates(crate, bench, names, runs=3):
    """Million items per second of each named benchmark, by `cargo bench`: the best of some runs of the fastest sample."""
    command = ['cargo', 'bench', '--quiet', '-p', crate, '--bench', bench, '--', *names]
    rates, instructions = {}, ''
    for _ in range(runs):
        done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        name = group = ''
        for line in done.stdout.splitlines():
            if line.startswith('instruction set'):
                instructions = line
            title = re.match(r'[│├╰─ ]*[├╰]─ (\w+|\(.*?\))', line)
            if title:
                nested = line.startswith(('│', ' '))
                group = group if nested else title[1]
                name = f'{group} {title[1]}' if nested else title[1]
            rate = re.search(r'([\d.]+) ([KMG])item/s', line)
            if rate:
                value = float(rate[1]) * {'K': 1e-3, 'M': 1, 'G': 1e3}[rate[2]]
                rates[name] = max(rates.get(name, 0), value)
    return rates, instructions


def products():
    """The network's dense gradients beside a bare GEMM of the same shapes, on one thread."""
    found, instructions = rates('motes-models', 'bnn', ['gradients', 'bare_gemm'])
    print(f'One thread, GFLOP/s of both dense products ({instructions}):\n')
    print('| particles | bare GEMM (the gemm crate) | gradients, dense | of the bare GEMM | gradients, sparse, as if dense |\n|---:|---:|---:|---:|---:|')
    for n in (1, 10, 100):
        bare, dense, sparse = (found[name] / 1e3 for name in (f'bare_gemm {n}', f'gradients ({n}, Dense)', f'gradients ({n}, Sparse)'))
        print(f'| {n} | {bare:.0f} | {dense:.0f} | {dense / bare:.0%} | {sparse:.0f} |')
    print(flush=True)
    return found


def normals():
    """Draws per second of one thread."""
    found, instructions = rates('motes', 'noise', ['normals', 'langevin', 'ziggurat'])
    print(f'One thread, millions of draws per second ({instructions}; the number behind a name is the length of a call):\n')
    print('| kernel | million/s | ns each |\n|---|---:|---:|')
    for name, rate in found.items():
        print(f'| `{name}` | {rate:.0f} | {1e3 / rate:.2f} |')
    print(flush=True)
    return found


def limits(motes, rates):
    """What memory and a step's overhead allow."""
    OUT.mkdir(exist_ok=True)
    program = OUT / 'triad'
    subprocess.run(['rustc', '-O', '-C', 'target-cpu=native', '-o', program, HERE / 'triad.rs'], check=True)
    rows = {}
    for _ in range(3):
        for line in subprocess.run([program, str(THREADS)], check=True, capture_output=True, text=True).stdout.splitlines():
            key, value = line.rsplit(' ', 1)
            rows[key] = max(rows.get(key, 0), float(value))
    print('| memory | GB/s |\n|---|---:|')
    for key, value in rows.items():
        print(f'| {key} | {value:.1f} |')
    print('\n| a step of one particle of one dimension, f32 | ns |\n|---|---:|')
    steps = 20_000  # short, to fit between disturbances
    for name, flags in [('pgd', []), ('pgd without trace', ['--trace-every', steps]), ('pgd without trace and averages', ['--trace-every', steps, '--burn-in', steps - 1]),
                        ('pmgd', ['--algorithm', 'pmgd']), ('pmgd without trace and averages', ['--algorithm', 'pmgd', '--trace-every', steps, '--burn-in', steps - 1])]:
        flags = ['hierarchical', '--dim', 1, '--particles', 1, '--steps', steps, '--precision', 'f32', '--step-size', 0.015, *(flags if 'pmgd' in flags else ['--algorithm', 'pgd', *flags])]
        ns = 1e9 / steps * min(fit(motes, flags)[0] for _ in range(40))
        rows[f'step ns, {name}'] = ns
        print(f'| {name} | {ns:.0f} |', flush=True)
    print()
    return rows


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('sections', nargs='*', choices=[[], *SECTIONS], help='default: all but limits')
    ap.add_argument('--motes', required=True, type=Path, help='the binary')
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--only', default='', metavar='REGEX', help='of the comparisons only those whose name and precision match; of auto its parts grid, numpyro, times')
    a = ap.parse_args()
    sections = a.sections or [s for s in SECTIONS if s != 'limits']
    OUT.mkdir(exist_ok=True)
    # Two cores for everybody; the peers' libraries look at the affinity and use what they find, as they would by default.
    if hasattr(os, 'sched_setaffinity'):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    os.environ.update(JAX_PLATFORMS='cpu', OMP_NUM_THREADS=str(THREADS), OPENBLAS_NUM_THREADS=str(THREADS))
    motes = str(a.motes.resolve())
    result = dict(date=datetime.datetime.now().isoformat(timespec='seconds'), load_before=os.getloadavg(), rounds=a.rounds)
    if {'toy', 'logistic', 'bnn'} & set(sections):
        result['comparisons'] = comparisons(motes, sections, a.rounds, a.only)
    if 'bnn' in sections:
        result['products'] = products()
    if 'generator' in sections:
        result['generator'] = generator(a.rounds)
    if 'start' in sections:
        result['start'] = start(motes)
    if 'auto' in sections:
        root = HERE.parent
        parts = dict(grid=lambda: auto.grid(root), numpyro=lambda: auto.numpyro(root, OUT, a.rounds),
                     times=lambda: auto.times(lambda flags: fit(motes, flags), root, OUT, a.rounds))
        result['auto'] = {name: part() for name, part in parts.items() if re.search(a.only, name)}
    if 'normals' in sections:
        result['normals'] = normals()
    if 'limits' in sections:
        result['limits'] = limits(motes, result.get('normals'))
    result['load_after'] = os.getloadavg()
    (OUT / 'latest.json').write_text(json.dumps(result, indent=1) + '\n')
    print('Load average before {:.1f}, after {:.1f}; details in bench/out/latest.json.'.format(result['load_before'][0], result['load_after'][0]))


main()
