"""The cost of growth: time and memory against vocabulary, context, n-grams, sessions and draft length.

    python -m benchmarks.growth [--axis NAME]... [--repeat N]      # measures; what is there is left out
    python -m benchmarks.growth --table --plot                     # writes tables and figure of what is there

Each measurement runs in a process of its own and becomes a JSON line with its settings and its commit, so a
run that was ended goes on where it was. Times are CPU time of the thread that decodes, on one thread;
"all at once" is time on the clock. A table has the median over the repetitions.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.growth.axes import AXES, RESULTS, is_done, run
from benchmarks.growth.axis import Axis, Settings
from benchmarks.growth.tables import table, with_tables
from benchmarks.support.json_lines import read

ROOT = Path(__file__).resolve().parents[2]
PAGE, FIGURE = ROOT / "docs/benchmarks.md", ROOT / "docs/growth.png"


def planned(
    names: list[str], repeats: int, quick: bool, results: Path
) -> Iterator[tuple[Axis, int, Settings]]:
    """What is not measured yet, all points once before any is repeated."""
    for repeat in range(1 if quick else repeats):
        for name in names:
            for settings in AXES[name].points(quick):
                if not is_done(read(results), name, repeat, settings):
                    yield AXES[name], repeat, settings


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--axis", action="append", choices=list(AXES), help="only this one; may be repeated")
    parser.add_argument("--repeat", type=int, default=3, help="measurements of each point")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, once")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of JSON lines")
    parser.add_argument("--bundles", type=Path, help="directory of exported bundles; it is kept")
    parser.add_argument(
        "--table", action="store_true", help="only print the tables and write them into the page"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="document with a place for each table")
    parser.add_argument("--plot", action="store_true", help="only draw the figure")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="where the figure goes")
    options = parser.parse_args(arguments)
    names = options.axis or list(AXES)
    if not options.table and not options.plot:
        with tempfile.TemporaryDirectory() as place:
            work = options.bundles or Path(place)
            work.mkdir(parents=True, exist_ok=True)
            for axis, repeat, settings in planned(names, options.repeat, options.quick, options.results):
                Console(stderr=True).print(f"{axis.name}, {repeat + 1}: {settings}", highlight=False)
                run(axis, repeat, settings, work, options.results)
    lines = read(options.results)
    for name in names:
        print("\n".join([*table(AXES[name], lines), ""]))
    if options.table:
        page = with_tables(options.page.read_text(encoding="utf-8"), AXES.values(), lines)
        options.page.write_text(page, encoding="utf-8")
    if options.plot:
        from benchmarks.growth.plot import draw

        draw(list(AXES.values()), lines, options.figure)


if __name__ == "__main__":
    main()
