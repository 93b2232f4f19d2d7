"""Recorded episodes: .npz files, tables (.parquet, .csv, .tsv, .jsonl), or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.table_formats import SUFFIXES as TABLES
from regard.data.tables import Table, read_table
from regard.errors import RegardError
from regard.files import read_arrays
from regard.recipes.world.config import WorldDataConfig
from regard.recipes.world.draw_states import draw_states
from regard.recipes.world.episodes import Episodes, join
from regard.recipes.world.images import recorded_to_bytes, to_squares
from regard.recipes.world.spaces import AN_IMAGE, LARGEST, WIDEST, Spaces, is_image, see_shape

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


def read_episodes(path: str, spaces: Spaces | None = None, data: WorldDataConfig | None = None) -> Recorded:
    """All episodes of a file or a folder. spaces: those of a run, which they must fit; None: they follow from the data.
    data: how tables are read, and what is seen of observations"""
    data = WorldDataConfig() if data is None else data
    paths = find_files(os.path.expanduser(path))
    notes: list[str] = []  # how tables were read
    arrays = [_read_arrays(path, data, notes) for path in paths]
    if spaces is None:
        spaces = _guess_spaces(arrays, paths, data)
    parts = [_make_episodes(found, spaces, path) for found, path in zip(arrays, paths, strict=True)]
    if any("following" not in found for found in arrays):
        notes.append(NO_FOLLOWING)
    return Recorded(join(parts), spaces, tuple(notes))


# ── files


def _read_arrays(path: str, data: WorldDataConfig, notes: list[str]) -> dict[str, Array]:
    """The parts of a file by our names, checked one by one."""
    lowered = path.lower()
    if lowered.endswith(".npz"):
        found = _by_our_names(read_arrays(path))
    elif lowered.endswith(TABLES):
        found = _by_our_names(_read_columns(path, data, notes))
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
    known = {name: [named[other] for other in others if other in named] for name, others in NAMES.items()}
    return {name: values[0] for name, values in known.items() if values}


def _read_columns(path: str, data: WorldDataConfig, notes: list[str]) -> dict[str, Array]:
    """The columns of a table; observation_0, observation_1, ... become one array, and so do lists in cells."""
    table = read_table(path, data)
    notes += table.notes
    known = {other for others in NAMES.values() for other in others}
    columns: dict[str, list[tuple[int, Array]]] = {}  # with their numbers
    for name in table.names:
        stem, _, number = name.rpartition("_")
        numbered = bool(stem) and number.isdecimal()
        key = stem if numbered else name
        if key.lower() in known:
            columns.setdefault(key, []).append((int(number) if numbered else -1, _column(table, name)))
    found: dict[str, Array] = {}
    for key, several in columns.items():
        parts = [column for _, column in sorted(several, key=lambda pair: pair[0])]
        found[key] = parts[0] if len(parts) == 1 else np.stack(parts, 1)
    return found


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
    if not len(numbers) or not np.isfinite(numbers).all():
        return numbers
    whole = kind.word == "flag" or all(str(cell).strip().lstrip("+-").isdecimal() for cell in table.cells(name))
    return numbers.astype(np.int64) if whole else numbers


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
        if name in ("observations", "following"):
            found[name] = value[:, None] if value.ndim == 1 else value
        elif name in ("rewards", "terminated", "truncated", "episode"):
            found[name] = value[:, 0] if value.ndim == 2 and value.shape[1] == 1 else value
            if found[name].ndim != 1:
                raise RegardError(f"{path}: {said} must be one number for each step, got shape {value.shape}")
        if value.ndim > 2 and not (is_image(value.shape[1:]) and name != "actions"):
            raise RegardError(
                f"{path}: {said} must be a vector or an image for each step, got shape {value.shape}; {AN_IMAGE}"
            )
        _check_numbers(value.reshape(len(value), -1), name, path)
    if "following" in found and found["following"].shape != found["observations"].shape:
        raise RegardError(
            f"{path}: next_observations must have the shape of observations, got {found['following'].shape} and "
            f"{found['observations'].shape}"
        )


def _check_numbers(rows: Array, name: str, path: str) -> None:
    """Raise for what is no number, or too large to be computed with in float32.   steps numbers"""
    said = NAMES[name][0]
    wrong = ~np.isfinite(rows)
    if wrong.any():
        row = int(np.flatnonzero(wrong.any(1))[0])
        raise RegardError(f"{path}: {said} of step {row:,} holds NaN or infinity; leave that episode out")
    large = (rows > LARGEST) | (rows < -LARGEST)
    if name in ("observations", "following", "actions", "rewards") and large.any():
        row, column = np.argwhere(large)[0]
        raise RegardError(
            f"{path}: {said} of step {row:,} holds {float(rows[row, column]):g}; numbers must be from {-LARGEST:g} to "
            f"{LARGEST:g}, so divide them all by one number, or leave that episode out"
        )


# ── what is seen and done in them


def _guess_spaces(arrays: Sequence[dict[str, Array]], paths: Sequence[str], data: WorldDataConfig) -> Spaces:
    shape = arrays[0]["observations"].shape[1:]
    for path, found in zip(paths, arrays, strict=True):
        other = found["observations"].shape[1:]
        if len(shape) == 1 and len(other) > 1:
            raise RegardError(f"{path} holds images, and {paths[0]} vectors; give the one or the other")
        if len(shape) == 1 and other != shape:
            raise RegardError(f"{path}: observations have {other[0]} numbers, and those of {paths[0]} {shape[0]}")
    return Spaces(**see_shape(shape, paths[0], data), **_guess_actions(arrays, paths))


def _guess_actions(arrays: Sequence[dict[str, Array]], paths: Sequence[str]) -> dict[str, Any]:
    """The fields of `Spaces` for the actions that were taken."""
    if all(found["actions"].dtype.kind in "biu" and found["actions"].ndim == 1 for found in arrays):
        low = min(int(found["actions"].min()) for found in arrays)
        high = max(int(found["actions"].max()) for found in arrays)
        if low < 0 or high >= WIDEST:
            raise RegardError(
                f"{paths[0]}: actions that are whole numbers are kinds from 0 to {WIDEST - 1}, got {low} to {high}; "
                "give continuous actions as floats"
            )
        return {"actions": max(2, high + 1), "discrete": True}
    all_actions = [found["actions"].reshape(len(found["actions"]), -1).astype(np.float64) for found in arrays]
    width = all_actions[0].shape[1]
    for path, each in zip(paths, all_actions, strict=True):
        if each.shape[1] != width or not 1 <= width <= WIDEST:
            raise RegardError(f"{path}: an action has {each.shape[1]} numbers, and in {paths[0]} {width}")
    joined = np.concatenate(all_actions)
    low, high = joined.min(0), joined.max(0)
    high = np.where(high > low, high, low + 1)
    return {"actions": width, "discrete": False, "low": tuple(low.tolist()), "high": tuple(high.tolist())}


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
    # episodes of a run that saw the same part of each observation hold that part alone
    kept = found.get("observed")
    cut = kept is not None and spaces.observed is not None and kept[0].tolist() == list(spaces.observed)
    seen = _see(found["observations"], spaces, path, cut)
    if "following" in found:
        after = _see(found["following"], spaces, path, cut)
    else:
        # the last row of each episode is only what follows the row before it, and hands it its end
        rows = np.flatnonzero(~last)
        if not len(rows):
            raise RegardError(f"{path}: every episode has one step, and nothing follows it; add next_observations")
        ends = {"terminated", "last"}
        parts = {name: each[rows + 1] if name in ends else each[rows] for name, each in parts.items()}
        seen, after = seen[rows], seen[rows + 1]
    if spaces.image is None:
        return Episodes(observations=seen, following=after, **parts)
    unknown = np.zeros((len(seen), spaces.observations), dtype=np.float32)  # until a model encodes the images
    return Episodes(observations=unknown, following=unknown, images=seen, next_images=after, **parts)


def _see(given: Array, spaces: Spaces, path: str, cut: bool) -> Array:
    """What is kept of observations: vectors in float32, images of the side that the model sees in bytes. cut: is only
    there of a vector what is seen?"""
    if spaces.image is not None:
        side, _, colours = spaces.image
        if given.ndim > 2:
            images = to_squares(recorded_to_bytes(given, path), side)
        elif spaces.drawn:
            images = draw_states(str(spaces.environment), given, side)
        else:
            raise RegardError(f"{path}: the model sees images, and here are vectors of {given.shape[1]} numbers")
        if images.shape[3] != colours:
            raise RegardError(
                f"{path}: images must have {colours} channels, as those that were learned from, got {images.shape[3]}"
            )
        return images
    if given.ndim > 2:
        raise RegardError(f"{path}: the model sees vectors of {spaces.observations} numbers, and here are images")
    vectors, width = given.astype(np.float32), given.shape[1]
    if cut:
        return vectors
    if spaces.observed is None:
        if width != spaces.observations:
            raise RegardError(
                f"{path}: an observation must have {spaces.observations} numbers, as in training, got {width}"
            )
        return vectors
    if width <= max(spaces.observed):
        raise RegardError(
            f"{path}: the model sees the numbers {', '.join(map(str, spaces.observed))} of an observation, and here "
            f"there are {width}"
        )
    return vectors[:, list(spaces.observed)]


def _check_actions(actions: Array, spaces: Spaces, path: str) -> Array:
    """Actions that a world with these spaces knows."""
    flat = actions.reshape(len(actions), -1)
    if not spaces.discrete:
        if flat.shape[1] != spaces.actions:
            raise RegardError(f"{path}: an action must have {spaces.actions} numbers, got {flat.shape[1]}")
        return flat
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
