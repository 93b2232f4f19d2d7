"""Recorded episodes: .npz files, tables (.parquet, .csv, .tsv, .jsonl), or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.data.array import Array
from regard.data.dialect import DEFAULTS, TableConfig
from regard.data.table_formats import SUFFIXES as TABLES
from regard.data.tables import Table, read_table
from regard.errors import RegardError
from regard.files import read_arrays
from regard.recipes.world.draw_states import draw_states
from regard.recipes.world.episodes import Episodes, join
from regard.recipes.world.images import Sight, explain_image, is_image, limits_of, to_bytes, to_squares
from regard.recipes.world.spaces import LARGEST, MOST, WIDEST, Spaces

SUFFIXES = (".npz", *TABLES)
# the name of each part, and what others call it
NAMES: dict[str, tuple[str, ...]] = {
    "observations": ("observations", "observation", "obs", "states", "state"),
    "actions": ("actions", "action", "act"),
    "rewards": ("rewards", "reward", "rew"),
    "following": ("next_observations", "next_observation", "next_obs", "next_states"),
    "terminated": ("terminated", "terminals", "terminal", "ends", "end", "dones", "done"),
    "truncated": ("truncated", "timeouts", "timeout"),
    "episode": ("episode", "episodes", "episode_id"),
    "observed": ("observed",),  # of our own files: the numbers of an observation that were kept
}
NO_FOLLOWING = "without next_observations the last step of each episode is only read as what follows the step before it"


@dataclass(frozen=True, eq=False)
class Recorded:
    """Episodes that were read."""

    episodes: Episodes
    spaces: Spaces
    notes: tuple[str, ...] = ()


def find_files(path: str) -> list[str]:
    """The file itself, or all files of episodes in a folder, in the order of their names."""
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise RegardError(
                f"{path} does not exist; give a file of episodes ({', '.join(SUFFIXES)}), a folder of them, or an "
                "environment such as gymnasium:CartPole-v1"
            )
        return [path]
    names = sorted(name for name in os.listdir(path) if name.lower().endswith(SUFFIXES))
    if not names:
        raise RegardError(f"{path} holds no episodes; they are files that end in {', '.join(SUFFIXES)}")
    return [os.path.join(path, name) for name in names]


def read_episodes(
    paths: Sequence[str], spaces: Spaces | None = None, sight: Sight | None = None, config: TableConfig = DEFAULTS
) -> Recorded:
    """All episodes of some files. spaces: those of a run, which they must fit; None: they follow from the data"""
    notes: list[str] = []  # how tables were read
    arrays = [_read_arrays(path, config, notes) for path in paths]
    if spaces is None:
        spaces = _guess_spaces(arrays, paths, sight or Sight())
    parts = [_make_episodes(found, spaces, path) for found, path in zip(arrays, paths, strict=True)]
    short = any("following" not in found for found in arrays)
    return Recorded(join(parts), spaces, (*notes, *((NO_FOLLOWING,) if short else ())))


# ── files


def _read_arrays(path: str, config: TableConfig, notes: list[str]) -> dict[str, Array]:
    """The parts of a file by our names, checked one by one."""
    lowered = path.lower()
    if lowered.endswith(".npz"):
        found = _by_our_names(read_arrays(path))
    elif lowered.endswith(TABLES):
        found = _by_our_names(_read_columns(path, config, notes))
    else:
        raise RegardError(f"episodes are files that end in {', '.join(SUFFIXES)}, got {path}")
    for name in ("observations", "actions", "rewards"):
        if name not in found:
            raise RegardError(
                f"{path} has no {name}; it needs observations, actions, rewards, and terminated, truncated or "
                f"episode; it has {', '.join(found) or 'nothing of these'}"
            )
    if not {"terminated", "truncated", "episode"} & set(found):
        raise RegardError(
            f"{path} does not say where episodes end; add terminated or truncated (true at the last step), or the "
            "number of the episode of each step as episode"
        )
    _check_parts(found, path)
    return found


def _by_our_names(found: Mapping[str, Array]) -> dict[str, Array]:
    named = {name.lower(): value for name, value in found.items()}
    chosen: dict[str, Array] = {}
    for name, others in NAMES.items():
        for other in others:
            if other in named:
                chosen[name] = named[other]
                break
    return chosen


def _read_columns(path: str, config: TableConfig, notes: list[str]) -> dict[str, Array]:
    """The columns of a table; observation_0, observation_1, ... become one array, and so do lists in cells."""
    table = read_table(path, config)
    notes += table.notes
    columns: dict[str, list[str]] = {}
    for name in table.names:
        stem, _, number = name.rpartition("_")
        key = stem if stem and number.isdecimal() else name
        columns.setdefault(key, []).append(name)
    found: dict[str, Array] = {}
    known = {other for others in NAMES.values() for other in others}
    for key, names in columns.items():
        if key.lower() not in known:
            continue
        names = sorted(names, key=lambda name: _number(name, key))
        parts = [_column(table, name) for name in names]
        found[key] = parts[0] if len(parts) == 1 else np.stack(parts, 1)
    return found


def _number(name: str, key: str) -> int:
    """The number of observation_12 among those of observation."""
    end = name[len(key) + 1 :]
    return int(end) if end.isdecimal() else -1


def _column(table: Table, name: str) -> Array:
    """A column as numbers; true and false are 1 and 0."""
    kind = table.kinds[name]
    if kind.word == "list":
        try:
            return np.array(table.cells(name), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise RegardError(
                f"{table.path}: column '{name}' must hold numbers, or lists of one length: {error}"
            ) from error
    numbers = table.numbers([name], "a column holds numbers, or lists of one length")[:, 0]
    whole = len(numbers) > 0 and np.isfinite(numbers).all() and _is_whole(table, name)
    return numbers.astype(np.int64) if whole else numbers


def _is_whole(table: Table, name: str) -> bool:
    """Are the cells of a column written as whole numbers?"""
    if table.kinds[name].word == "flag":
        return True
    return all(str(cell).strip().lstrip("+-").isdecimal() for cell in table.cells(name))


# ── what is wrong


def _check_parts(found: dict[str, Array], path: str) -> None:
    lengths = {name: len(value) if value.ndim else 0 for name, value in found.items()}
    if len(set(lengths.values())) > 1:
        said = ", ".join(f"{name} {count:,}" for name, count in lengths.items())
        raise RegardError(f"{path}: all parts must have one row for each step, got {said}")
    if not lengths["observations"]:
        raise RegardError(f"{path} holds no steps")
    for name, value in found.items():
        said = NAMES[name][0]
        if value.dtype.kind not in "biuf":
            raise RegardError(f"{path}: {said} must be numbers, got {value.dtype}")
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            row = int(np.flatnonzero(~np.isfinite(value).reshape(len(value), -1).all(1))[0])
            raise RegardError(f"{path}: {said} of step {row:,} holds NaN or infinity; leave that episode out")
    for name in ("observations", "following", "actions", "rewards"):
        if name in found:
            _check_largest(found[name], NAMES[name][0], path)
    for name in ("observations", "following", "actions"):
        if name in found and found[name].ndim == 1 and name != "actions":
            found[name] = found[name][:, None]
        images = name != "actions" and name in found and is_image(found[name].shape[1:])
        if name in found and found[name].ndim > 2 and not images:
            raise RegardError(
                f"{path}: {NAMES[name][0]} must be a vector or an image for each step, got shape "
                f"{found[name].shape}; {explain_image()}"
            )
    for name in ("rewards", "terminated", "truncated", "episode"):
        if name in found:
            found[name] = _flat(found[name], name, path)
    if "following" in found and found["following"].shape != found["observations"].shape:
        raise RegardError(
            f"{path}: next_observations must have the shape of observations, got {found['following'].shape} and "
            f"{found['observations'].shape}"
        )


def _check_largest(value: Array, name: str, path: str) -> None:
    """Raise for a number that is too large to be computed with in float32."""
    rows = value.reshape(len(value), -1)
    large = (rows > LARGEST) | (rows < -LARGEST)
    if not large.any():
        return
    row, column = np.argwhere(large)[0]
    raise RegardError(
        f"{path}: {name} of step {row:,} holds {float(rows[row, column]):g}; numbers must be from {-LARGEST:g} to "
        f"{LARGEST:g}, so divide them all by one number, or leave that episode out"
    )


def _flat(value: Array, name: str, path: str) -> Array:
    if value.ndim == 2 and value.shape[1] == 1:
        value = value[:, 0]
    if value.ndim != 1:
        raise RegardError(f"{path}: {name} must be one number for each step, got shape {value.shape}")
    return value


def _guess_spaces(arrays: Sequence[dict[str, Array]], paths: Sequence[str], sight: Sight) -> Spaces:
    observed = sight.observed
    shape = arrays[0]["observations"].shape[1:]
    if len(shape) > 1:
        if observed is not None:
            raise RegardError(f"--data.observed is of vectors, and {paths[0]} holds images; leave it out")
        image = (sight.side, sight.side, shape[2] if len(shape) == 3 else 1)
        return replace(_guess_actions(arrays, paths, sight.code), image=image)
    for path, found in zip(paths, arrays, strict=True):
        if found["observations"].ndim > 2:
            raise RegardError(f"{path} holds images, and {paths[0]} vectors; give the one or the other")
    widths = [found["observations"].shape[1] for found in arrays]
    for path, width in zip(paths, widths, strict=True):
        if width != widths[0]:
            raise RegardError(f"{path}: observations have {width} numbers, and those of {paths[0]} {widths[0]}")
    if not 1 <= widths[0] <= MOST:
        raise RegardError(f"{paths[0]}: an observation must have from 1 to {MOST:,} numbers, got {widths[0]:,}")
    if observed is not None and not all(0 <= number < widths[0] for number in observed):
        raise RegardError(
            f"--data.observed must be numbers from 0 to {widths[0] - 1}, as an observation of {paths[0]} has "
            f"{widths[0]}, got {', '.join(map(str, observed))}"
        )
    count = widths[0] if observed is None else len(observed)
    return replace(_guess_actions(arrays, paths, count), observed=observed)


def _guess_actions(arrays: Sequence[dict[str, Array]], paths: Sequence[str], count: int) -> Spaces:
    """Spaces with observations of `count` numbers, and the actions that were taken."""
    kinds = all(found["actions"].dtype.kind in "biu" and found["actions"].ndim == 1 for found in arrays)
    if kinds:
        low = min(int(found["actions"].min()) for found in arrays)
        high = max(int(found["actions"].max()) for found in arrays)
        if low < 0 or high >= WIDEST:
            raise RegardError(
                f"{paths[0]}: actions that are whole numbers are kinds from 0 to {WIDEST - 1}, got {low} to {high}; "
                "give continuous actions as floats"
            )
        return Spaces(observations=count, actions=max(2, high + 1), discrete=True)
    all_actions = [found["actions"].reshape(len(found["actions"]), -1).astype(np.float64) for found in arrays]
    for path, each in zip(paths, all_actions, strict=True):
        if each.shape[1] != all_actions[0].shape[1] or not 1 <= each.shape[1] <= WIDEST:
            raise RegardError(
                f"{path}: an action has {each.shape[1]} numbers, and in {paths[0]} {all_actions[0].shape[1]}"
            )
    joined = np.concatenate(all_actions)
    low_end, high_end = joined.min(0), joined.max(0)
    high_end = np.where(high_end > low_end, high_end, low_end + 1)
    return Spaces(
        observations=count,
        actions=joined.shape[1],
        discrete=False,
        low=tuple(low_end.tolist()),
        high=tuple(high_end.tolist()),
    )


def _make_episodes(found: dict[str, Array], spaces: Spaces, path: str) -> Episodes:
    actions = _check_actions(found["actions"], spaces, path)
    no = np.zeros(len(actions), dtype=bool)
    terminated = found.get("terminated", no).astype(bool)
    last = terminated | found.get("truncated", no).astype(bool)
    if "episode" in found:
        last[:-1] |= np.diff(found["episode"]) != 0
    last[-1] = True
    parts = {
        "actions": spaces.encode(actions),
        "rewards": found["rewards"].astype(np.float32),
        "terminated": terminated,
        "last": last,
    }
    seen, after = (_see(found.get(name), found, spaces, path) for name in ("observations", "following"))
    assert seen is not None
    if after is None:
        seen, after, parts = _shift(seen, parts, path)
    if spaces.image is None:
        return Episodes(observations=seen, following=after, **parts)
    unknown = np.zeros((len(seen), spaces.observations), dtype=np.float32)  # until a model encodes the images
    return Episodes(observations=unknown, following=unknown, images=seen, next_images=after, **parts)


def _is_cut(found: dict[str, Array], spaces: Spaces) -> bool:
    """Are these episodes of a run that saw the same part of each observation, so that only that part is there?"""
    kept = found.get("observed")
    return kept is not None and spaces.observed is not None and kept[0].tolist() == list(spaces.observed)


def _shift(seen: Array, parts: dict[str, Array], path: str) -> tuple[Array, Array, dict[str, Array]]:
    """The last row of each episode is only what follows the row before it, and hands it its end."""
    kept = np.flatnonzero(~parts["last"])
    if not len(kept):
        raise RegardError(f"{path}: every episode has one step, and nothing follows it; add next_observations")
    ends = {"terminated", "last"}
    rest = {name: each[kept + 1] if name in ends else each[kept] for name, each in parts.items()}
    return seen[kept], seen[kept + 1], rest


def _see(given: Array | None, found: dict[str, Array], spaces: Spaces, path: str) -> Array | None:
    """What is kept of observations: vectors in float32, images in bytes."""
    if given is None:
        return None
    if spaces.image is not None:
        return _see_images(given, spaces, path)
    if given.ndim > 2:
        raise RegardError(f"{path}: the model sees vectors of {spaces.observations} numbers, and here are images")
    vectors: Array = given.astype(np.float32)
    return vectors if _is_cut(found, spaces) else _see_numbers(vectors, spaces, path)


def _see_images(given: Array, spaces: Spaces, path: str) -> Array:
    """Images of the side that the model sees; states of an environment that is drawn are drawn.   n h w c"""
    assert spaces.image is not None
    side, _, colours = spaces.image
    if given.ndim == 2:
        if spaces.drawn is None:
            raise RegardError(f"{path}: the model sees images, and here are vectors of {given.shape[1]} numbers")
        return draw_states(spaces.drawn, given, side)
    low, high = limits_of(given, path)
    found = to_squares(to_bytes(given, low, high), side)
    if found.shape[3] != colours:
        raise RegardError(
            f"{path}: images must have {colours} channels, as those that were learned from, got {found.shape[3]}"
        )
    return found


def _see_numbers(observations: Array, spaces: Spaces, path: str) -> Array:
    width = observations.shape[1]
    if spaces.observed is None:
        if width != spaces.observations:
            raise RegardError(
                f"{path}: an observation must have {spaces.observations} numbers, as in training, got {width}"
            )
        return observations
    if width <= max(spaces.observed):
        raise RegardError(
            f"{path}: the model sees the numbers {', '.join(map(str, spaces.observed))} of an observation, and here "
            f"there are {width}"
        )
    return spaces.see(observations)


def _check_actions(actions: Array, spaces: Spaces, path: str) -> Array:
    """Actions that a world with these spaces knows."""
    if not spaces.discrete:
        flat = actions.reshape(len(actions), -1)
        if flat.shape[1] != spaces.actions:
            raise RegardError(f"{path}: an action must have {spaces.actions} numbers, got {flat.shape[1]}")
        return flat
    flat = actions.reshape(len(actions), -1)
    if flat.shape[1] != 1:
        raise RegardError(f"{path}: an action must be one kind, got {flat.shape[1]} numbers")
    whole = flat[:, 0].astype(np.int64)
    wrong = (whole != flat[:, 0]) | (whole < spaces.first) | (whole >= spaces.first + spaces.actions)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise RegardError(
            f"{path}: action {flat[row, 0]:g} of step {row:,} is unknown; the kinds are {spaces.first} to "
            f"{spaces.first + spaces.actions - 1}"
        )
    return whole
