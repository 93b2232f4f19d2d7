"""Images a little changed, a whole batch at once, on the device that learns: what a label survives.

All is drawn from torch's generator, which the trainer seeds by (seed, step). Pixels are numbers from 0,
black, to 1, white, and so is what is made of them.   b c h w
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.config import Fraction, config


@config
class AugmentConfig:
    """How images are changed in training; 0 is not at all."""

    # moved by up to this share of the side, by whole pixels; the border mirrors what is beyond (0.1 is usual)
    crop: Fraction = 0.0
    zoom: Fraction = 0.0  # made larger or smaller by up to this share (0.1 is usual)
    flip: bool = False  # half of them mirrored, left and right (for photos; not for letters and digits)
    # flip, if a quick trial on the training images finds that a mirror does not change their classes
    auto_flip: bool = False
    # turned by up to so many degrees, either way (10 is usual; 180 for what has no up and down)
    turn: Annotated[float, Field(ge=0, le=180)] = 0.0
    colour: Fraction = 0.0  # brightness, contrast and saturation changed by up to this share (0.3 is usual)
    # share of images that lose a rectangle of a tenth to a third of them (0.25 is usual)
    erase: Fraction = 0.0
    # mixup: two images and their labels are blended, by a share from Beta(a, a); this is a (0.2 is usual)
    mixup: Annotated[float, Field(ge=0, le=100)] = 0.0
    # CutMix: a rectangle comes from another image, its area from Beta(a, a); this is a (1.0 is usual)
    cutmix: Annotated[float, Field(ge=0, le=100)] = 0.0


def augment(x: Tensor, config: AugmentConfig) -> Tensor:
    """Each image in its own way."""
    if config.flip:
        x = torch.where(_drawn(x, 1) < 0.5, x.flip(-1), x)
    if config.crop or config.turn or config.zoom:
        x = _moved(x, config)
    if config.colour:
        x = _recoloured(x, config.colour)
    if config.erase:
        return _erased(x, config.erase)
    return x


def mixup(x: Tensor, shares: Tensor, config: AugmentConfig) -> tuple[Tensor, Tensor]:
    """Images with another of their batch in them, and labels with its share.   b c h w, b classes"""
    mixes = [mix for mix in ("mixup", "cutmix") if getattr(config, mix)]
    if not mixes:
        return x, shares
    mix = mixes[int(torch.rand(()) * len(mixes))]
    strength = torch.tensor(getattr(config, mix))
    share = float(torch.distributions.Beta(strength, strength).sample())
    order = torch.randperm(len(x)).to(x.device)
    if mix == "mixup":
        x = share * x + (1 - share) * x[order]
    else:
        inside = rectangles(x[:1], torch.tensor([1 - share]))
        x = torch.where(inside, x[order], x)
        share = 1 - float(inside.float().mean())
    return x, share * shares + (1 - share) * shares[order]


def _moved(x: Tensor, config: AugmentConfig) -> Tensor:
    """Turned, moved and made larger or smaller, in one reading of the pixels. What comes in from beyond the
    edge mirrors it."""
    b = len(x)
    angle = (2 * torch.rand(b) - 1) * torch.pi * config.turn / 180
    scale = torch.exp((2 * torch.rand(b) - 1) * torch.log1p(torch.tensor(config.zoom)))
    shift = (2 * torch.rand(b, 2) - 1) * 2 * config.crop
    if not (config.turn or config.zoom):
        # by whole pixels, so that training images are as sharp as those that are predicted
        half_sides = torch.tensor([x.shape[-1], x.shape[-2]]) / 2
        shift = (shift * half_sides).round() / half_sides
    ratio = x.shape[-1] / x.shape[-2]  # places are counted from −1 to 1 along both sides
    cos, sin = scale * angle.cos(), scale * angle.sin()
    rows = [torch.stack((cos, -sin / ratio, shift[:, 0]), 1), torch.stack((sin * ratio, cos, shift[:, 1]), 1)]
    grid = F.affine_grid(torch.stack(rows, 1).to(x.device, x.dtype), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def _recoloured(x: Tensor, strength: float) -> Tensor:
    """Brighter or darker (times a number), nearer to or further from its mean grey, nearer to or further from
    grey."""
    light, contrast, colour = (1 + (2 * _drawn(x, 1) - 1) * strength for _ in range(3))
    x = x * light
    middle = _grey(x).mean((2, 3), keepdim=True)
    x = middle + (x - middle) * contrast
    return (_grey(x) + (x - _grey(x)) * colour).clamp(0, 1)


def _grey(x: Tensor) -> Tensor:
    """As the eye weighs red, green and blue.   b c h w -> b 1 h w"""
    if x.shape[1] == 1:
        return x
    return (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _erased(x: Tensor, share: float) -> Tensor:
    """Some lose a rectangle of a tenth to a third of them: it becomes the mean of the image."""
    inside = rectangles(x, 0.1 + 0.23 * torch.rand(len(x))) & (_drawn(x, 1) < share)
    return torch.where(inside, x.mean((2, 3), keepdim=True), x)


def rectangles(x: Tensor, areas: Tensor) -> Tensor:
    """Where a rectangle of this share of the image is, somewhere in it.   bool b 1 h w"""
    b, (h, w) = len(areas), x.shape[-2:]
    side = areas.sqrt()
    # so that neither side is longer than the image
    stretch = torch.exp(torch.rand(b) - 0.5).clamp(side, 1 / side)
    sides = torch.stack((side * stretch, side / stretch), 1) * torch.tensor([h, w])
    start = torch.rand(b, 2) * (torch.tensor([h, w]) - sides)
    low, high = start[:, :, None, None], (start + sides)[:, :, None, None]
    rows, columns = (torch.arange(n, dtype=torch.float32) + 0.5 for n in (h, w))
    inside = (
        (rows[:, None] >= low[:, 0]) & (rows[:, None] < high[:, 0]) & (columns >= low[:, 1]) & (columns < high[:, 1])
    )
    return inside[:, None].to(x.device)


def _drawn(x: Tensor, channels: int) -> Tensor:
    """One number for each image, from 0 to 1.   b c 1 1"""
    return torch.rand(len(x), channels, 1, 1).to(x.device)


# ── in how many ways an image is seen when it is judged, and the one prediction of all of them

Views = Literal["one", "flip", "shifts", "turns"]
SHIFT = 16  # of the side: how far a shifted view is moved


def _shifted(x: Tensor) -> list[Tensor]:
    far = max(1, x.shape[-1] // SHIFT)
    padded = F.pad(x, (far, far, far, far), mode="replicate")
    h, w = x.shape[-2:]
    return [
        padded[..., i : i + h, j : j + w] for i, j in ((far, far), (0, far), (2 * far, far), (far, 0), (far, 2 * far))
    ]


VIEWS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "one": lambda x: (x,),
    "flip": lambda x: (x, x.flip(-1)),
    "shifts": _shifted,
    "turns": lambda x: [torch.rot90(x, k, (-2, -1)) for k in range(4)],
}


def average_numbers(model: Callable[[Tensor], Tensor], x: Tensor, views: Views) -> Tensor:
    """The mean of what a model predicts for all views.   b c h w -> b 1"""
    return torch.stack([model(view).float() for view in VIEWS[views](x)]).mean(0)


def average_views(model: Callable[[Tensor], Tensor], x: Tensor, views: Views) -> Tensor:
    """Log-probabilities of the classes: the mean of the probabilities of all views.   b c h w -> b classes"""
    seen = [model(view).float().log_softmax(-1) for view in VIEWS[views](x)]
    if len(seen) > 1:
        return torch.stack(seen).logsumexp(0).log_softmax(-1)
    return seen[0]


# ── does a mirror change classes?

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
