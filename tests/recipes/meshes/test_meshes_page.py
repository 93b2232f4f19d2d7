"""A mesh on a page, in a real browser: turned, zoomed, chosen, by mouse and by keyboard, and coloured by other numbers."""

from regard.look import page
from regard.look.scene import gather
from regard.models.mesh_net import MeshNet
from regard.recipes.meshes.view import MeshView
from tests.look.browser import PHONE, eventually, opened, readout, ready
from tests.look.scenes import reader_for

PICTURE = "document.querySelector('.space canvas').toDataURL()"


def test_a_mesh_is_turned_chosen_and_coloured(browser, tmp_path):
    model, inputs = MeshNet.tiny()
    reader = reader_for(model, inputs)
    assert isinstance(reader.views[0], MeshView)  # its triangles are not taken for the edges of a graph
    found = gather(model, reader.read(), views=reader.views, name="mesh", tsne=False)
    where = page.write(found.data, tmp_path / "mesh.html", reader.views[0].files)
    with opened(browser, where) as shown:
        ready(shown)
        space = shown.locator(".space")

        def changes(act):
            before = shown.evaluate(PICTURE)
            act()
            eventually(shown, lambda: shown.evaluate(PICTURE) != before, True)

        changes(lambda: space.press("ArrowLeft"))
        changes(lambda: space.press("+"))
        changes(lambda: shown.locator(".picker select").select_option(label="Gauss curvature"))
        space.press("PageDown")
        assert "vertex 1" in readout(shown) and "Gauss curvature" in readout(shown)
        shown.locator("input[type=number]").fill("7")
        shown.locator("input[type=number]").press("Enter")
        assert "vertex 7" in readout(shown)
    with opened(browser, where, viewport=PHONE) as shown:
        ready(shown)
        assert shown.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert len(found.still("mesh").axes) == 2  # both curvatures
