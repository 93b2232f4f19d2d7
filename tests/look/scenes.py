"""What tests of pages share: scenes and pages with the views of every kind of data."""

from regard.look import page
from regard.look import scene as scenes
from regard.recipes.base import foreign_reader
from regard.recipes.graphs.view import GraphView
from regard.recipes.images.views.features import FeaturesView
from regard.recipes.images.views.image import ImageView
from regard.recipes.processors import ForeignModel
from regard.recipes.sets.views.points import PointsView
from regard.recipes.text.reader import TextReader
from regard.recipes.text.view import NextTokenView

VIEWS = (NextTokenView(), ImageView(), FeaturesView(), PointsView(), GraphView())
FILES = tuple(file for view in VIEWS for file in view.files)


def gather(model, given, **how):
    return scenes.gather(model, given, views=VIEWS, **how)


def still(scene, *, title=""):
    return scene.still(title)


def write_page(data, path):
    return page.write(data, path, FILES)


class Reads(TextReader):
    """A reader of text that is a function."""

    def __init__(self, read):
        self.function = read

    def read(self, given=None, target=None):
        return self.function(*(each.decode() if isinstance(each, bytes) else each for each in (given, target)))


def html_page(data):
    return page.html(data, FILES)


def reader_for(model, inputs, roles=None):
    """What reads for a model that no recipe made."""
    return foreign_reader(ForeignModel(model=model, inputs=inputs, roles=roles))
