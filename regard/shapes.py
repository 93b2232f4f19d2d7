"""Sizes by name, or an error that says both sides. The axes' letters are the same everywhere: `b` batch, `n`
queries or tokens, `m` keys, `h` heads, `c` channels of a head, `d` width.
"""

from typing import Any

from regard.errors import RegardError


def expect(x: Any, pattern: str, /, *, name: str = "tensor", **sizes: int) -> tuple[int, ...]:
    """The sizes of x, one for each axis the pattern names, in its order; a ValueError if x does not fit.

        b, n, d = expect(x, "b n d", d=self.dim)
        b, h, n, c = expect(q, "b h n c", name="q")
        expect(k, "b g m c", name="k", b=b, c=c)        # calls agree by handing sizes on
        n, _ = expect(scores, "... n n")                # any axes in front (not returned); the last two are
        equal _, e = expect(edges, "2 e")                     # a number is a size that must be so

    Costs two microseconds at most and traces under torch.compile without a break; that is why nothing is
    cached.
    """
    shape = getattr(x, "shape", None)
    axes = pattern.split()
    if shape is None:
        raise TypeError(f"{name} must be a tensor '{pattern}', got {type(x).__name__}, which has no shape")
    found = tuple(shape)
    if axes and axes[0] == "...":
        axes = axes[1:]
        found = found[max(0, len(found) - len(axes)) :]
    for axis in sizes:
        if axis not in axes:
            raise RegardError(f"{name} has {axis}={sizes[axis]}, but its pattern '{pattern}' has no axis '{axis}'")
    asked = len(sizes)  # a dict keeps its order: what was asked for comes before what is found
    if len(found) != len(axes):
        raise _unfit(shape, pattern, name, sizes, asked, f"{_axes(len(shape))}, not {_axes(len(axes))}")
    for axis, size in zip(axes, found, strict=True):
        if not axis.isalpha() and size != _number(axis, pattern):
            raise _unfit(shape, pattern, name, sizes, asked, f"an axis is {size} where the pattern says {axis}")
        if sizes.setdefault(axis, size) != size:
            if axis in list(sizes)[:asked]:
                other = f"expected {sizes[axis]}"
            else:
                other = f"but {sizes[axis]} earlier on"
            raise _unfit(shape, pattern, name, sizes, asked, f"axis '{axis}' is {size}, {other}")
    return found


def expect_images(x: Any, weights: Any = None, **sizes: int) -> tuple[int, ...]:
    """The sizes of images, b c h w; an error for what is no image, or not yet in numbers that these
    weights can weigh."""
    found = expect(x, "b c h w", name="x", **sizes)
    if not hasattr(x, "is_floating_point"):
        raise TypeError(f"x must be a tensor, got {type(x).__name__}; torch.as_tensor(x) makes one")
    if not x.is_floating_point():
        raise RegardError(f"images must be floats, got {x.dtype}; x.float() / 255 makes bytes numbers from 0 to 1")
    # (of others their layer knows)
    fits = weights is None or weights.dtype == x.dtype or not weights.is_floating_point()
    if not fits and not _cast_by_itself(x.device.type):
        have, want = (str(each.dtype).removeprefix("torch.") for each in (x, weights))
        raise RegardError(
            f"images are {have}, and the model's weights are {want}; x.to({weights.dtype}) makes them fit"
        )
    if not found[2] or not found[3]:
        raise RegardError(f"an image must have pixels, got {found[2]} × {found[3]}")
    return found


def _cast_by_itself(device: str) -> bool:
    """Does autocast see to it that numbers and weights are of one kind?"""
    import torch  # here, since shapes are also told before it is needed

    return torch.is_autocast_enabled(device)


def _number(axis: str, pattern: str) -> int:
    if not axis.isdecimal():
        raise RegardError(f"a pattern is words and numbers with spaces between, perhaps after '...'; got '{pattern}'")
    return int(axis)


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _unfit(shape: Any, pattern: str, name: str, sizes: dict[str, int], asked: int, reason: str) -> ValueError:
    given = ", ".join(f"{axis}={size}" for axis, size in list(sizes.items())[:asked])
    return RegardError(f"{name} must be '{pattern}'{given and f' with {given}'}, got shape {tuple(shape)}: {reason}")
