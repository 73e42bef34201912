"""What PyTorch makes of the generator network and its encoder, for `make test-peers`: writes raw f32 files into a directory.

The weights are PyTorch's initial ones, moved a little so that gamma, beta and all biases matter. RMSProp's first step is
as long for a component that is all rounding noise as for any other, so that two right implementations drift apart. In
the optimiser's steps therefore are frozen: biases in front of a batch normalisation, whose gradient is zero, and the
components whose first gradient is nearly zero beside the rest of their tensor.
"""
import sys
from pathlib import Path

import torch

from peer_generator import Encoder, Generator

IMAGES, STEPS, RATE = 64, 3, 1e-3
NAMES = ['lin.weight', 'lin.bias', 'bn_lin.weight', 'bn_lin.bias', 'up.weight', 'bn_up.weight', 'bn_up.bias',
         *(f'{part}.{i}.{what}' for i in range(4) for part in ('conv', 'bn') for what in ('weight', 'bias')), 'out.weight', 'out.bias']
STATISTICS = [f'{bn}.{what}' for bn in ('bn_lin', 'bn_up', 'bn.0', 'bn.1', 'bn.2', 'bn.3') for what in ('running_mean', 'running_var')]
FROZEN = ['lin.bias', *(f'conv.{i}.bias' for i in range(4))]
ENCODER = [f'{layer}.{what}' for layer in ('c1', 'c2', 'f1', 'f2') for what in ('weight', 'bias')]


def main(folder):
    def save(name, *tensors):
        torch.cat([t.detach().float().flatten() for t in tensors]).numpy().astype('<f4').tofile(folder / f'{name}.bin')

    for channels in (1, 3):
        torch.manual_seed(channels)
        g = Generator(channels)
        named = dict(g.named_parameters())
        assert sorted(named) == sorted(NAMES)
        with torch.no_grad():
            for p in g.parameters():
                p += 0.02 * torch.randn_like(p)
        x = torch.randn(IMAGES, 64)
        y = torch.rand(IMAGES, channels, 32, 32) * 2 - 1
        for name in FROZEN:
            named[name].requires_grad_(False)
        tag = f'decoder{channels}'
        save(f'{tag}-x', x)
        save(f'{tag}-y', y)
        save(f'{tag}-parameters', *(named[n] for n in NAMES))
        optimiser = torch.optim.RMSprop([p for p in g.parameters() if p.requires_grad], lr=RATE)
        for step in range(STEPS):
            g.train()
            optimiser.zero_grad()
            inputs = x.clone().requires_grad_(True)
            loss = 0.5 * ((g(inputs) - y) ** 2).sum() / IMAGES
            loss.backward()
            grads = [named[n].grad if named[n].grad is not None else torch.zeros_like(named[n]) for n in NAMES]
            save(f'{tag}-loss{step}', loss)
            save(f'{tag}-train-gradient{step}', *grads)
            save(f'{tag}-train-latents{step}', inputs.grad)
            state = g.state_dict()
            save(f'{tag}-statistics{step}', *(state[n] for n in STATISTICS))
            g.eval()
            inputs = x.clone().requires_grad_(True)
            images = g(inputs)
            gradient, = torch.autograd.grad(0.5 * ((images - y) ** 2).sum(), inputs)
            save(f'{tag}-images{step}', images)
            save(f'{tag}-eval-latents{step}', gradient)
            if step == 0:
                moving = {n: (d.abs() >= 1e-3 * d.pow(2).mean().sqrt()).float() * (n not in FROZEN) for n, d in zip(NAMES, grads)}
                save(f'{tag}-moving', *moving.values())
            for n, d in zip(NAMES, grads):
                d *= moving[n]
            optimiser.step()
            save(f'{tag}-stepped{step}', *(named[n] for n in NAMES))

        e = Encoder(channels)
        named = dict(e.named_parameters())
        assert sorted(named) == sorted(ENCODER)
        mean, variance = e(y)
        d_mean, d_variance = torch.randn_like(mean), torch.randn_like(variance)
        ((mean * d_mean).sum() + (variance * d_variance).sum()).backward()
        tag = f'encoder{channels}'
        for name, values in dict(mean=mean, variance=variance).items():
            save(f'{tag}-{name}', values)
        save(f'{tag}-d-mean', d_mean)
        save(f'{tag}-d-variance', d_variance)
        save(f'{tag}-parameters', *(named[n] for n in ENCODER))
        save(f'{tag}-gradient', *(named[n].grad for n in ENCODER))


main(Path(sys.argv[1]))
