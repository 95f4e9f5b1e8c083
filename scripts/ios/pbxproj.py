"""The text of an Xcode project file: objects by their classes, written as Xcode writes them."""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PLAIN = re.compile(r"[A-Za-z0-9_./]+")
KINDS = {
    ".swift": "sourcecode.swift",
    ".plist": "text.plist.xml",
    ".xcprivacy": "text.xml",
    ".md": "net.daringfireball.markdown",
}
HEAD = """// !$*UTF8*$!
{
	archiveVersion = 1;
	classes = {
	};
	objectVersion = 60;
	objects = {
"""


@dataclass(frozen=True)
class Reference:
    """The identifier of an object, and what Xcode writes behind it."""

    identifier: str
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.identifier} /* {self.comment} */" if self.comment else self.identifier


def identifier(*names: str) -> str:
    """24 digits that depend on what an object is for, so that writing the project again changes nothing."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:24].upper()


def quoted(text: str) -> str:
    if PLAIN.fullmatch(text) and "//" not in text:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def written(value: Any, indent: str) -> str:
    """A value of a property list, as Xcode writes it over several lines."""
    inner = indent + "\t"
    if isinstance(value, dict):
        lines = [f"{inner}{quoted(name)} = {written(each, inner)};\n" for name, each in value.items()]
        return "{\n" + "".join(lines) + indent + "}"
    if isinstance(value, list):
        return "(\n" + "".join(f"{inner}{written(each, inner)},\n" for each in value) + indent + ")"
    return str(value) if isinstance(value, Reference) else quoted(str(value))


def in_a_line(value: dict[str, Any]) -> str:
    """An object that Xcode keeps in one line."""
    return "{" + " ".join(f"{name} = {written(each, '')};" for name, each in value.items()) + " }"


@dataclass
class Project:
    """The objects of a project file, by the class of Xcode that they are of."""

    folder: Path
    objects: dict[str, dict[Reference, dict[str, Any]]] = field(default_factory=dict)

    def add(self, isa: str, name: str, comment: str, /, **fields: Any) -> Reference:
        """An object; `name` tells it from the others of its class."""
        reference = Reference(identifier(isa, name), comment)
        same_class = self.objects.setdefault(isa, {})
        assert reference not in same_class, f"two objects of class {isa} are named {name}"
        same_class[reference] = {"isa": isa, **fields}
        return reference

    def file(self, path: Path) -> Reference:
        """A file or a folder that is copied as it is."""
        kind = "folder" if path.is_dir() else KINDS[path.suffix]
        name = path.relative_to(self.folder).as_posix()
        return self.add(
            "PBXFileReference", name, path.name, lastKnownFileType=kind, path=path.name, sourceTree="<group>"
        )

    def group(self, name: str, children: list[Reference], /, **fields: str) -> Reference:
        comment = fields.get("path") or fields.get("name", "")
        return self.add("PBXGroup", name, comment, children=children, **fields, sourceTree="<group>")

    def text(self, root: Reference) -> str:
        """The file `project.pbxproj`."""
        parts = [HEAD]
        for isa, objects in sorted(self.objects.items()):
            parts.append(f"\n/* Begin {isa} section */\n")
            for reference, fields in sorted(objects.items(), key=lambda each: each[0].identifier):
                short = isa in ("PBXBuildFile", "PBXFileReference")
                value = in_a_line(fields) if short else written(fields, "\t\t")
                parts.append(f"\t\t{reference} = {value};\n")
            parts.append(f"/* End {isa} section */\n")
        return "".join(parts) + f"\t}};\n\trootObject = {root};\n}}\n"
