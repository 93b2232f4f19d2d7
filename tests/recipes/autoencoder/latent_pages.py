"""Small autoencoders without a run, with data of each form, and sessions that look at them."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from regard.look.model_input import ModelInput
from regard.look.reader import Reader
from regard.look.session import Session
from regard.models.autoencoder import VAE, Autoencoder, AutoencoderConfig, Denoising, DenoisingConfig, VAEConfig
from regard.recipes.autoencoder.cloud_inputs import CloudInputs, CloudsFitted
from regard.recipes.autoencoder.config import InputsConfig
from regard.recipes.autoencoder.image_inputs import ImageInputs
from regard.recipes.autoencoder.row_inputs import RowInputs, RowsFitted
from regard.recipes.autoencoder.views.held_out import Codes
from regard.recipes.autoencoder.views.latent import LatentView
from regard.recipes.autoencoder.views.rate import RateView
from regard.recipes.autoencoder.views.reconstructions import ReconstructionsView
from regard.recipes.dataset import Dataset, Encodings
from regard.recipes.example import Examples
from regard.recipes.images.processor import ImagesFitted

SHAPES = {"images": (1, 6, 6), "rows": (4,), "points": (12, 3)}
BODIES = {"images": "mlp", "rows": "mlp", "points": "set"}
COLUMNS = ("age", "<b>height</b>", "weight", "constant")
CENTRE, SCALE = (40.0, 170.0, -3.5, 7.0), (10.0, 0.5, 2.0, 1.0)
MODELS = {
    "vae": (VAE, VAEConfig),
    "autoencoder": (Autoencoder, AutoencoderConfig),
    "denoising": (Denoising, DenoisingConfig),
}


def processor_of(form):
    """What reads inputs of one form, as fitted on a train split."""
    if form == "images":
        return ImageInputs(InputsConfig(), ImagesFitted(size=6, channels=1, fit="crop"))
    if form == "points":
        return CloudInputs(InputsConfig(), CloudsFitted(points=12, width=3))
    return RowInputs(InputsConfig(), RowsFitted(columns=COLUMNS, centre=CENTRE, scale=SCALE))


def inputs_of(form, count=40, labels=("cat", "dog </script>")):
    """Inputs of one form, a third of them for tests."""
    draw, processor = np.random.default_rng(0), processor_of(form)
    shape = SHAPES[form]
    if form == "images":
        values = draw.integers(0, 256, (count, 6, 6), dtype=np.uint8)
    else:
        values = draw.normal(size=(count, *shape)).astype(np.float32)
    if form == "rows":
        values[:, 3] = 0
        values = values * np.array(SCALE) + np.array(CENTRE)
    examples = Examples(
        what="made",
        count=count,
        inputs=lambda i: {"image" if form == "images" else "x": values[i]},
        names=lambda i: f"{processor.unit[:-1]} {i + 1}",
        cells=np.array([labels[i % len(labels)] for i in range(count)]) if labels else None,
    )
    encodings = Encodings(examples, processor, "memory")
    return Dataset(examples, processor, np.zeros(count), np.arange(count) % 3, encodings, 16, 0)


def model_of(form, kind="vae", latent=2, **options):
    torch.manual_seed(0)
    made, config = MODELS[kind]
    sizes = {"shape": SHAPES[form], "body": BODIES[form], "latent": latent, "hidden": 16, "depth": 1}
    model = made(config(**sizes | options)).eval()
    with torch.no_grad():  # as if it had learned something: outputs differ between inputs and between codes
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return model


def codes_of(form, kind="vae", latent=2, inputs=None, **options):
    found = inputs_of(form) if inputs is None else inputs
    return Codes(model_of(form, kind, latent, **options), found.processor, lambda: found)


class CodesReader(Reader):
    """The first held-out input."""

    def __init__(self, codes):
        self.codes = codes
        self.views = (LatentView(codes), ReconstructionsView(codes), RateView(codes))

    def read(self, given=None, target=None):
        held = self.codes.held_out
        shape = (1, *self.codes.processor.shape)
        x = torch.zeros(shape) if held is None else held.x[:1]
        return ModelInput(inputs={"x": x}, name="first <i>input</i>")


def session_of(codes):
    return Session(codes.model, CodesReader(codes), "codes", tsne=False)


@cache
def shown_page(form, kind="vae", latent=2):
    """What is on the page of such a model."""
    session = session_of(codes_of(form, kind, latent))
    return session, session.show({})


def part(data, name):
    return next((each for each in data["views"] if each["view"] == name), None)
