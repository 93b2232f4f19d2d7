"""Small files of series."""

import numpy as np

N = 120


def waves(n=N, seed=0):
    """A period of 12 on a slope, with a little noise."""
    t = np.arange(n)
    return 10 * np.sin(2 * np.pi * t / 12) + 0.1 * t + np.random.default_rng(seed).normal(0, 1, n)


def write_months(path, values=None, first="2010-01"):
    values = waves() if values is None else values
    months = np.datetime64(first) + np.arange(len(values))
    rows = [f"{month},{'' if np.isnan(value) else f'{value:.6f}'}" for month, value in zip(months, values, strict=True)]
    path.write_text("\n".join(["month,sold", *rows]))
    return str(path)


def write_long(path, count=3):
    """Several series, each in units of its own."""
    rows = ["shop,day,sold"]
    for k in range(count):
        days = np.datetime64("2021-03-01") + np.arange(N)
        rows += [f"s{k},{day},{(k + 1) * value:.6f}" for day, value in zip(days, waves(seed=k), strict=True)]
    path.write_text("\n".join(rows))
    return str(path)


def save_gestures(path, count=40, n=20):
    """Two classes: a rising and a falling line, at random levels."""
    random = np.random.default_rng(0)
    label = np.arange(count) % 2
    slope = np.where(label == 0, 1.0, -1.0)[:, None] * np.linspace(-1, 1, n)
    values = slope + random.normal(0, 1, (count, 1)) + random.normal(0, 0.2, (count, n))
    np.savez(path, values=values[..., None], labels=np.array(["up", "down"])[label])
    return str(path)


def save_slopes(path, count=40, n=20):
    """Lines with a slope each, at random levels."""
    random = np.random.default_rng(0)
    slope = random.uniform(-2, 2, count).round(3)
    values = (
        slope[:, None] * np.linspace(-1, 1, n) + random.normal(0, 1, (count, 1)) + random.normal(0, 0.1, (count, n))
    )
    np.savez(path, values=values[..., None], labels=slope)
    return str(path)
