"""A PyTorch module as a network that Motes trains: every question is answered on the module's own device."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from . import _decoder_shared as shared
from ._decoder_shared import PART, TRACED, AnyNetwork, named_values, same_groups, squares


class Likelihood(shared.Likelihood):
    """log p(y | output), value by value or row by row."""

    def values(self, output: Tensor, y: Tensor) -> Tensor:
        """For outputs (data, particles, ...) of data y: each value's, or each row's; the first two axes are those of the output."""
        lead = output.shape[:2]
        rows = y.unsqueeze(1).expand(*lead, *y.shape[1:]).flatten(0, 1)
        told = self._call(output.flatten(0, 1), rows)
        self.refuse_returned(len(rows), tuple(told.shape) if isinstance(told, Tensor) else None, type(told).__name__)
        return told.unflatten(0, lead)

    def derived(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The log-likelihood of each row, and its gradient in the output."""
        leaf = output.detach().requires_grad_()
        with torch.enable_grad():
            rows = summed(self.values(leaf, y))
            (gradient,) = torch.autograd.grad(rows.sum(), leaf)
        return rows.detach(), gradient

    def mean(self, output: Tensor) -> Tensor:
        """What data an output stands for."""
        return output


class Gaussian(shared.Gaussian, Likelihood):
    def values(self, output: Tensor, y: Tensor) -> Tensor:
        return (-0.5 * self._precision) * (y.unsqueeze(1) - output).square()

    def derived(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        # Written out: half of the passes over memory that autograd would make.
        difference = y.unsqueeze(1) - output.detach()
        flat = difference.flatten(2)
        rows = (-0.5 * self._precision) * torch.linalg.vecdot(flat, flat)
        return rows, difference.mul_(self._precision)


class Bernoulli(shared.Bernoulli, Likelihood):
    def values(self, output: Tensor, y: Tensor) -> Tensor:
        return y.unsqueeze(1) * output - nn.functional.softplus(output)

    def derived(self, output: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        output = output.detach()
        return summed(self.values(output, y)), y.unsqueeze(1) - torch.sigmoid(output)

    def mean(self, output: Tensor) -> Tensor:
        return torch.sigmoid(output)


#: What there is by name.
KINDS = {"gaussian": Gaussian, "bernoulli": Bernoulli, "callable": Likelihood}


def summed(values: Tensor) -> Tensor:
    """Sums over all axes but the first two."""
    return values.flatten(2).sum(2) if values.dim() > 2 else values


def numbers(tensor: Tensor, dtype: torch.dtype = torch.float64) -> np.ndarray:
    """The only way back from the device."""
    return tensor.detach().cpu().to(dtype).numpy()


def as_it_is(tensor: Tensor) -> np.ndarray:
    """A tensor in its own precision; NumPy has no bfloat16."""
    return numbers(tensor, torch.float32 if tensor.dtype == torch.bfloat16 else tensor.dtype)


class Network(AnyNetwork):
    """A module as a decoder, and another one as an encoder if there is one.

    Nothing in the modules is the truth while they are trained: weights and buffers come with each question.
    """

    def __init__(
        self, module: nn.Module, data: Tensor, latent: int, likelihood: Likelihood, encoder: nn.Module | None, one_pass: bool
    ) -> None:
        self.module, self.latent, self.likelihood = module, latent, likelihood
        self.encoder: Any = encoder
        self.one_pass, self.data, self.count = one_pass, data, len(data)
        self._weights = _trained("module", module)
        self.called = type(module).__name__
        self._phi = [] if encoder is None else _trained("encoder", encoder)
        self.device, self.dtype = self._weights[0].device, self._weights[0].dtype
        self.single = self.dtype != torch.float64
        #: What sums are made in where precision matters: some devices have no double precision.
        self.wide = torch.float32 if self.device.type == "mps" else torch.float64
        self._at_hand: tuple[np.ndarray | None, Tensor] | None = None
        self._buffers = [*module.buffers(), *(() if encoder is None else encoder.buffers())]
        self.random = self.encoder_moves = False
        #: Of PyTorch: each thread has a number of its own, and it is not this one that trains.
        self.threads = torch.get_num_threads()
        self._probe()
        self.d_theta, self.phi = (sum(p.numel() for p in part) for part in (self._weights, self._phi))
        self.start = np.concatenate([numbers(p.flatten()) for p in (*self._weights, *self._phi)]).tolist()
        named = (part for part in module.named_parameters() if part[1].requires_grad)
        self.names = [one for name, p in named for one in named_values(name, p.numel())][:TRACED]
        self.buffers = self._moved(0).tolist() if self.two_modes or self.encoder_moves else []
        self.encode = None if encoder is None else self._encode

    def described(self) -> dict[str, Any]:
        """What a run must know of the model besides its data."""
        return {**super().described(), "batchnorm": "one-pass" if self.one_pass else "two-pass"}

    def _probe(self) -> None:
        """What the modules do with a few latents and data: refuses what cannot be trained, and sees what depends on the mode."""
        z = torch.linspace(-1, 1, 4 * self.latent).view(4, self.latent).to(self.device, self.dtype)
        before = [b.clone() for b in self._buffers]

        def made(rows: Tensor, train: bool) -> Tensor:
            self.module.train(train)
            with torch.no_grad():
                for buffer, old in zip(self._buffers, before):
                    buffer.copy_(old)
                return self.module(rows)

        try:
            output = made(z, False)
        except Exception as error:
            shape = tuple(z.shape)
            raise ValueError(f"module failed for latents of shape {shape} ({error}); correct it, or choose another latent") from error
        self.refuse_output("module", 4, tuple(output.shape) if isinstance(output, Tensor) else None, type(output).__name__)
        if not bool(torch.isfinite(output).all()):
            raise ValueError("module returns values that are not finite at its first weights; initialise it anew")
        with _seeded(self.device, 0):
            one = made(z, True)
            moved = any(not torch.equal(a, b) for a, b in zip(self._buffers, before))
            self.random = not torch.equal(one, made(z, True))
        self.two_modes = moved or self.random or not torch.equal(one, output)
        try:
            made(z[:1], True)
        except ValueError:  # PyTorch's way to say that a single row has no variance
            self.normalises = True
        made(z, False)
        with torch.no_grad():
            values = self.likelihood.values(output.unsqueeze(0), self.of_device(self.data[:1]))
            self.likelihood.refuse_first(bool(torch.isfinite(values).all()))
            if self.encoder is not None:
                self._probe_encoder()
        for buffer, old in zip(self._buffers, before):
            buffer.copy_(old)

    def _probe_encoder(self) -> None:
        y = self.of_device(self.data[torch.arange(4, device=self.data.device) % self.count])

        def told(train: bool) -> list[Tensor]:
            self.encoder.train(train)
            return [part.clone() for part in self._gaussians(y)]

        def differ(one: list[Tensor], other: list[Tensor]) -> bool:
            return not all(torch.equal(a, b) for a, b in zip(one, other))

        with _seeded(self.device, 0):
            one, again, other = told(True), told(True), told(False)
        if differ(one, again):
            raise ValueError("encoder gives others each time in training (dropout); leave such layers out")
        self.encoder_moves = differ(one, other)
        if self.encoder_moves:
            try:
                self.encoder.train()(y[:1])
            except ValueError:  # as for the module
                self.encoder_normalises = True
            self.encoder.eval()

    def _gaussians(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The encoder's mean and logarithm of the variance for each datum."""
        try:
            told = self.encoder(y)
        except Exception as error:
            raise ValueError(f"encoder failed for data of shape {tuple(y.shape)} ({error}); correct it") from error
        if isinstance(told, Tensor) and told.shape == (len(y), 2 * self.latent):
            told = told.split(self.latent, dim=1)
        right = isinstance(told, (tuple, list)) and len(told) == 2 and all(isinstance(part, Tensor) for part in told)
        if not right or any(part.shape != (len(y), self.latent) for part in told):
            shape = f"({len(y)}, {self.latent})"
            raise ValueError(f"encoder must return a mean and the logarithm of a variance, each of shape {shape}; let it return such a pair")
        return told[0], told[1]

    def of_device(self, y: Tensor) -> Tensor:
        """Data where the module is; whole numbers stay whole for a likelihood that is written by somebody else."""
        floats = self.likelihood.alike or y.is_floating_point()
        return y.to(self.device, self.dtype if floats else y.dtype)

    def _targets(self, groups: np.ndarray | None) -> Tensor:
        """The data of some groups; those of the last question are kept."""
        if self._at_hand is None or not same_groups(self._at_hand[0], groups):
            y = self.data if groups is None else self.data[torch.from_numpy(groups).to(self.data.device)]
            self._at_hand = groups, self.of_device(y)
        return self._at_hand[1]

    @torch.no_grad()
    def set(self, theta: np.ndarray, buffers: np.ndarray) -> None:
        weights = [*self._weights, *(self._phi if len(theta) > self.d_theta else [])]
        flat = torch.from_numpy(theta).to(self.dtype).to(self.device)
        for p, part in zip(weights, flat.split([p.numel() for p in weights])):
            p.copy_(part.view(p.shape))
        if len(buffers):
            flat = torch.from_numpy(buffers[1:])
            for buffer, part in zip(self._buffers, flat.split([b.numel() for b in self._buffers])):
                buffer.copy_(part.view(buffer.shape).to(buffer.dtype))

    def _moved(self, passes: float) -> np.ndarray:
        """How often the network has been trained, by which its randomness is seeded, and all its buffers."""
        return np.concatenate([[passes], *(numbers(b.flatten()) for b in self._buffers)])

    def evaluate(
        self, theta: np.ndarray, x: np.ndarray, groups: np.ndarray | None, want: Sequence[str], buffers: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Answers what is asked for at rows x of shape (data, particles, latent).

        Asked for buffers, the network is trained: it normalises by the batch at hand, and its buffers move. The latents' gradient
        is then taken afterwards, by the moved buffers, unless it comes from the same pass.
        """
        torch.set_num_threads(self.threads)
        self.set(theta, buffers)
        y, z = self._targets(groups), torch.from_numpy(x).to(self.device, self.dtype)
        found: dict[str, np.ndarray] = {}
        train = self.two_modes and "buffers" in want
        if "log_density" in want:
            self.module.eval()
            found["log_density"] = numbers(self.log_likelihood(z, y)) - 0.5 * squares(x)
        loss = other = gradient = None
        if "grad_theta" in want and len(theta) > self.d_theta:
            loss, other, found["grad_theta"] = self._bound(z, y, train, buffers)
        elif "grad_theta" in want:
            together = "grad_x" in want and (not train or self.one_pass)
            rows, gradients = self._derived(z, y, together, True, train, buffers)
            found["grad_theta"] = numbers(_flat(gradients, self._weights))
            gradient, loss = gradients[-1] if together else None, rows
        if "buffers" in want:
            found["buffers"] = self._moved(buffers[0] + 1)
        if "grad_x" in want:
            if gradient is None:
                rows, (gradient,) = self._derived(z, y, True, False, False, buffers)
                loss = rows if loss is None else loss
            found["grad_x"] = numbers(gradient, _like(x)) - x
        if "scalars" in want:
            total = squares(x).sum()
            other = 0.5 * total if other is None else other
            found["scalars"] = np.array([other - numbers(loss).sum(), total / self.latent])
        return tuple(found[name] for name in want)

    def _derived(
        self, z: Tensor, y: Tensor, latents: bool, weights: bool, train: bool, buffers: np.ndarray
    ) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """The log-likelihood of each row, and the gradients of their sum: in the weights, then in the latents."""
        self.module.train(train)
        leaf = z.detach().requires_grad_(latents)
        with torch.enable_grad(), self._randomness(train, buffers):
            output = self.decoded(leaf)
        rows, gradient = self.likelihood.derived(output, y)
        inputs = [*(self._weights if weights else ()), *((leaf,) if latents else ())]
        return rows, torch.autograd.grad(output, inputs, gradient, allow_unused=True)

    def _bound(self, z: Tensor, y: Tensor, train: bool, buffers: np.ndarray) -> tuple[Tensor, float, np.ndarray]:
        """The log-likelihoods of rows that the encoder has drawn, the sum of their KL divergences, and the bound's gradient."""
        self.module.train(train)
        self.encoder.train(self.encoder_moves)
        with torch.enable_grad():
            mean, log_variance = self._gaussians(y)
            # The draws are what they were; their dependence on the encoder comes back.
            noise = ((z - mean.unsqueeze(1)) * (-0.5 * log_variance).exp().unsqueeze(1)).detach()
            draws = mean.unsqueeze(1) + (0.5 * log_variance).exp().unsqueeze(1) * noise
            divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum() * z.shape[1]
            with self._randomness(train, buffers):
                output = self.decoded(draws)
        rows, gradient = self.likelihood.derived(output, y)
        weights = [*self._weights, *self._phi]
        self.encoder.eval()
        pair = [gradient, -torch.ones_like(divergence)]
        gradients = torch.autograd.grad([output, divergence], weights, pair, allow_unused=True)
        return rows, float(numbers(divergence)), numbers(_flat(gradients, weights))

    def decoded(self, z: Tensor) -> Tensor:
        """The outputs of latents (data, particles, latent), with the same first axes."""
        output = self.module(z.flatten(0, 1))
        return output.view(*z.shape[:2], *output.shape[1:])

    def _randomness(self, train: bool, buffers: np.ndarray) -> Any:
        return _seeded(self.device, int(buffers[0])) if train and self.random else contextlib.nullcontext()

    @torch.no_grad()
    def log_likelihood(self, z: Tensor, y: Tensor) -> Tensor:
        """That of each row, by the buffers at hand."""
        part = max(1, PART // z.shape[1])
        pairs = zip(z.split(part), y.split(part))
        return torch.cat([self.likelihood.derived(self.decoded(a), b)[0] for a, b in pairs])

    @torch.no_grad()
    def decode(self, z: np.ndarray) -> np.ndarray:
        self.module.eval()
        rows = torch.from_numpy(np.ascontiguousarray(z)).to(self.device, self.dtype)
        made = torch.cat([self.likelihood.mean(self.module(part)) for part in rows.split(PART)])
        return numbers(made, torch.float32 if self.single else torch.float64)

    def trained(self) -> nn.Module:
        return self.module.eval()

    def params(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.module.state_dict().items()}

    def state(self) -> dict[str, np.ndarray]:
        return {name: as_it_is(value) for name, value in self.module.state_dict().items()}

    def first(self, count: int) -> np.ndarray:
        return as_it_is(self.data[:count])

    def given(self, array: np.ndarray) -> Tensor:
        return self.of_device(torch.from_numpy(np.ascontiguousarray(array)))

    def log_joint(self, x: np.ndarray, y: Tensor, seen: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        self.module.eval()
        leaf = torch.from_numpy(x).to(self.device, self.dtype).requires_grad_()
        with torch.enable_grad():
            values = self.likelihood.values(self.decoded(leaf), y)
            if seen is not None:
                self.likelihood.refuse_rows(tuple(values.shape[2:]), tuple(y.shape[1:]))
                values = torch.where(torch.from_numpy(seen).to(self.device).unsqueeze(1), values, torch.zeros_like(values))
            rows = summed(values.to(self.wide))
            (gradient,) = torch.autograd.grad(rows.sum(), leaf)
        return numbers(rows) - 0.5 * squares(x), numbers(gradient, _like(x)) - x

    @torch.no_grad()
    def _encode(self, theta: np.ndarray, z: np.ndarray, groups: np.ndarray) -> np.ndarray:
        """Turns standard normals into draws from the encoder."""
        self.set(theta, np.empty(0))
        # By the batch's statistics, as the gradient will be; the running ones move there, not here.
        self.encoder.train(self.encoder_moves)
        before = [b.clone() for b in self._buffers] if self.encoder_moves else []
        mean, log_variance = self._gaussians(self._targets(groups))
        for buffer, old in zip(self._buffers, before):
            buffer.copy_(old)
        noise = torch.from_numpy(z).to(self.device, self.dtype)
        drawn = mean.unsqueeze(1) + (0.5 * log_variance).exp().unsqueeze(1) * noise
        return numbers(drawn, _like(z))


def _trained(what: str, module: nn.Module) -> list[nn.Parameter]:
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(f"{what} has no parameters that require gradients; give a module that can be trained")
    return parameters


def _flat(gradients: Sequence[Tensor | None], weights: Sequence[Tensor]) -> Tensor:
    """Gradients in the weights one behind the other; one that nothing depends on is zero."""
    return torch.cat([(torch.zeros_like(w) if g is None else g).flatten() for g, w in zip(gradients, weights)])


def _like(array: np.ndarray) -> torch.dtype:
    """PyTorch's name of the precision of an array."""
    return torch.float32 if array.dtype == np.float32 else torch.float64


@contextlib.contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Randomness of PyTorch's that a seed repeats; what others draw is left as it was."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
