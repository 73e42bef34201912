"""A figure of one fit or of several."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Sequence

import numpy as np

from ._arrays import whole

if TYPE_CHECKING:
    from ._generator import GeneratorFit
    from ._result import Fit


def _figure(width: float, height: float) -> Any:
    """A figure that notebooks show, whether or not they were told of matplotlib; pyplot would keep it for ever."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        """A figure that knows how notebooks show it."""

        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=100)
            return picture.getvalue()

    return Shown(figsize=(width, height), layout="constrained")


def plot(fits: Sequence["Fit"], components: int, coordinates: int) -> Any:
    """Theta over the steps on the left, marginal posteriors of latent coordinates on the right."""
    first = fits[0]
    components, coordinates = whole("components", components), whole("coordinates", coordinates)
    shown = min(components, first.theta_trace.shape[1])
    figure = _figure(11, 4)
    left, right = figure.subplots(1, 2)
    colors = [f"C{i}" for i in range(10)]
    for fit in fits:
        for i in range(shown):
            label = fit.theta_names[i] if fit is first else None
            left.plot(fit.trace["k"], fit.theta_trace[:, i], color=colors[i % 10], lw=1, label=label)
    left.axvline(first.burn_in, color="0.6", ls=":", lw=1)
    left.set(xlabel="step", ylabel="theta", title=f"{first.model.name} by {first.settings['algorithm']}")
    _legend(left, shown)
    draws = np.concatenate([fit.clouds if len(fit.clouds) else fit.particles for fit in fits])
    draws = draws.reshape(len(draws), -1)
    groups = first.group_names
    names = first.x_names if groups is None else [f"{x}[{g}]" for g in groups for x in first.x_names]
    latent = min(coordinates, draws.shape[1])
    for i in range(latent):
        values = draws[:, i]
        if len(values) and np.ptp(values) > 0:
            heights, edges = np.histogram(values, bins=60, density=True)
            middles = 0.5 * (edges[1:] + edges[:-1])
            right.plot(middles, heights, color=colors[i % 10], lw=1.2, label=names[i])
    right.set(xlabel="x", ylabel="density", title="posterior of latent coordinates")
    _legend(right, latent)
    return figure


def _legend(axes: Any, entries: int) -> None:
    """Beside the curves, never on them."""
    if entries:
        axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)


def plot_generator(fit: "GeneratorFit", count: int) -> Any:
    """The loss on the left; on the right training images above their reconstructions."""
    figure = _figure(10, 3.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    left.plot(fit.trace["k"][1:], fit.loss, lw=1)
    left.set(xlabel="step", ylabel="loss", title=f"generator by {fit.settings['algorithm']}")
    made = fit.reconstruct(count)
    rows = [np.concatenate(list(part.transpose(0, 2, 3, 1)), axis=1) for part in (fit.model.images[: len(made)], made)]
    picture = np.clip((np.concatenate(rows) + 1) / 2, 0, 1)
    right.imshow(picture if picture.shape[2] == 3 else picture[:, :, 0], cmap="gray", vmin=0, vmax=1)
    right.set(title="images, and what their particles decode to")
    right.set_axis_off()
    return figure
