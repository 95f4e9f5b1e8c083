"""Write the libraries as a Maven repository, a folder that any web server or `maven { url = ... }` takes.

python -m scripts.android.maven NAME=CLASSES... FOLDER

NAME is a module below mobile/android, CLASSES the folder of its compiled classes. The POMs have what Maven
Central asks for; nothing is signed.
"""

import hashlib
import re
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[2]
ANDROID = ROOT / "mobile/android"
GROUP = "io.omnidraft"
POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <version>{version}</version>
  <name>{name}</name>
  <description>{description}</description>
  <url>{url}</url>
  <licenses>
    <license><name>Apache-2.0</name><url>https://www.apache.org/licenses/LICENSE-2.0</url></license>
  </licenses>
  <developers>
    <developer><name>The omnidraft maintainers</name><url>{url}</url></developer>
  </developers>
  <scm><url>{url}</url><connection>scm:git:{url}.git</connection></scm>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<scope>compile</scope></dependency>"
)


def match(expression: str, text: str) -> str:
    """The one group of an expression that must be there."""
    found = re.search(expression, text, re.MULTILINE)
    if not found:
        raise ValueError(f"nothing matches {expression}")
    return found[1]


def pom(name: str) -> str:
    """The POM of a module, from what Gradle reads."""
    properties = (ANDROID / "gradle.properties").read_text(encoding="utf-8")
    catalogue = (ANDROID / "gradle/libs.versions.toml").read_text(encoding="utf-8")
    build = (ANDROID / name / "build.gradle.kts").read_text(encoding="utf-8")
    version = match(r"^omnidraft\.version=(.+)$", properties)
    stdlib = match(r'^kotlinStdlib = "(.+)"$', catalogue)
    dependencies = [("org.jetbrains.kotlin", "kotlin-stdlib", stdlib)]
    for module, alias in re.findall(
        r'^    "api"\((?:project\(":(.+)"\)|libs\.(\w+))\)$', build, re.MULTILINE
    ):
        if module:
            dependencies.append((GROUP, module, version))
        else:
            group, _, artifact = match(rf'^{alias} = {{ module = "(.+?)"', catalogue).partition(":")
            dependencies.append((group, artifact, match(rf'^{alias} = "(.+)"$', catalogue)))
    return POM.format(
        group=GROUP,
        name=name,
        version=version,
        description=escape(match(r'^description = "(.+)"$', build)),
        url=escape(match(r"^omnidraft\.url=(.+)$", properties)),
        dependencies="\n".join(DEPENDENCY.format(*each) for each in dependencies),
    )


def jar(place: Path, folders: list[Path]) -> None:
    """A jar of all files in folders; the same files give the same bytes."""
    files = {str(f.relative_to(d)): f for d in folders for f in sorted(d.rglob("*")) if f.is_file()}
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), b"Manifest-Version: 1.0\r\n\r\n")
        for name in sorted(files):
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name].read_bytes())


def publish(classes: Path, name: str, repository: Path) -> Path:
    """Write all files of a module; its folder."""
    text = pom(name)
    version = match(r"<version>(.+)</version>", text)
    place = repository / GROUP.replace(".", "/") / name / version
    place.mkdir(parents=True, exist_ok=True)
    stem = f"{name}-{version}"
    main = ANDROID / name / "src/main"
    (place / f"{stem}.pom").write_text(text, encoding="utf-8")
    jar(place / f"{stem}.jar", [classes, main / "resources"])
    jar(place / f"{stem}-sources.jar", [main / "kotlin"])
    jar(place / f"{stem}-javadoc.jar", [])
    (place.parent / "maven-metadata.xml").write_text(
        f"<metadata><groupId>{GROUP}</groupId><artifactId>{name}</artifactId><versioning><release>{version}"
        f"</release><versions><version>{version}</version></versions></versioning></metadata>\n",
        encoding="utf-8",
    )
    for file in [*place.glob(f"{stem}*"), place.parent / "maven-metadata.xml"]:
        for form in ("md5", "sha1", "sha256"):
            if file.suffix in (".pom", ".jar", ".xml"):
                digest = hashlib.new(form, file.read_bytes()).hexdigest()
                file.with_name(f"{file.name}.{form}").write_text(digest, encoding="utf-8")
    return place


if __name__ == "__main__":
    for each in sys.argv[1:-1]:
        module, _, compiled = each.partition("=")
        done = publish(Path(compiled), module, Path(sys.argv[-1]))
        print(f"{done}: {(done / f'{module}-{done.name}.jar').stat().st_size:,} bytes")
