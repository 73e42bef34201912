"""The default algorithm: its cost beside a grid of the paper's algorithms, beside NumPyro, and the time from start to files."""
import json, statistics, subprocess, sys, time

BENCH = ['cargo', 'bench', '--quiet', '-p', 'motes-models', '--bench', 'auto', '--']
MILLION = (1_000_000, 10)
NEVER = 'never'


def lines(command, **more):
    """What a command prints as lines of JSON."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]


def grid(root):
    """Evaluations until theta stays within 0.2 standard errors of the exact estimate, printed model by model."""
    done = subprocess.Popen([*BENCH, 'grid'], cwd=root, stdout=subprocess.PIPE, text=True)
    rows = []
    for line in done.stdout:
        print(line, end='', flush=True)
        rows.append(line.strip())
    if done.wait() != 0:
        sys.exit('the grid failed')
    print()
    return rows


def digits(seconds):
    return NEVER if seconds is None else f'{1e3 * seconds:.3g}'


def numpyro(root, out, rounds):
    """Milliseconds until theta stays within 0.2 standard errors: variational EM at its best, and auto by turns."""
    print('| model | NumPyro, its setting | ms to 0.2 SE | it compiles in, ms | error at its end, SE | auto, ms to 0.2 SE (median of seeds) | its own estimate | whole fit | verdicts | ratio |')
    print('|---|---|---:|---:|---:|---:|---:|---:|---|---:|')
    rows = []
    for model in ('cbpp', 'irt-40', 'pima'):
        truth = out / f'{model}.json'
        truth.write_text(json.dumps(lines([*BENCH, 'data', model], cwd=root)[0]))
        peer = [sys.executable, 'peer_svi.py', '--model', model, '--truth', str(truth.resolve())]
        theirs, ours, settings = [], [], []
        for _ in range(rounds):
            theirs += lines([*peer, *settings], cwd=root / 'bench/peers')
            ours += lines([*BENCH, 'fit', model], cwd=root)[0]['fits']
            # All settings in the first round; then the best two go on.
            there = sorted((t for t in theirs if t['seconds']), key=lambda t: t['seconds'])
            best = list(dict.fromkeys(f"{t['guide']},{t['rate']},{t['particles']}" for t in there))[:2]
            settings = ['--settings', ' '.join(best)] if best else []
        best = min(theirs, key=lambda t: (t['seconds'] is None, t['seconds'] or t['error_at_end']))
        seeds = sorted({f['seed'] for f in ours})

        def median(key):
            least = [min((f[key] for f in ours if f['seed'] == seed and f[key] is not None), default=None) for seed in seeds]
            return None if None in least else statistics.median(least)

        mine = {key: median(key) for key in ('seconds', 'own_seconds', 'whole_seconds')}
        ratio = f"{best['seconds'] / mine['seconds']:.2f}" if best['seconds'] and mine['seconds'] else '-'
        words = ', '.join(sorted({f['verdict'] for f in ours}))
        there = sum(1 for t in theirs if t['seconds'])
        print(f"| {model} | {best['guide']}, rate {best['rate']}, {best['particles']} draws ({there} of {len(theirs)} runs get there) | {digits(best['seconds'])} "
              f"| {digits(best['compilation'])} | {best['error_at_end']:.3f} | {digits(mine['seconds'])} | {digits(mine['own_seconds'])} | {digits(mine['whole_seconds'])} | {words} | {ratio} |", flush=True)
        rows.append(dict(model=model, peer=theirs, motes=ours))
    print()
    return rows


def million(out):
    """A table of a million rows, made once."""
    import numpy as np
    rows, columns = MILLION
    path = out / 'million.csv'
    if not path.exists():
        rng = np.random.default_rng(1)
        x = rng.normal(size=(rows, columns)).round(5)
        logits = 0.3 + x @ np.linspace(-1, 1, columns)
        y = rng.random(rows) < 1 / (1 + np.exp(-logits))
        partial = path.with_suffix('.part')
        np.savetxt(partial, np.column_stack([x, y]), fmt=['%.5f'] * columns + ['%d'], delimiter=',', comments='',
                   header=','.join([*(f'x{i}' for i in range(columns)), 'y']))
        partial.rename(path)
    return path


def times(fit, root, out, rounds):
    """Wall time from the start of the process until it has written its files and ended."""
    print('| from start to files | least s | median s | asked s | met |\n|---|---:|---:|---:|---|')
    rows = []

    def measure(flags, asked, runs):
        wall = [fit(flags)[1] for _ in range(runs)]
        row = dict(command='motes fit ' + ' '.join(map(str, flags)), least=min(wall), median=statistics.median(wall), asked=asked, all=wall)
        rows.append(row)
        shown = row['command'].replace(str(out), 'bench/out')
        print(f"| `{shown}` | {row['least']:.3f} | {row['median']:.3f} | < {asked} | {'yes' if row['least'] < asked else 'NO'} |", flush=True)

    measure(['logistic'], 0.3, 10)
    measure(['hierarchical'], 0.15, 10)
    measure(['hierarchical', '--dim', 10_000], 1, 5)
    data = million(out)
    peers = []
    for _ in range(rounds):
        began = time.perf_counter()
        peer = lines([sys.executable, 'peer_logit.py', '--data', str(data.resolve()), '--target', 'y'], cwd=root / 'bench/peers')[0]
        peers.append(dict(peer, wall=time.perf_counter() - began))
    measure(['logistic', '--data', data, '--target', 'y', '--intercept'], 45, rounds)
    best = min(peers, key=lambda p: p['wall'])
    print(f"\nstatsmodels' Logit on the same million rows: {best['wall']:.1f} s from start to end, of which {best['read_seconds']:.1f} to read the table and "
          f"{best['fit_seconds']:.1f} to fit ({best['iterations']} iterations), {best['peak_mb']:.0f} MB at its peak.\n", flush=True)
    return dict(motes=rows, statsmodels=peers)
