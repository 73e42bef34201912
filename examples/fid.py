"""The Frechet inception distance (FID) between two sets of images.

    motes synthesize RUN --count 200
    python examples/fid.py RUN/synthesize-gaussian.npy data/mnist/test-images-2k-idx3-ubyte.gz --count 200

A set is a .npy file as Motes writes it, [n, 1 or 3, 32, 32] with values in [-1, 1], or an IDX file of grey images. As in the paper,
images become bytes by truncation of (v + 1) / 2 * 255, grey ones get three equal channels, and 200 synthesised images are
compared with 200 test images; other numbers of images give other distances.

Needs `pip install torch 'torchmetrics[image]'` and the weights of its Inception network (91 MB): torchmetrics downloads them at
the first use and keeps them; where there is no network, name the file with --weights.
"""

import argparse
import gzip
import sys

PACKAGES = "pip install torch 'torchmetrics[image]'"


def fail(sentence):
    print(f"fid.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def read_idx(path):
    """The images of an IDX file, resized to 32 x 32 pixels as Motes and the authors do, in [-1, 1]."""
    import numpy as np
    from PIL import Image

    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        content = file.read()
    if content[:4] != b"\0\0\x08\x03":
        raise ValueError("it does not begin like an IDX file of images")
    pixels = np.frombuffer(content, np.uint8, offset=16).reshape(np.frombuffer(content, ">u4", 3, 4))
    resized = [np.asarray(Image.fromarray(p).resize((32, 32), Image.BILINEAR)) for p in pixels]
    return ((np.stack(resized)[:, None].astype(np.float32) / 255) - 0.5) / 0.5


def read(path, count):
    """The first images of a file."""
    import numpy as np

    try:
        images = np.load(path) if path.endswith(".npy") else read_idx(path)
    except (OSError, EOFError, ValueError) as e:
        fail(f"cannot read {path} ({e}); give a .npy file of images or an IDX file")
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        fail(f"{path} has the shape {images.shape}; give images as (n, 1, 32, 32) or (n, 3, 32, 32)")
    images = images[:count]
    if len(images) < 2:
        fail(f"{path} makes a set of {len(images)}; a covariance needs 2 or more")
    if not (np.abs(images) <= 1).all():
        fail(f"{path} has values outside [-1, 1]; give images as Motes writes them")
    return images


def to_bytes(images):
    """Bytes by truncation, three channels."""
    import numpy as np

    pixels = ((images + 1) / 2 * 255).astype(np.uint8)
    return np.repeat(pixels, 3, axis=1) if pixels.shape[1] == 1 else pixels


def distance(a, b, feature=2048, weights=None, batch=50):
    """torchmetrics' distance between images in [-1, 1]; `feature` is 2048 of Inception's, or a network of one's own."""
    import torch
    from torchmetrics.image.fid import FrechetInceptionDistance

    metric = FrechetInceptionDistance(feature=feature, feature_extractor_weights_path=weights)
    for images, real in ((a, True), (b, False)):
        for start in range(0, len(images), batch):
            metric.update(torch.from_numpy(to_bytes(images[start : start + batch])), real=real)
    return metric.compute().item()


def main():
    parser = argparse.ArgumentParser(description="The Frechet inception distance (FID) between two sets of images.")
    parser.add_argument("a", help="a .npy file of images, or an IDX file")
    parser.add_argument("b", help="the other one")
    parser.add_argument("--count", type=int, help="only the first images of each [default: all]")
    parser.add_argument("--weights", help="the Inception weights of torch-fidelity [default: torchmetrics downloads them]")
    args = parser.parse_args()
    try:
        a, b = read(args.a, args.count), read(args.b, args.count)
        value = distance(a, b, weights=args.weights)
    except ImportError as e:
        fail(f"{e.name or 'torch-fidelity'} is not installed; get everything with `{PACKAGES}`")
    except OSError as e:
        fail(f"the Inception weights cannot be had ({e}); run it once with a network, or name the file with --weights")
    print(f"FID = {value:.4f} ({len(a)} and {len(b)} images)")


if __name__ == "__main__":
    main()
