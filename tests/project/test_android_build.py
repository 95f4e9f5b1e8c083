"""The Android build, which Gradle reads on another machine: its versions, names and files agree.

Gradle does not run where these tests run. scripts/android compiles the same sources without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omnidraft.version import __version__
from support.places import ROOT

ANDROID = ROOT / "mobile/android"
SCRIPTS = ROOT / "scripts/android"
LIBRARY = ANDROID / "omnidraft/src/main/kotlin"
SAMPLE = ANDROID / "sample/src/main"
NAME = "{http://schemas.android.com/apk/res/android}name"
MOST_LINES, MOST_COLUMNS = 320, 125  # of a file of the library; of a line, and 15 more in tests


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def sections() -> dict[str, dict[str, str]]:
    """The version catalogue: of each section, names and the text of their values."""
    parts = re.split(r"^\[(\w+)\]$", read("mobile/android/gradle/libs.versions.toml"), flags=re.MULTILINE)[1:]
    return {
        section: dict(re.findall(r"^([\w-]+) = (.+)$", body, re.MULTILINE))
        for section, body in zip(parts[::2], parts[1::2], strict=True)
    }


def version(name: str) -> str:
    text: str = sections()["versions"][name]
    return text.strip('"')


def setting(name: str) -> str:
    """A setting of the scripts."""
    found = re.search(rf"^{name}=(\S+)", read("scripts/android/common.sh"), re.MULTILINE)
    assert found is not None, name
    return found[1]


def gradle_files() -> list[Path]:
    return sorted(ANDROID.rglob("*.gradle.kts"))


def kotlin_files(*folders: Path) -> Iterator[Path]:
    for folder in folders or (ANDROID,):
        yield from sorted(folder.rglob("*.kt"))


def code(path: Path) -> str:
    """A Kotlin file without its comments."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^\s*/\*.*?\*/", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"//[^\n\"]*$", "", text, flags=re.MULTILINE)


def test_the_library_has_the_version_of_the_package() -> None:
    assert f"omnidraft.version={__version__}\n" in read("mobile/android/gradle.properties")


def test_the_scripts_compile_for_the_levels_of_the_catalogue() -> None:
    assert (version("minSdk"), version("targetSdk")) == (setting("MIN_SDK"), setting("TARGET_SDK"))
    assert int(version("compileSdk")) >= int(version("targetSdk"))
    assert setting("KOTLIN_VERSION").partition("-")[0] == version("kotlin")


def test_the_engine_is_one_that_bundles_run_on_and_that_reports_nothing() -> None:
    least = re.search(r'"onnxruntime>=([\d.]+)"', read("pyproject.toml"))
    assert least is not None
    engine = tuple(map(int, version("onnxruntime").split(".")))
    assert tuple(map(int, least[1].split("."))) <= engine < (1, 29)


def test_each_name_of_the_catalogue_that_a_gradle_file_uses_is_in_it() -> None:
    known = {
        prefix + name.replace("-", ".")
        for section, prefix in {"versions": "versions.", "libraries": "", "plugins": "plugins."}.items()
        for name in sections()[section]
    }
    text = "\n".join(path.read_text(encoding="utf-8") for path in gradle_files())
    used = {name.removesuffix(".get") for name in re.findall(r"\blibs\.([\w.]+)", text)}
    assert len(used) >= 8
    assert used <= known
    references = re.findall(r'version\.ref = "(\w+)"', read("mobile/android/gradle/libs.versions.toml"))
    assert set(references) <= set(sections()["versions"])


def test_each_module_is_there() -> None:
    modules = re.findall(r'include\(":(\w+)"\)', read("mobile/android/settings.gradle.kts"))
    assert modules == ["omnidraft", "sample"]
    assert all((ANDROID / module / "build.gradle.kts").is_file() for module in modules)
    assert [path.parent.name for path in gradle_files()].count("android") == 2


def test_the_library_is_strict_and_plain() -> None:
    build = read("mobile/android/omnidraft/build.gradle.kts")
    for line in (
        "explicitApi()",
        "allWarningsAsErrors = true",
        "progressiveMode = true",
        "JVM_1_8",
        "compileOnly(libs.onnxruntime)",
    ):
        assert line in build
    compiled = read("scripts/android/compile.sh")
    for flag in ("-Xexplicit-api=strict", "-Werror", "-progressive", "$ANDROID_JAR"):
        assert flag in compiled


def test_a_shrunk_app_keeps_the_engine_and_the_plugin_takes_the_gradle() -> None:
    rules = (LIBRARY.parent / "resources/META-INF/proguard/io.omnidraft_omnidraft.pro").read_text("utf-8")
    assert "-keep class ai.onnxruntime.** { *; }" in rules  # its native code looks classes up by name
    wrapper = read("mobile/android/gradle/wrapper/gradle-wrapper.properties")
    found = re.search(r"gradle-(\d+)\.(\d+)(?:\.\d+)?-bin\.zip", wrapper)
    assert found is not None
    assert version("agp").startswith("8.13.")
    assert (8, 13) <= (int(found[1]), int(found[2])) < (9, 0)  # what that plugin takes


def test_what_a_phone_lacks_is_not_used() -> None:
    forbidden = re.compile(
        r"^import (android|androidx|kotlinx|java\.util\.(regex|function|stream)|java\.time"
        r"|java\.lang\.reflect|kotlin\.reflect|kotlin\.text\.Regex)\b|\bRegex\(|\.toRegex\(|\.toPath\(|\bString\.format\(",
        re.MULTILINE,
    )
    files = list(kotlin_files(LIBRARY, SAMPLE / "presenter"))
    assert len(files) > 10
    assert {
        str(f.relative_to(ANDROID)): found[0] for f in files if (found := forbidden.search(code(f)))
    } == {}


def test_the_engine_is_imported_in_two_rooms() -> None:
    room = LIBRARY / "io/omnidraft"
    users = {
        f.parent.relative_to(room).as_posix() for f in kotlin_files(LIBRARY) if "ai.onnxruntime" in code(f)
    }
    assert users <= {"models", "learning/step"}


def test_packages_are_folders() -> None:
    """A class of the public interface is in io.omnidraft, in whatever room: an app imports one package."""
    for file in kotlin_files():
        package = re.search(r"^package ([\w.]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert package is not None, file
        is_public = package[1] == "io.omnidraft" and re.search(r"^public ", code(file), re.MULTILINE)
        assert is_public or file.parent.as_posix().endswith("/" + package[1].replace(".", "/")), file


def test_files_are_short() -> None:
    texts = {str(f.relative_to(ANDROID)): f.read_text(encoding="utf-8").split("\n") for f in kotlin_files()}
    assert {
        f: len(lines) for f, lines in texts.items() if len(lines) > MOST_LINES and "/test/" not in f
    } == {}
    long = {
        f"{f}:{n}"
        for f, lines in texts.items()
        for n, line in enumerate(lines, 1)
        if len(line) > MOST_COLUMNS + 15 * ("/test/" in f)
    }
    assert long == set()


def test_the_manifest_names_classes_that_are_there() -> None:
    manifest = ElementTree.parse(SAMPLE / "AndroidManifest.xml").getroot()
    assert "package" not in manifest.attrib  # the namespace of the Gradle file is the package
    build = read("mobile/android/sample/build.gradle.kts")
    package = re.search(r'namespace = "([\w.]+)"', build)
    assert package is not None
    assert f'applicationId = "{package[1]}"' in build
    named = [manifest.find("application"), *manifest.iter("activity")]
    folder = SAMPLE / "kotlin" / package[1].replace(".", "/")
    classes = [element.attrib[NAME] for element in named if element is not None]
    assert len(classes) == 2
    assert all((folder / f"{name.removeprefix('.')}.kt").is_file() for name in classes)
    assert [p.attrib[NAME] for p in manifest.iter("uses-permission")] == ["android.permission.INTERNET"]


@pytest.mark.parametrize("kind", ["id", "string"])
def test_resources_are_used_and_used_ones_are_there(kind: str) -> None:
    layout = (SAMPLE / "res/layout/main.xml").read_text(encoding="utf-8")
    sources = "\n".join(code(f) for f in kotlin_files(SAMPLE / "kotlin")) + read(
        "mobile/android/sample/src/main/AndroidManifest.xml"
    )
    used = set(re.findall(rf"(?<!android\.)\bR\.{kind}\.(\w+)", sources))
    if kind == "id":
        there = set(re.findall(r"@\+id/(\w+)", layout))
    else:
        used |= set(re.findall(r"@string/(\w+)", layout + sources))
        there = set(
            re.findall(r'<string name="(\w+)"', (SAMPLE / "res/values/strings.xml").read_text("utf-8"))
        )
    assert used == there


def test_the_bundle_in_the_app_has_one_name() -> None:
    asset = re.search(
        r'ASSET = "([\w.-]+)"', (SAMPLE / "kotlin/io/omnidraft/sample/MainActivity.kt").read_text("utf-8")
    )
    assert asset is not None
    assert f'"{asset[1]}"' in read("scripts/android/starter_bundles.py")
    assert f"assets/{asset[1]}" in read("scripts/android/apk.sh")
    assert f'noCompress += "{asset[1].rpartition(".")[2]}"' in read("mobile/android/sample/build.gradle.kts")


def test_scripts_name_no_machine_and_no_registry() -> None:
    files = [
        p
        for folder in (ANDROID, SCRIPTS)
        for p in folder.rglob("*")
        if p.suffix in (".sh", ".kts", ".toml", ".py", ".txt")
    ]
    found = {
        f"{path.relative_to(ROOT)}: {host}"
        for path in files
        for host in re.findall(
            r"https?://[^\s\"/]+|/(?:tmp|work|root|home)/", path.read_text(encoding="utf-8")
        )
    }
    assert found == {"mobile/android/omnidraft/build.gradle.kts: https://www.apache.org"}


def test_the_readme_names_what_the_build_makes() -> None:
    readme = read("mobile/android/README.md")
    assert f'implementation("io.omnidraft:omnidraft:{__version__}")' in readme
    assert (
        f'implementation("com.microsoft.onnxruntime:onnxruntime-android:{version("onnxruntime")}")' in readme
    )
    assert f"minSdk {version('minSdk')}" in readme
    errors = (LIBRARY / "io/omnidraft/Errors.kt").read_text(encoding="utf-8")
    known = set(re.findall(r"class (\w+Exception)\(", errors))
    assert set(re.findall(r"`(\w+Exception)`", readme)) <= known


def test_make_android_is_part_of_the_gate() -> None:
    assert "scripts/android/all.sh" in read("Makefile")
    gate = read(".ci/run")
    assert "\n(make android && make ios) > .cache/phones.log 2>&1 &\nphones=$!\n" in gate
    ends = ["make check || failed=1", 'wait "$phones" || failed=1', "trap - EXIT", "cat .cache/phones.log"]
    assert gate.endswith("\n".join([*ends, 'exit "$failed"', ""]))
    steps = re.findall(r"\$HERE/(\w+)\.sh", read("scripts/android/all.sh"))
    assert steps == ["setup", "bundles", "compile", "api", "readme", "compile_tests", "apk", "test"]
