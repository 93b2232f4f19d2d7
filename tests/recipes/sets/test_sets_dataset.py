"""Sets of files and tables: what is asked is found out, padding changes nothing, and what is wrong is named."""

import csv

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from regard.config import from_dict, to_dict
from regard.data.batch import IGNORE
from regard.data.splits import TRAIN
from regard.models.deep_sets import DeepSets, DeepSetsConfig
from regard.recipes.sets.config import SetsConfig
from regard.recipes.sets.processor import SetsFitted, pad_sets
from regard.recipes.sets.read_table import read_table
from tests.recipes.sets.prepared import prepared

BASKETS = {f"b{i}": [(1.0 + i % 5, float(k)) for k in range(1 + i % 4)] for i in range(40)}


def write(tmp_path, text, name="table.csv"):
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def table(tmp_path, target, name="table.csv", mark=","):
    """Baskets in long form, the lines of a set not together."""
    lines = [(k, name, row) for name, rows in BASKETS.items() for k, row in enumerate(rows)]
    lines.sort(key=lambda line: line[0])
    body = "".join(mark.join([name, str(a), str(b), str(target(name, k))]) + "\n" for k, name, (a, b) in lines)
    return write(tmp_path, mark.join(["set", "price", "amount", "target"]) + "\n" + body, name)


def read(data):
    return read_table(data, SetsConfig(), "learn", None, each=None)


def rows_of(source, steps):
    """Every set that comes, as (things, target), without padding."""
    found = []
    for batch in [*(source.batch(step) for step in range(steps)), *source.validation()]:
        real = torch.ones(batch["x"].shape[:2], dtype=torch.bool) if "real" not in batch else batch["real"]
        found += [(batch["x"][i][real[i]], batch.target[i]) for i in range(len(batch["x"]))]
    return found


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mark, name", [(",", "t.csv"), (";", "t.csv"), ("\t", "t.tsv")])
def test_rows_are_gathered_by_set(tmp_path, mark, name):
    found = read(table(tmp_path, lambda name, k: name, name, mark))
    assert found.about["features"] == ("price", "amount") and len(found) == len(BASKETS)
    for example in map(found.__getitem__, range(len(found))):
        assert sorted(map(tuple, example.inputs["x"].tolist())) == BASKETS[example.name]
        assert example.target == example.name


def test_text_is_a_class(tmp_path):
    job = prepared(table(tmp_path, lambda name, k: "even" if int(name[1:]) % 2 == 0 else "odd"), validation=0.2)
    assert job.labels == ("even", "odd") and job.processor.target.each is None
    assert job.counts == {"train": 32, "validation": 8, "test": 0}
    assert (job.processor.fitted.size, job.processor.fitted.elements) == (4, 100)
    rows = rows_of(job.source, 4)
    assert len(rows) == 40 and sum(target.item() for _, target in rows) == 20
    mean = torch.cat([things for things, _ in rows]).mean(0)
    assert abs(mean).max() < 0.3  # standardised by the training sets


def test_a_few_whole_numbers_are_classes_and_others_are_numbers(tmp_path):
    stars = prepared(table(tmp_path, lambda name, k: int(name[1:]) % 5))
    assert stars.labels == ("0", "1", "2", "3", "4")
    price = prepared(table(tmp_path, lambda name, k: 10 + int(name[1:]) / 4))
    assert price.labels is None and price.number.name == "target" and price.source.codes.shape == (40,)
    train = price.source.codes[price.source.splits == TRAIN]
    np.testing.assert_allclose([train.mean(), train.std()], [0, 1], atol=1e-6)
    back = [price.number.restore(code) for code in price.source.codes]
    np.testing.assert_allclose(sorted(back), [10 + i / 4 for i in range(40)], rtol=1e-5)
    assert prepared(table(tmp_path, lambda name, k: int(name[1:]) % 5), asks="numbers").labels is None
    halves = prepared(table(tmp_path, lambda name, k: 0.5 * (int(name[1:]) % 2)), asks="classes")
    assert halves.labels == ("0.0", "0.5")


@pytest.mark.parametrize(
    "target, asks", [(lambda name, k: "first" if k == 0 else "later", "classes"), (lambda name, k: k + 0.5, "numbers")]
)
def test_a_target_that_differs_within_a_set_is_asked_of_each_thing(tmp_path, target, asks):
    job = prepared(table(tmp_path, target), batch=16)
    assert job.processor.target.each == "element" and (job.labels is None) == (asks == "numbers")
    for step in range(3):
        batch = job.source.batch(step)
        assert batch.target.shape == batch["x"].shape[:2] and "real" in batch
        if asks == "classes":
            assert ((batch.target == IGNORE) == ~batch["real"]).all() and (batch.target[:, 0] == 0).all()


def test_options_that_do_not_go_with_the_data(tmp_path):
    path = table(tmp_path, lambda name, k: name)
    with pytest.raises(ValueError, match="point clouds.*table.csv.*table"):
        prepared(path, turn="any")
    with pytest.raises(ValueError, match="max.*none; leave turn out"):
        SetsConfig(task="max", turn="any")
    with pytest.raises(ValueError, match="sets is for synthetic tasks"):
        SetsConfig(path=path, sets=5)


def test_columns_are_chosen_by_name(tmp_path):
    path = table(tmp_path, lambda name, k: name)
    job = prepared(path, id="price", target="amount", columns=("price",), asks="numbers")
    assert job.processor.fitted.features == ("price",) and len(job.source.examples) == 5
    assert from_dict(SetsFitted, to_dict(job.processor.fitted)) == job.processor.fitted
    assert from_dict(SetsConfig, to_dict(job.processor.config)) == job.processor.config


@pytest.mark.parametrize(
    "text, words, options",
    [
        ("", "table.csv is empty", {}),
        ("set,x,target\n", "table.csv has no rows", {}),
        ("set,x,target\n1,2,a\n1,2\n", "3.*table.csv.*2.*3", {}),
        ("set,x,target\n1,2,a\n\n1,two,a\n", "table.csv.*'x'.*line 4.*'two'", {}),
        ("set,x,target\n1,,a\n", "table.csv.*'x'.*line 2", {}),
        ("set,x,target\n1,nan,a\n", "table.csv.*'x'.*line 2", {}),
        ("set,x,target\n1,2,\n", "table.csv.*'target'.*missing.*line 2", {}),
        ("set,x,target\n1,2,nan\n", "table.csv.*'target'.*missing.*line 2", {}),
        ("id,x,target\n1,2,a\n", "table.csv.*'set'.*id, x, target.*--data.id", {}),
        ("set,x,targets\n1,2,a\n", "'target'.*'targets'", {}),
        ("set,target\n1,a\n", "'set'.*'target'", {}),
        ("set,x,target\n1,2,a\n2,3,a\n", "has only the class 'a'", {}),
        ("set,x,target\n1,2,a\n3,4,b\n", "too few sets for a validation split", {}),
        ("set,x,target\n1,2,1\n2,3,x\n", "3.*table.csv.*'x'.*'target'", {"asks": "numbers"}),
        ("set,x,target\n1,2,0.5\n", "there is 1 row", {}),
        ('set,x,target\n1,2,"a\n', "2.*table.csv.*CSV", {}),
    ],
)
def test_what_is_wrong_with_a_table_is_one_clear_line(tmp_path, text, words, options):
    with pytest.raises(ValueError, match=words) as caught:
        prepared(write(tmp_path, text), **options)
    assert "\n" not in str(caught.value)


def test_parquet_that_pyarrow_wrote(tmp_path):
    columns = {"set": [7, 7, 8, 9], "x": [1.0, 2.0, None, 3.0], "target": ["a", "a", "b", "b"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="3.*t.parquet.*'x'"):
        read(tmp_path / "t.parquet")
    columns["x"][2] = 4.0
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    found = read(tmp_path / "t.parquet")
    assert [found.names(i) for i in range(3)] == ["7", "8", "9"] and found.target_of(2) == "b"
    assert found.inputs(0)["x"].tolist() == [[1], [2]]
    with pytest.raises(ValueError, match="Parquet.*cut"):
        read(write(tmp_path, "PAR1", "bad.parquet"))


def test_rows_in_memory_are_read_as_those_of_a_file(tmp_path):
    path = table(tmp_path, lambda name, k: 10 + int(name[1:]) / 4)
    with open(path) as file:
        rows = list(csv.DictReader(file))
    ours, theirs = read(path), read(rows)
    assert [ours.inputs(i)["x"].tolist() for i in range(40)] == [theirs.inputs(i)["x"].tolist() for i in range(40)]
    assert ours.plain == theirs.plain and theirs.what == "rows"


def test_a_word_among_numbers_leaves_out_the_sets_that_have_it(tmp_path):
    path = write(tmp_path, "set,x,target\n1,2,a\n2,two,a\n2,3,a\n3,4,b\n3,5,\n")
    found = read_table(path, SetsConfig(), "use", ("x",), each=False)
    assert list(found.errors) == [1] and "line 3" in found.errors[1] and "'two'" in found.errors[1]
    assert found.plain == ["a", "a", "b"] and found.row_of(2) == {"set": "3", "target": "b"}


# ── clouds ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    for kind, long in (("ball", 1.0), ("rod", 6.0)):
        (tmp_path / kind).mkdir()
        for i in range(6):
            np.save(tmp_path / kind / f"{i}.npy", 50 + random.normal(size=(20 + 10 * i, 3)) * [1, 1, long])
    return tmp_path


def test_a_folder_of_clouds(folder):
    job = prepared(str(folder), points=32, validation=0.34, batch=4)
    assert job.labels == ("ball", "rod") and job.processor.fitted.ball
    assert job.processor.fitted.features == ("x", "y", "z")
    assert (job.counts["train"], job.counts["validation"]) == (8, 4)
    source = job.source
    batch = source.batch(0)
    assert batch["x"].shape[1] <= 32 and batch["x"].norm(dim=-1).max() <= 1 + 1e-6
    again = prepared(str(folder), points=32, validation=0.34, batch=4).source
    assert torch.equal(batch["x"], again.batch(0)["x"])
    assert not torch.equal(source.batch(0)["x"], source.batch(2)["x"])  # other points of the same clouds
    again = [batch["x"] for batch in source.validation()]
    assert all(torch.equal(a, b["x"]) for a, b in zip(again, source.validation(), strict=True))


def test_clouds_are_turned_when_asked(folder):
    still, turned, upright = (
        prepared(str(folder), turn=turn, points=100, batch=12).source.batch(1) for turn in ("none", "any", "upright")
    )

    def lengths(batch):
        return batch["x"].norm(dim=-1)

    torch.testing.assert_close(lengths(still), lengths(turned))
    torch.testing.assert_close(still["x"][..., 2], upright["x"][..., 2])
    assert (still["x"] - turned["x"]).abs().max() > 0.1 and (still["x"] - upright["x"])[..., 0].abs().max() > 0.1


def test_labels_of_points(tmp_path):
    for i in range(5):
        points = np.random.default_rng(i).normal(size=(10 + i, 4))
        np.savez(tmp_path / f"{i}.npz", points=points, labels=np.where(points[:, 0] > 0, "right", "left"))
    job = prepared(str(tmp_path), validation=0.2, batch=4)
    assert job.processor.target.each == "point" and job.labels == ("left", "right")
    assert job.processor.fitted.features[3] == "number 4"
    batch = job.source.batch(0)
    assert batch.target.shape == batch["x"].shape[:2] and batch["real"].sum() == (batch.target != IGNORE).sum()


def test_what_is_wrong_with_a_folder(folder):
    with pytest.raises(FileNotFoundError, match="nowhere.*task"):
        prepared(str(folder / "nowhere"))
    np.save(folder / "stray.npy", np.zeros((3, 3)))
    with pytest.raises(ValueError, match="stray.npy.*not.*folder.*class"):
        prepared(str(folder))
    np.save(folder / "stray.npy", np.zeros((3, 2)))
    with pytest.raises(ValueError, match="stray.npy.*2.*0.npy.*3"):
        prepared(str(folder))
    (folder / "stray.npy").unlink()
    np.savez(folder / "rod" / "9.npz", points=np.zeros((3, 3)), labels=np.zeros(3))
    with pytest.raises(ValueError, match="0.npy.*labels.*points"):
        prepared(str(folder))
    (folder / "rod" / "9.npz").unlink()
    (folder / "cone").mkdir()
    np.save(folder / "cone" / "0.npy", np.ones((5, 3)))
    assert any("one set of 'cone'" in note for note in prepared(str(folder)).notes)
    with pytest.raises(ValueError, match="folder.*point clouds.*table"):
        prepared(str(folder / "cone" / "0.npy"))


def test_only_places_are_turned(tmp_path):
    for kind in "ab":
        (tmp_path / kind).mkdir()
        for i in range(2):
            np.save(tmp_path / kind / f"{i}.npy", np.random.default_rng(i).normal(size=(5, 2)))
    with pytest.raises(ValueError, match="3 numbers .x, y, z., but those of .* have 2"):
        prepared(str(tmp_path), turn="any")


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_batch_of_several_sizes_equals_one_by_one():
    random = np.random.default_rng(0)
    things = [random.normal(size=(n, 3)).astype(np.float32) for n in (4, 1, 0, 7)]
    batch = pad_sets(things)
    assert batch["x"].shape == (4, 7, 3) and batch["real"].sum(1).tolist() == [4, 1, 0, 7]
    for pool in ("sum", "mean", "max", "gated", "softmax"):
        torch.manual_seed(0)
        model = DeepSets(DeepSetsConfig(features=3, outputs=2, hidden=16, pool=pool, layers="together"))
        out = model(batch["x"], real=batch["real"])
        for row, each in zip(out, things, strict=True):
            torch.testing.assert_close(row, model(torch.from_numpy(each)[None])[0], rtol=1e-4, atol=1e-5)
        spoiled = torch.where(batch["real"][..., None], batch["x"], torch.nan)
        torch.testing.assert_close(model(spoiled, real=batch["real"]), out)
        assert not torch.allclose(model(batch["x"]), out)  # (what it would be if padding were forgotten)
