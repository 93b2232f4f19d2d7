"""Random small models of Hugging Face, and the way back to them."""

import torch

from regard import files
from regard.pretrained.families import FAMILIES
from regard.pretrained.hugging_face import read_directory, to_hugging_face


def save_random(name, options, folder, seed=0):
    """A model of theirs with random weights, none of them zero or one, in a directory."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    cls = getattr(transformers, name)
    torch.manual_seed(seed)
    config = cls.config_class(**options)
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return model


def check_round_trip(found, folder, out):
    """Write what was read from a folder, compare it with the folder, and open it as they do."""
    import transformers

    plain, tensors = to_hugging_face(FAMILIES[found.origin], found.config, found.build().state_dict())
    files.write_json(out / "config.json", plain)
    files.write_tensors(out / "model.safetensors", tensors, metadata={"format": "pt"})
    before = files.read_tensors(folder / "model.safetensors")
    kept = before.keys() - set(found.left_out)
    assert kept and kept == tensors.keys() - set(found.left_out)
    assert [name for name in kept if not torch.equal(before[name], tensors[name])] == []
    assert read_directory(out).config == found.config
    return getattr(transformers, plain["architectures"][0]).from_pretrained(out).eval()
