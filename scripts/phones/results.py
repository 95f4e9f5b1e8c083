"""What the tests of a port ran, from the lines that they write.

`vectors FOLDER PASSED/COUNT` for each folder of spec/vectors, and `ids BUNDLE EQUAL/COMPARED` for outputs on
a starter bundle that were compared with Python's.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

LEVELS = ("core", "files", "learning", "grammar")  # what a phone claims
_LINE = re.compile(r"^(vectors|ids) (\S+) (\d+)/(\d+)$", re.MULTILINE)

Counts = dict[str, tuple[int, int]]


@dataclass(frozen=True)
class Ran:
    """What ran.

    Attributes:
        vectors: of each folder, how many passed and how many ran.
        ids: of each bundle, how many outputs were equal and how many were compared.
    """

    vectors: Counts
    ids: Counts

    @classmethod
    def read(cls, log: str) -> "Ran":
        """What the lines of a log say; the counts of a bundle that has more lines are added."""
        found: dict[str, Counts] = {"vectors": {}, "ids": {}}
        for what, name, passed, count in _LINE.findall(log):
            before = found[what].get(name, (0, 0)) if what == "ids" else (0, 0)
            found[what][name] = before[0] + int(passed), before[1] + int(count)
        return cls(**found)

    def show(self, levels: dict[str, dict[str, int]]) -> None:
        """Print both."""
        known = {folder: count for folders in levels.values() for folder, count in folders.items()}
        for folder, (passed, count) in sorted(self.vectors.items()):
            print(f"{folder:18} {passed:5} of {count:5} passed, {known.get(folder, 0):5} in the manifest")
        total = sum(known[folder] for folder in self.vectors if folder in known)
        print(f"{'together':18} {sum(p for p, _ in self.vectors.values()):5} of {total:5}")
        for bundle, (equal, count) in sorted(self.ids.items()):
            print(f"bundle {bundle:11} {equal:5} of {count:5} outputs equal to Python's")

    def problems(self, levels: dict[str, dict[str, int]], some: bool) -> list[str]:
        """A sentence for each folder that did not run as a whole; with `some`, folders may be absent."""
        claimed = {folder: count for level in LEVELS for folder, count in levels[level].items()}
        known = claimed | levels["publishing"]
        wrong = [folder for folder, (_, count) in self.vectors.items() if known.get(folder) != count]
        if not some:
            wrong += [folder for folder in claimed if folder not in self.vectors]
        return [
            f"the folder {f} ran {self.vectors.get(f, (0, 0))[1]} of {known.get(f, 0)} vectors"
            for f in sorted(wrong)
        ]

    def write(self, file: Path) -> None:
        """Keep the counts for `make conformance`."""
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {"vectors": self.vectors, "ids": self.ids}
        file.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
