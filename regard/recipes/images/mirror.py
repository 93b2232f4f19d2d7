"""Does a mirror change what images are? A quick trial decides, before training starts.

A small model learns from the images as they are, and is then shown other images, plain and mirrored. If it
recognises both alike, the classes do not depend on left and right, and training may mirror images. Digits,
letters and arrows fail the trial. The model is a ridge regression on features that need no training: how much
the image resembles whitened patches of other images (Coates and Ng, 2011), on average in each of 3 × 3 parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

IMAGES = 3000  # of the training split, at most
LEAST = 100  # images, at least: fewer tell nothing
SIDE = 32  # larger images are shrunk to this side
FILTER = 5  # pixels
FILTERS = 64
PATCHES = 10_000  # which are whitened, to draw filters from, of this many images
PATCHED = 200
PARTS = 3  # in a row and in a column
THRESHOLD = 0.5  # of a resemblance that counts
RIDGE = 0.3
# in standard deviations: how surely the classes are told apart, and how surely more mirrored images than plain
# ones are mistaken, of all classes and of one (there are many, so chance has many tries)
ABOVE_CHANCE, WORSE, WORSE_IN_CLASS = 4.0, 2.0, 3.0


@dataclass(frozen=True)
class MirrorTrial:
    """The shares of images that the quick model recognised, and whether training may mirror images."""

    plain: float
    mirrored: float
    harmless: bool


def try_mirror(pixels: Tensor, classes: Tensor, seed: int = 0) -> MirrorTrial | None:
    """Each half of the images is judged by a model that learned from the other half; None: there are too few
    images.   uint8 n c h w, n"""
    if len(pixels) < LEAST:
        return None
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(pixels), generator=draw)[:IMAGES]
    x, classes = _normalise(pixels[order]), classes[order]
    filters, offsets = _draw_filters(x, draw)
    plain, mirrored = (_features(each, filters, offsets) for each in (x, x.flip(-1)))
    mean, deviation = plain.mean(0), plain.std(0) + 1e-6
    plain, mirrored = (F.pad((each - mean) / deviation, (0, 1), value=1.0) for each in (plain, mirrored))
    known, known_mirrored = (torch.zeros(len(x), dtype=torch.bool) for _ in range(2))
    number = torch.arange(len(x))
    for half in (number % 2 == 0, number % 2 == 1):
        weights = _fit(plain[~half], classes[~half], int(classes.max()) + 1)
        known[half] = (plain[half] @ weights).argmax(1) == classes[half]
        known_mirrored[half] = (mirrored[half] @ weights).argmax(1) == classes[half]
    return MirrorTrial(
        plain=float(known.double().mean()),
        mirrored=float(known_mirrored.double().mean()),
        harmless=_is_harmless(known, known_mirrored, classes),
    )


def _is_harmless(known: Tensor, mirrored: Tensor, classes: Tensor) -> bool:
    """The model knows more than the most frequent class, and a mirror takes nothing from it, neither from all
    classes nor from one."""
    counts = classes.bincount()
    chance = float(counts.max() / counts.sum())
    deviation = (chance * (1 - chance) / len(known)) ** 0.5
    if float(known.double().mean()) < chance + ABOVE_CHANCE * deviation:
        return False
    lost, won = (known & ~mirrored).double(), (mirrored & ~known).double()
    if _surely(lost.sum(), won.sum()) > WORSE:
        return False
    in_class = _surely(classes.bincount(lost), classes.bincount(won))
    return bool((in_class <= WORSE_IN_CLASS).all())


def _surely(lost: Tensor, won: Tensor) -> Tensor:
    """McNemar's test: how many standard deviations more were lost than won."""
    return (lost - won) / (lost + won).clamp(min=1).sqrt()


def _normalise(pixels: Tensor) -> Tensor:
    """Numbers around 0, of images that are not larger than SIDE."""
    x = pixels.float() / 255
    if x.shape[-1] > SIDE:
        x = F.interpolate(x, size=SIDE, mode="area")
    return (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True).clamp(min=0.05)


def _draw_filters(x: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Patches of the images with much in them, whitened.   e c k k, e"""
    side = max(1, min(FILTER, x.shape[-1] // 2))
    patches = F.unfold(x[:PATCHED], side).transpose(1, 2).flatten(0, 1)
    patches = patches[torch.randperm(len(patches), generator=draw)[:PATCHES]].double()
    mean = patches.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov(patches.T).view(len(mean), len(mean)))
    scale = (values.clamp(min=0) + 0.1 * values.mean().clamp(min=1e-6)).rsqrt()
    whitening = (vectors * scale) @ vectors.T
    white = (patches - mean) @ whitening
    length = white.norm(dim=1)
    chosen = white[length >= length.median()][:FILTERS]
    filters = F.normalize(chosen, dim=1) @ whitening
    return filters.view(-1, x.shape[1], side, side).float(), -(filters @ mean).float()


def _features(x: Tensor, filters: Tensor, offsets: Tensor) -> Tensor:
    """b c h w -> b d"""
    maps = F.conv2d(x, filters, offsets, stride=2 if x.shape[-1] > 2 * FILTER else 1)
    both = torch.cat((F.relu(maps - THRESHOLD), F.relu(-maps - THRESHOLD)), 1)
    return F.adaptive_avg_pool2d(both, PARTS).flatten(1).double()


def _fit(features: Tensor, classes: Tensor, count: int) -> Tensor:
    """Ridge regression on the classes; the last feature is 1, and its weights are free.   n d, n -> d count"""
    gram = features.T @ features
    gram.diagonal()[:-1].add_(RIDGE * len(features))
    return torch.linalg.solve(gram, features.T @ F.one_hot(classes, count).double())
