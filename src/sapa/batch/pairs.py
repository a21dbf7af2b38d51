"""Which map belongs to which guide, and where the result goes."""

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from sapa.files import FORMATS, is_known, split_key


class UsageError(ValueError):
    """A command that cannot be meant; nothing was done."""


@dataclass(frozen=True)
class Pair:
    low: str  # with the key of its array, if one was given
    guide: str
    output: Path

    def paths(self) -> tuple[Path, Path, Path]:
        return split_key(self.low)[0], split_key(self.guide)[0], self.output


@dataclass
class Plan:
    is_folder: bool
    pairs: list[Pair] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # a line for each map without its guide
    lone_guides: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class Source:
    """The files that an argument names, the folder they are all below, and the key of their arrays."""

    text: str
    root: Path
    files: list[Path]
    key: str | None
    is_file: bool

    def name(self, file: Path) -> str:
        """What a map and its guide share: the path below the root, without the suffix."""
        return file.relative_to(self.root).with_suffix("").as_posix()

    def keyed(self, file: Path) -> str:
        return str(file) if self.key is None else f"{file}:{self.key}"


def plan(low: str, guide: str, output: str) -> Plan:
    """Match maps and guides by their paths below their folders, without suffix; else by a name only one guide has.

    One map and one guide belong together whatever they are called.
    """
    lows, guides = source(low, "maps"), source(guide, "guides")
    is_folder = not lows.is_file
    to_folder = is_folder or output.endswith(("/", os.sep)) or Path(output).is_dir() or not Path(output).suffix
    if is_folder and (Path(output).is_file() or is_known(output)):
        raise UsageError(f"-o {output} is a file, and {low} may be many maps: give a folder.")
    if not is_folder and not to_folder and not is_known(output):
        raise UsageError(f"-o {output}: no format {Path(output).suffix!r}. Available: {', '.join(FORMATS)}.")
    if is_folder:
        # the results of the last run are no maps, though they may lie below them
        lows, guides = outside(lows, Path(output)), outside(guides, Path(output))
    if not lows.files or not guides.files:
        empty, what = (lows, "maps") if not lows.files else (guides, "guides")
        raise UsageError(f"no {what} in {empty.text}: looked for files with {', '.join(FORMATS)}.")
    if is_folder and guides.is_file:
        raise UsageError(f"--guide {guide} is one file, and each map needs its own: give a folder or a quoted pattern.")
    found = Plan(is_folder)
    if lows.is_file and guides.is_file:
        matches: dict[Path, list[Path]] = {lows.files[0]: guides.files}
    else:
        matches = match(lows, guides)
    for file, candidates in matches.items():
        if len(candidates) == 1:
            target = Path(output) / file.relative_to(lows.root) if to_folder else Path(output)
            found.pairs.append(Pair(lows.keyed(file), guides.keyed(candidates[0]), target))
        elif candidates:
            found.problems.append(f"{file}: several guides have its name: {', '.join(map(str, candidates))}.")
        else:
            found.problems.append(f"{file}: no guide named {lows.name(file)} in {guides.text}.")
    if is_folder:
        used = {candidate for candidates in matches.values() for candidate in candidates}
        found.lone_guides = [file for file in guides.files if file not in used]
    inputs = {os.path.realpath(file) for file in (*lows.files, *guides.files)}
    for pair in found.pairs:
        if os.path.realpath(pair.output) in inputs:
            raise UsageError(f"{pair.output} would be written over, and it is a map or guide itself: give another -o.")
    return found


def match(lows: Source, guides: Source) -> dict[Path, list[Path]]:
    """For each map the guides that may be its own."""
    by_path: dict[str, list[Path]] = {}
    by_name: dict[str, list[Path]] = {}
    for file in guides.files:
        by_path.setdefault(guides.name(file), []).append(file)
        by_name.setdefault(file.stem, []).append(file)
    return {file: by_path.get(lows.name(file)) or by_name.get(file.stem, []) for file in lows.files}


def source(text: str, what: str) -> Source:
    path, key = split_key(text)
    if path.is_file():
        return Source(text, path.parent, [path], key, is_file=True)
    if path.is_dir():
        return Source(text, path, readable(path.rglob("*"), path), key, is_file=False)
    if not glob.has_magic(str(path)):
        raise UsageError(f"no {what}: there is no {path}.")
    root = Path(path.anchor)
    for part in path.relative_to(path.anchor).parts[:-1]:
        if glob.has_magic(part):
            break
        root /= part
    matches = map(Path, glob.glob(str(path), recursive=True))
    return Source(text, root, readable(matches, root), key, is_file=False)


def readable(found: Iterable[Path], root: Path) -> list[Path]:
    """Files of known formats, in order; hidden ones are not meant."""
    files = (file for file in found if is_known(file) and file.is_file())
    return sorted(f for f in files if not any(part.startswith(".") for part in f.relative_to(root).parts))


def outside(found: Source, folder: Path) -> Source:
    """The same without what lies in a folder below its root."""
    root, inner = found.root.resolve(), folder.resolve()
    if root not in inner.parents:
        return found
    return replace(found, files=[file for file in found.files if inner not in file.resolve().parents])
