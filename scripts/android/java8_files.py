"""Write a jar of java.nio.file and its channels as Java 8 had them: what Android has from level 26 on.

python java8_files.py JAVA_HOME OUT.jar

The android.jar that Debian has is of level 23, which lacks them. The JDK keeps the interfaces of older
releases in lib/ct.sym, for `javac --release`; a folder of it is named after all releases in which its classes
were so.
"""

import sys
import zipfile
from pathlib import Path

FOLDERS = ("java/nio/file/",)
CLASSES = ("java/nio/channels/FileChannel", "java/nio/channels/SeekableByteChannel")


def wanted(name: str) -> str | None:
    """The name of a class in the jar, if an entry of ct.sym is one of Java 8 that belongs there."""
    releases, _, rest = name.partition("/")
    module, _, path = rest.partition("/")
    if "8" not in releases or module != "java.base" or not path.endswith(".sig"):
        return None
    taken = path.startswith((*FOLDERS, *(f"{name}." for name in CLASSES), *(f"{name}$" for name in CLASSES)))
    return path.removesuffix(".sig") + ".class" if taken else None


def main(java_home: Path, out: Path) -> int:
    """Copy the classes, and fail unless all are there."""
    with zipfile.ZipFile(java_home / "lib/ct.sym") as source, zipfile.ZipFile(out, "w") as jar:
        names = {path: name for name in source.namelist() if (path := wanted(name))}
        for path, name in sorted(names.items()):
            jar.writestr(path, source.read(name))
    missing = [name for name in (*CLASSES, "java/nio/file/Files") if f"{name}.class" not in names]
    if missing:
        print(f"{java_home}/lib/ct.sym has no {missing[0]} of Java 8", file=sys.stderr)
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
