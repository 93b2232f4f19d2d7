"""Classes of images: bytes are scaled, views are averaged, labels smoothed, mixed and weighted as the formulas say."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.data.batch import Batch
from regard.recipes.images.augment import VIEWS, AugmentConfig
from regard.recipes.images.config import ImagesConfig
from regard.recipes.images.processor import ImagesFitted, ImagesProcessor
from regard.recipes.target import Target
from regard.recipes.task import SupervisedTask

PIXELS = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
TARGET = torch.tensor([0, 1, 2, 3, 0, 1])
MEAN, DEVIATION = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(3 * 64, 4)

    def forward(self, x):
        return self.map(x.flatten(1))


def task(smoothing=0.0, weights=None, **how):
    fitted = ImagesFitted(size=8, channels=3, fit="crop", mean=MEAN, deviation=DEVIATION)
    processor = ImagesProcessor(ImagesConfig(**how), fitted, Target(classes=tuple("abcd")))
    return SupervisedTask(processor, smoothing, weights)


def answer(task, model, pixels):
    """Log-probabilities of all views together."""
    return task.processor.forward(model, task.processor.finish(Batch({"x": pixels}), training=False))


def scaled():
    return (PIXELS / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)


def test_the_loss_is_that_of_torch_on_scaled_pixels():
    model = Linear()
    loss, count = task().loss(model, Batch({"x": PIXELS}, TARGET))
    torch.testing.assert_close(loss, F.cross_entropy(model(scaled()), TARGET))
    assert count == 6
    loss, _ = task(smoothing=0.1).loss(model, Batch({"x": PIXELS}, TARGET))
    torch.testing.assert_close(loss, F.cross_entropy(model(scaled()), TARGET, label_smoothing=0.1))
    weights = [1.0, 2.0, 0.5, 1.5]
    loss, _ = task(weights=weights).loss(model, Batch({"x": PIXELS}, TARGET))
    each = F.cross_entropy(model(scaled()), TARGET, reduction="none") * torch.tensor(weights)[TARGET]
    torch.testing.assert_close(loss, each.mean())


def test_mixed_labels_are_asked_for_in_shares():
    model, plain = Linear(), task().loss(Linear(), Batch({"x": PIXELS}, TARGET))[0]
    torch.manual_seed(3)
    loss, _ = task(augment=AugmentConfig(mixup=1.0)).loss(model, Batch({"x": PIXELS}, TARGET))
    torch.manual_seed(3)
    torch.rand(())  # which of the two kinds of mixing
    share = float(torch.distributions.Beta(torch.tensor(1.0), torch.tensor(1.0)).sample())
    order = torch.randperm(6)
    logits = model(share * scaled() + (1 - share) * scaled()[order])
    expected = share * F.cross_entropy(logits, TARGET) + (1 - share) * F.cross_entropy(logits, TARGET[order])
    torch.testing.assert_close(loss, expected)
    assert not torch.isclose(loss, plain)


@pytest.mark.parametrize("views", VIEWS)
def test_views_are_averaged_as_probabilities(views):
    model = Linear()
    answers = answer(task(views=views), model, PIXELS)
    expected = torch.stack([model(view).softmax(-1) for view in VIEWS[views](scaled())]).mean(0)
    torch.testing.assert_close(answers.exp(), expected)
    measures = task(views=views).measure(
        model, [Batch({"x": PIXELS[:4]}, TARGET[:4]), Batch({"x": PIXELS[4:]}, TARGET[4:])]
    )
    assert measures["accuracy"] == pytest.approx((expected.argmax(-1) == TARGET).float().mean().item())
    assert measures["loss"] == pytest.approx(F.nll_loss(expected.log(), TARGET).item(), rel=1e-5)
    _, counts = task(views=views).measure_with_confusion(
        model, [Batch({"x": PIXELS[:4]}, TARGET[:4]), Batch({"x": PIXELS[4:]}, TARGET[4:])], 4
    )
    assert counts.sum(1).tolist() == [2, 2, 1, 1]
    assert all(counts[i, j] == ((i == TARGET) & (expected.argmax(-1) == j)).sum() for i in range(4) for j in range(4))


def test_weights_are_judged_by_the_loss_that_is_learned():
    model, batches = Linear(), [Batch({"x": PIXELS[:4]}, TARGET[:4]), Batch({"x": PIXELS[4:]}, TARGET[4:])]
    wanted = F.cross_entropy(model(scaled()), TARGET, label_smoothing=0.1).item()
    assert task(smoothing=0.1).measure(model, batches)["loss"] == pytest.approx(wanted, rel=1e-5)

    class Sure(nn.Module):
        """Right, and as sure as it was told to be."""

        def __init__(self, share):
            super().__init__()
            self.share = share

        def forward(self, x):
            rest = (1 - self.share) / 3
            return (F.one_hot(TARGET, 4) * (self.share - rest) + rest).log()

    def loss(share, **how):
        return task(**how).measure(Sure(share), [Batch({"x": PIXELS}, TARGET)])["loss"]

    assert loss(0.925, smoothing=0.1) < loss(0.999, smoothing=0.1) and loss(0.925) > loss(0.999)


def test_quarter_turns_make_any_model_invariant_to_them():
    model, asked = Linear(), task(views="turns")
    turned = torch.rot90(PIXELS, 1, (-2, -1))
    torch.testing.assert_close(answer(asked, model, PIXELS), answer(asked, model, turned))
    assert not torch.allclose(answer(task(), model, PIXELS), answer(task(), model, turned), atol=0.01)


def test_changes_are_for_training_only():
    model, changing = Linear(), task(augment=AugmentConfig(flip=True, turn=20, erase=1.0))
    assert changing.measure(model, [Batch({"x": PIXELS}, TARGET)]) == task().measure(
        model, [Batch({"x": PIXELS}, TARGET)]
    )
    torch.manual_seed(0)
    assert changing.loss(model, Batch({"x": PIXELS}, TARGET))[0] != task().loss(model, Batch({"x": PIXELS}, TARGET))[0]
