"""A latent space of portraits: a small VAE, trained while the page is built, and the decoder that the page runs.

The loss is reconstruction **plus** β·KL: −log p(x|z), summed over all pixels, plus ½ Σ (μ² + σ² − log σ² − 1).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.models.autoencoder import VAE, VAEConfig
from regard.story.guests import EVERYBODY
from regard.story.portraits import SIDE, draw

EACH = 80  # portraits of each guest: other smiles, turned to other sides
SHOWN = 24  # of them, as points of the page
BATCH = 120
STEPS = 600
RATE = 5e-3
SEED = 0

Tell = Callable[[str, float], None]


def faces(seed: int = SEED) -> tuple[Tensor, Tensor]:
    """Portraits with random smiles and turns, and whose they are.   n pixels, n"""
    seeded = torch.Generator().manual_seed(seed)
    moods = torch.rand(len(EVERYBODY), EACH, 2, generator=seeded) * 2 - 1
    drawn = [
        draw(guest.wears, smile, turn, dtype=torch.float32).flatten()
        for guest, each in zip(EVERYBODY, moods.tolist(), strict=True)
        for smile, turn in each
    ]
    whose = torch.arange(len(EVERYBODY)).repeat_interleave(EACH)
    return torch.stack(drawn), whose


def train(x: Tensor, tell: Tell, steps: int = STEPS, seed: int = SEED) -> VAE:
    """A VAE with a code of two numbers; the same seed gives the same one.   x: n pixels"""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VAE(VAEConfig(shape=(SIDE * SIDE,), latent=2, hidden=48, depth=2))
        optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
        falling = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
        for step in range(steps):
            rows = torch.randint(len(x), (BATCH,))
            loss = model(x[rows], warm=1.0)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            falling.step()
            if step % 100 == 0:
                tell("learning the latent space", step / steps)
    return model.eval()


def to_page(model: VAE, x: Tensor, whose: Tensor) -> dict[str, Any]:
    """What the page is given: the decoder's layers, and where portraits are."""
    with torch.no_grad():
        means, log_variance = model.encode(x)
        assert log_variance is not None
        kl = 0.5 * (means**2 + log_variance.exp() - log_variance - 1).sum(-1)
        back = (model.decode_mean(means) - x).square().mean()
    decoder = model.body.get_submodule("decoder")
    linear = [layer for layer in decoder.children() if isinstance(layer, torch.nn.Linear)]
    some = torch.arange(len(x)).view(len(EVERYBODY), -1)[:, :SHOWN].flatten()
    return {
        "layers": [{"weight": pack(layer.weight), "bias": pack(layer.bias)} for layer in linear],
        "codes": means[some].tolist(),
        "whose": whose[some].tolist(),
        "kl": float(kl.mean()),
        "error": float(back),
    }


def pack(values: Tensor) -> dict[str, Any]:
    """Numbers as the page reads them: float32, little-endian, in base64."""
    found = values.detach().to(torch.float32).contiguous().numpy().astype("<f4")
    return {"shape": list(values.shape), "data": base64.b64encode(found.tobytes()).decode("ascii")}
