#!/usr/bin/env python3
"""A decoder in PyTorch trained by Motes beside the loop that one would write by hand: time of a step, and memory.

Both have the same network, batches, particles and precision. Needs PyTorch and the Python package in release mode
(`cargo build --release -p motes-py`); each case is a process of its own:

  decoder.py mlp        an MLP with 103,000 weights and 784 outputs, batches of 100, 4 particles
  decoder.py paper      the paper's network, batches of 128, 10 particles: two passes, as the authors
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SIZES = {"mlp": (16, 100, 4, 2000), "paper": (64, 128, 10, 512)}
SIGMA, H, RATE = 0.1, 1e-4, 1e-3


def made(case):
    import torch
    from torch import nn

    torch.manual_seed(0)
    latent, _, _, count = SIZES[case]
    if case == "mlp":
        module = nn.Sequential(nn.Linear(latent, 128), nn.GELU(), nn.Linear(128, 784))
        return module, torch.rand(count, 784)
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    from peer_generator import Generator

    return Generator(), torch.rand(count, 1, 32, 32) * 2 - 1


def by_hand(case, steps, warm):
    import torch

    module, data = made(case)
    latent, batch, n, count = SIZES[case]
    optimiser = torch.optim.RMSprop(module.parameters(), lr=RATE)
    cloud = torch.randn(count, n, latent)
    two_passes = case == "paper"

    def loss(x, y):
        made = module(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return 0.5 / SIGMA**2 * ((y.unsqueeze(1) - made) ** 2).sum() + 0.5 * (x**2).sum()

    def step(chosen):
        y, x = data[chosen], cloud[chosen].requires_grad_()
        module.train()
        optimiser.zero_grad()
        total = loss(x.detach() if two_passes else x, y)
        (total / (batch * n)).backward()
        if two_passes:
            module.eval()
            (gradient,) = torch.autograd.grad(loss(x, y), x)
        else:
            gradient = x.grad * (batch * n)
        with torch.no_grad():
            cloud[chosen] = x - H * gradient + (2 * H) ** 0.5 * torch.randn_like(x)
        optimiser.step()
        return total.item()

    at: list = []
    k = 0
    while k < warm + steps:
        for chosen in torch.randperm(count).split(batch):
            if len(chosen) == batch and k < warm + steps:
                at.append((time.perf_counter(), time.process_time()))
                step(chosen)
                k += 1
    return np.diff([*at, (time.perf_counter(), time.process_time())], axis=0)[warm:]


def by_motes(case, steps, warm):
    import motes.torch

    module, data = made(case)
    latent, batch, n, _ = SIZES[case]
    decoder = motes.torch.Decoder(module, data, latent, sigma=SIGMA)
    at: list = []
    settings = dict(particles=n, batch=batch, step_size=H, theta_rate=RATE, no_assess=True, progress=False)
    motes.fit(decoder, steps=warm + steps, callback=lambda step: at.append((time.perf_counter(), time.process_time())), **settings)
    return np.diff(at, axis=0)[warm:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=SIZES)
    parser.add_argument("--who", choices=["hand", "motes"])
    parser.add_argument("--steps", type=int)
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    steps = args.steps or (300 if args.case == "mlp" else 3)
    if args.who is None:
        told = {}
        for who in ("hand", "motes"):
            command = [sys.executable, __file__, args.case, "--who", who, "--steps", str(steps), "--threads", str(args.threads)]
            told[who] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
            print(who, told[who], flush=True)
        print({key: round(told["motes"][key] / told["hand"][key], 3) for key in told["hand"]})
        return
    import warnings

    import torch

    warnings.simplefilter("ignore")
    if args.threads:
        torch.set_num_threads(args.threads)
    times = (by_hand if args.who == "hand" else by_motes)(args.case, steps, 20 if args.case == "mlp" else 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # The processor's time as well: others on the machine change that less.
    middle, least = 1e3 * np.median(times, axis=0), 1e3 * np.min(times, axis=0)
    print(json.dumps({"median_ms": middle[0], "least_ms": least[0], "cpu_ms": middle[1], "peak_mb": peak}))


if __name__ == "__main__":
    main()
