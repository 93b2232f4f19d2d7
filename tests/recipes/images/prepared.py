"""Images made ready for training, as a command does it."""

from pathlib import Path

from regard.recipes.images.recipe import RECIPE
from regard.recipes.job import DataContext
from regard.recipes.request import TrainRequest


def prepared(data, seed=0, batch=8, cache=Path("unused"), **options):
    """The job for this data and these options of it."""
    request = TrainRequest(recipe=RECIPE, data=data)
    options = {f"data.{name}": value for name, value in options.items()}
    settings = request.settings(options | {"train.seed": seed, "train.batch": batch})
    return RECIPE.prepare(settings, DataContext(cache=cache, examples=request.examples))
