"""Sets made ready for training, as a command does it."""

from pathlib import Path

from regard.recipes.job import DataContext
from regard.recipes.request import TrainRequest
from regard.recipes.sets.recipe import RECIPE


def prepared(data, seed=0, batch=8, **options):
    """The job for this data and these options of it."""
    options = {f"data.{name}": value for name, value in options.items()}
    request = TrainRequest(recipe=RECIPE, data=data, options=options | {"train.seed": seed, "train.batch": batch})
    settings = request.settings()
    return RECIPE.prepare(settings, DataContext(cache=Path("unused"), examples=request.examples))
