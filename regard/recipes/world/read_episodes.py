"""Recorded episodes: .npz files, tables (.parquet, .csv, .tsv, .jsonl), or a folder of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.data.array import Array
from regard.data.table_rows import SUFFIXES as TABLES
from regard.data.tables import read_table
from regard.errors import RegardError
from regard.files import read_arrays
from regard.recipes.world.episodes import Episodes, join
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
NO_FOLLOWING = (
    "without next_observations the last step of each episode is only read as what follows the step before it"
)


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
    paths: Sequence[str], spaces: Spaces | None = None, observed: tuple[int, ...] | None = None
) -> Recorded:
    """All episodes of some files. spaces: those of a run, which they must fit; None: they follow from the data"""
    arrays = [_read_arrays(path) for path in paths]
    if spaces is None:
        spaces = _guess_spaces(arrays, paths, observed)
    parts = [_make_episodes(found, spaces, path) for found, path in zip(arrays, paths, strict=True)]
    short = any("following" not in found for found in arrays)
    return Recorded(join(parts), spaces, (NO_FOLLOWING,) if short else ())


# ── files


def _read_arrays(path: str) -> dict[str, Array]:
    """The parts of a file by our names, checked one by one."""
    lowered = path.lower()
    if lowered.endswith(".npz"):
        found = _by_our_names(read_arrays(path))
    elif lowered.endswith(TABLES):
        found = _by_our_names(_read_columns(path))
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


def _read_columns(path: str) -> dict[str, Array]:
    """The columns of a table; observation_0, observation_1, ... become one array, and so do lists in cells."""
    table = read_table(path)
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
        parts = [
            _column(table.path, name, [row[table.names.index(name)] for row in table.rows]) for name in names
        ]
        found[key] = parts[0] if len(parts) == 1 else np.stack(parts, 1)
    return found


def _number(name: str, key: str) -> int:
    """The number of observation_12 among those of observation."""
    end = name[len(key) + 1 :]
    return int(end) if end.isdecimal() else -1


def _column(path: str, name: str, cells: list[Any]) -> Array:
    """A column as numbers; true and false are 1 and 0."""
    words = {"true": 1, "false": 0, "": None}
    plain: list[Any] = [
        words.get(cell.strip().lower(), cell) if isinstance(cell, str) else cell for cell in cells
    ]
    try:
        if any(isinstance(cell, list | tuple | np.ndarray) for cell in plain):
            return np.array([[float(x) for x in cell] for cell in plain])
        numbers = np.array([float("nan") if cell is None else float(cell) for cell in plain])
    except (TypeError, ValueError) as error:
        raise RegardError(
            f"{path}: column '{name}' must hold numbers, or lists of one length: {error}"
        ) from error
    whole = all(isinstance(cell, bool | int) or (isinstance(cell, str) and _is_whole(cell)) for cell in cells)
    return numbers.astype(np.int64) if whole and len(numbers) else numbers


def _is_whole(text: str) -> bool:
    return text.strip().lstrip("+-").isdecimal() or text.strip().lower() in ("true", "false")


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
        if name in found and found[name].ndim > 2:
            raise RegardError(
                f"{path}: {name} must be a vector for each step, got shape {found[name].shape}; flatten them, or "
                "encode images first: regard train images"
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


def _guess_spaces(
    arrays: Sequence[dict[str, Array]], paths: Sequence[str], observed: tuple[int, ...] | None
) -> Spaces:
    widths = [found["observations"].shape[1] for found in arrays]
    for path, width in zip(paths, widths, strict=True):
        if width != widths[0]:
            raise RegardError(
                f"{path}: observations have {width} numbers, and those of {paths[0]} {widths[0]}"
            )
    if not 1 <= widths[0] <= MOST:
        raise RegardError(
            f"{paths[0]}: an observation must have from 1 to {MOST:,} numbers, got {widths[0]:,}"
        )
    if observed is not None and not all(0 <= number < widths[0] for number in observed):
        raise RegardError(
            f"--data.observed must be numbers from 0 to {widths[0] - 1}, as an observation of {paths[0]} has "
            f"{widths[0]}, got {', '.join(map(str, observed))}"
        )
    count = widths[0] if observed is None else len(observed)
    kinds = all(found["actions"].dtype.kind in "biu" and found["actions"].ndim == 1 for found in arrays)
    if kinds:
        low = min(int(found["actions"].min()) for found in arrays)
        high = max(int(found["actions"].max()) for found in arrays)
        if low < 0 or high >= WIDEST:
            raise RegardError(
                f"{paths[0]}: actions that are whole numbers are kinds from 0 to {WIDEST - 1}, got {low} to {high}; "
                "give continuous actions as floats"
            )
        return Spaces(observations=count, actions=max(2, high + 1), discrete=True, observed=observed)
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
        observed=observed,
    )


def _make_episodes(found: dict[str, Array], spaces: Spaces, path: str) -> Episodes:
    observations: Array = found["observations"].astype(np.float32)
    actions = _check_actions(found["actions"], spaces, path)
    no = np.zeros(len(observations), dtype=bool)
    terminated = found.get("terminated", no).astype(bool)
    last = terminated | found.get("truncated", no).astype(bool)
    if "episode" in found:
        last[:-1] |= np.diff(found["episode"]) != 0
    last[-1] = True
    following = found.get("following")
    after = None if following is None else following.astype(np.float32)
    if not _is_cut(found, spaces):
        observations = _see(observations, spaces, path)
        after = None if after is None else _see(after, spaces, path)
    encoded = spaces.encode(actions)
    rewards = found["rewards"].astype(np.float32)
    if after is not None:
        return Episodes(
            observations=observations,
            actions=encoded,
            rewards=rewards,
            following=after,
            terminated=terminated,
            last=last,
        )
    return _shift(observations, encoded, rewards, terminated, last, path)


def _is_cut(found: dict[str, Array], spaces: Spaces) -> bool:
    """Are these episodes of a run that saw the same part of each observation, so that only that part is there?"""
    kept = found.get("observed")
    return kept is not None and spaces.observed is not None and kept[0].tolist() == list(spaces.observed)


def _shift(
    seen: Array, actions: Array, rewards: Array, terminated: Array, last: Array, path: str
) -> Episodes:
    """The last row of each episode is only what follows the row before it, and hands it its end."""
    kept = np.flatnonzero(~last)
    if not len(kept):
        raise RegardError(
            f"{path}: every episode has one step, and nothing follows it; add next_observations"
        )
    return Episodes(
        observations=seen[kept],
        actions=actions[kept],
        rewards=rewards[kept],
        following=seen[kept + 1],
        terminated=terminated[kept + 1],
        last=last[kept + 1],
    )


def _see(observations: Array, spaces: Spaces, path: str) -> Array:
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
