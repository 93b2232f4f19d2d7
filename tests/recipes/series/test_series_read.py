"""Files of series: which columns are what, which times are equal steps, and what is refused in one line."""

import numpy as np
import pyarrow
import pytest
from pyarrow import csv, parquet

from regard.errors import RegardError
from regard.recipes.series.config import ForecastConfig
from regard.recipes.series.evaluation import naive_errors, seasonal_naive
from regard.recipes.series.read_series import has_labels, read_series
from regard.recipes.series.series import Scale, Series
from regard.recipes.series.time_splits import guess_season, split_by_time
from tests.recipes.series.made import N, save_gestures, waves, write_long, write_months


def read(data, labelled=False, **how):
    return read_series(data, ForecastConfig(**how), labelled=labelled)


def write(folder, text, name="file.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_months_are_equal_steps_and_come_back_as_dates(tmp_path):
    file = read(write_months(tmp_path / "m.csv"))
    assert file.channels == ("sold",) and file.series[0].equal and file.clock.word == "month"
    np.testing.assert_allclose(file.series[0].values[:, 0], waves(), atol=1e-5)
    assert file.clock.write(file.series[0].times[-1] + 1) == "2020-01-01"
    ends = "\n".join(f"{day},1" for day in ("2023-12-31", "2024-01-31", "2024-02-29", "2024-03-31"))
    last = read(write(tmp_path, f"date,v\n{ends}"))
    assert last.series[0].equal and last.clock.write(last.series[0].times[-1] + 1) == "2024-04-30"


@pytest.mark.parametrize(
    "times, following, step",
    [
        (("2024-03-30T23:00", "2024-03-31T00:00", "2024-03-31T01:00"), "2024-03-31T02:00:00", "hour"),
        (("2024-03-31T00:00+01:00", "2024-03-31T00:00Z", "2024-03-31T01:00Z"), "2024-03-31T02:00:00+00:00", "hour"),
        (("2024-02-27", "2024-02-28", "2024-02-29"), "2024-03-01", "day"),
        (("19580329", "19580405", "19580412"), "1958-04-19", "week"),
        (("2020Q3", "2020Q4", "2021Q1"), "2021-04-01", "quarter"),
        (("1.5", "2.0", "2.5"), "3", "step"),
    ],
)
def test_times_as_people_write_them(tmp_path, times, following, step):
    file = read(write(tmp_path, "\n".join(["time,v", *(f"{time},{k}" for k, time in enumerate(times))])))
    assert file.series[0].equal and file.clock.word == step
    assert file.clock.write(file.series[0].times[-1] + 1) == following


def test_long_tables_wide_tables_and_tables_without_a_header(tmp_path):
    long = read(write_long(tmp_path / "l.csv"), id="shop")
    assert [each.name for each in long.series] == ["s0", "s1", "s2"] and long.channels == ("sold",)
    np.testing.assert_allclose(long.series[2].values[:, 0], 3 * waves(seed=2), atol=1e-5)
    wide = read(write(tmp_path, "a,b\n1,2\n3,\n5,NA\n"))
    assert wide.channels == ("a", "b") and np.isnan(wide.series[0].values[1:, 1]).all()
    bare = read(write(tmp_path, "1.5\n2.5\n4\n"))
    assert bare.series[0].values[:, 0].tolist() == [1.5, 2.5, 4]
    mixed = read(
        write(tmp_path, "t,v\n3,c\n1,a\n2,b\n".replace("c", "30").replace("a", "10").replace("b", "20")), time="t"
    )
    assert mixed.series[0].values[:, 0].tolist() == [10, 20, 30] and "sorted" in mixed.notes[0]


def test_arrays_and_parquet(tmp_path):
    np.savez(tmp_path / "a.npz", values=np.arange(12.0).reshape(6, 2), times=np.arange(6) * 0.5)
    file = read(tmp_path / "a.npz")
    assert file.series[0].equal and file.clock.step == 0.5 and len(file.channels) == 2
    np.save(tmp_path / "b.npy", waves())
    assert len(read(tmp_path / "b.npy").series[0]) == N
    path = save_gestures(tmp_path / "g.npz")
    assert has_labels(path) and len(read(path, labelled=True).series) == 40
    days = np.datetime64("2024-01-01") + np.arange(5)
    parquet.write_table(pyarrow.table({"when": days, "v": [1.0, None, 3.0, 4.0, 5.0]}), tmp_path / "p.parquet")
    file = read(tmp_path / "p.parquet")
    assert file.series[0].equal and file.clock.word == "day" and np.isnan(file.series[0].values[1, 0])


def test_memory_is_read_as_a_file_is(tmp_path):
    path = write_long(tmp_path / "l.csv")
    frame = csv.read_csv(path)
    arrays = {"values": waves()[:, None] * np.ones(2), "times": np.arange(N) * 0.5}
    np.savez(tmp_path / "a.npz", **arrays)
    pairs = [(path, frame), (path, frame.to_pydict()), (str(tmp_path / "a.npz"), arrays)]
    for file, memory in pairs:
        ours, theirs = (read(data, **({} if "npz" in file else {"id": "shop"})) for data in (file, memory))
        assert (
            ours.channels == theirs.channels and ours.clock == theirs.clock and len(ours.series) == len(theirs.series)
        )
        for a, b in zip(ours.series, theirs.series, strict=True):
            np.testing.assert_array_equal(a.times, b.times)
            np.testing.assert_array_equal(a.values, b.values)
    assert len(read(waves()).series[0]) == N and not has_labels(waves()) and not has_labels(frame)
    assert has_labels(frame.append_column("Label", frame["shop"])) and has_labels((waves()[None], np.array(["a"])))


def test_rows_are_series_where_only_a_label_is_beside_them(tmp_path):
    file = read(write(tmp_path, "label,1,2,3\nup,1,2,3\ndown,3,2,\n"), labelled=True)
    assert [each.label for each in file.series] == ["up", "down"]
    assert [len(each) for each in file.series] == [3, 2]


@pytest.mark.parametrize(
    "text, words",
    [
        ("date,v\n2024-01-01,1\n2024-01-02,2\n2024-01-01,3", r"lines 2 and 4 .*2024-01-01.*--data\.id"),
        ("date,v\n2024-01-01,1\n2024-01-02,x", r"'v' .*'x' \(line 3\)"),
        ("date,v\n2024-01-01,1\n2024-01-02,inf", r"line 3 .*inf.*finite"),
        ("date,v\n01/02/2024,1\n01/03/2024,2", r"line 2 .*01/02/2024.*2024-03-31"),
        ("date,v\n2024-01-01,1\n,2", r"'date' .*missing.*line 3"),
        ("time,v\n2024-01-01T00:00Z,1\n2024-01-01T01:00,2", r"offset from UTC"),
        ("date,v\n", "no rows"),
        ("", "empty"),
        ("time\n1\n2\n", r"no column of numbers"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, text, words):
    with pytest.raises(RegardError, match=words) as raised:
        read(write(tmp_path, text))
    assert "\n" not in str(raised.value)


def test_files_that_are_none_are_one_line(tmp_path):
    np.savez(tmp_path / "o.npz", values=np.array(["a", "b"]))
    np.savez(tmp_path / "i.npz", values=np.array([1.0, np.inf]))
    (tmp_path / "x.pdf").write_text("1")
    for name, words in (("o.npz", "numbers"), ("i.npz", "infinite"), ("x.pdf", r"\.csv"), ("no.csv", "no ")):
        with pytest.raises(RegardError, match=words):
            read(tmp_path / name)
    with pytest.raises(RegardError, match="kind"):
        read(write_months(tmp_path / "m.csv"), labelled=True, label="kind")


# ── seasons and splits


def test_the_season_is_found_in_the_data_or_in_the_dates(tmp_path):
    months = read(write_months(tmp_path / "m.csv"))
    assert guess_season(months, [90]) == 12
    plain = read(write(tmp_path, "\n".join(map(str, waves()))))
    assert guess_season(plain, [90]) == 12
    walk = np.random.default_rng(1).normal(size=300).cumsum()
    days = np.datetime64("2024-01-01") + np.arange(300)
    drift = read(write(tmp_path, "\n".join(["date,v", *(f"{d},{v}" for d, v in zip(days, walk, strict=True))])))
    assert guess_season(drift, [300]) == 1  # a walk has no week in it


def test_the_naive_forecast_says_what_was():
    series = Series(name="s", times=np.arange(10.0), values=np.arange(10.0)[:, None] ** 2)
    found = seasonal_naive(series, 4, np.arange(1, 7))[:, 0]
    assert found.tolist() == [36, 49, 64, 81, 36, 49]
    assert seasonal_naive(series, 1, np.arange(1, 3))[:, 0].tolist() == [81, 81]
    apart = np.abs(series.values[4:, 0] - series.values[:-4, 0])
    assert naive_errors(series, 4)[0] == apart.mean()


def test_the_last_part_in_time_is_held_out_and_folds_are_refused(tmp_path):
    path = write_months(tmp_path / "m.csv")
    splits = split_by_time(read(path), ForecastConfig(path=path))
    (held,) = splits.parts
    assert (held.train, held.validation, len(held.series)) == (72, 96, 120) and splits.counts == (72, 24, 24)
    assert splits.fitted.horizon == splits.fitted.season == 12
    with pytest.raises(RegardError, match=r"5 folds.*after.*train\.seeds 5"):
        split_by_time(read(path), ForecastConfig(path=path, folds=5))
    with pytest.raises(RegardError, match=r"120 steps.*horizon of 90.*data\.horizon \d+"):
        split_by_time(read(path), ForecastConfig(path=path, horizon=90))


def test_a_scale_keeps_large_and_tiny_numbers():
    values = np.array([[1e29, 5.0, 1e-12], [-1e29, 5.0, 3e-12]])
    scale = Scale.measure(values)
    np.testing.assert_allclose(scale.apply(values), [[1, 0, -1], [-1, 0, 1]], atol=1e-5)
    np.testing.assert_allclose(scale.restore(scale.apply(values)), values, rtol=1e-6)
