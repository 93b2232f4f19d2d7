"""Every key of every family's config.json with values that nobody expects: an error in one line, or a config."""

import pytest

from regard.errors import RegardError
from regard.models.decoder import DecoderConfig
from regard.models.encoder import EncoderConfig
from regard.models.experts import PlainMLP
from regard.models.swin import SwinConfig
from regard.models.vit import ViTConfig
from regard.pretrained.families import FAMILIES
from regard.pretrained.family import translate
from regard.pretrained.foreign_config import ForeignConfig
from regard.pretrained.labels import read_labels

ODD = (None, True, -1, 0, 10**30, 0.5, float("inf"), "x", [], [1], ["x", 2], {}, {"rope_type": "yarn", "factor": "x"})
SIZES = {"dim": 32, "depth": 2, "heads": 4}
CONFIGS = {
    "decoder": DecoderConfig(vocab=9, **SIZES),
    "encoder": EncoderConfig(vocab=9, head="transform", mlp=PlainMLP(activation="gelu"), **SIZES),
    "vit": ViTConfig(classes=2, size=16, patch=4, **SIZES),
    "swin": SwinConfig(classes=2),
}
MORE = ("rope_scaling", "rope_parameters", "id2label", "num_labels", "layer_types", "partial_rotary_factor")


def keys_of(family):
    return [*family.write(CONFIGS[family.kind])[1], *MORE, "something_new"]


@pytest.mark.parametrize("model_type", list(FAMILIES))
def test_odd_values_are_one_line(model_type):
    family = FAMILIES[model_type]
    name, plain = family.write(CONFIGS[family.kind])
    refused = 0
    for key in keys_of(family):
        for value in ODD:
            theirs = ForeignConfig({"model_type": model_type, **plain, key: value}, "odd/config.json")
            try:
                translate(family, theirs, family.classes[name])
            except RegardError as error:
                refused += 1
                message = str(error)
                if "\n" in message or "odd/config.json" not in message or len(message) > 600:
                    pytest.fail(f"{key}={value!r}: {message}")
    assert refused > 4 * len(plain)


@pytest.mark.parametrize("value", [10**12, -1, "x", 1.5])
def test_a_number_of_labels_is_bounded(value):
    with pytest.raises(RegardError, match="num_labels"):
        read_labels({"num_labels": value})
    assert read_labels({"num_labels": 3}) == ("LABEL_0", "LABEL_1", "LABEL_2")
