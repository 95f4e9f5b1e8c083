"""The Android build: versions and names that must agree, and that no compiler checks here."""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omnidraft.version import __version__
from scripts.android import apk_pages, maven
from support.places import ROOT

ANDROID = ROOT / "mobile/android"
LIBRARY = ANDROID / "omnidraft/src/main"


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def version(name: str) -> str:
    """A version of Gradle's catalogue."""
    found = re.search(rf'^{name} = "(.+)"$', read("mobile/android/gradle/libs.versions.toml"), re.MULTILINE)
    assert found is not None, name
    return found[1]


def setting(name: str) -> str:
    """A setting of the scripts."""
    found = re.search(rf"^{name}=(\S+)", read("scripts/android/common.sh"), re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_the_scripts_compile_what_gradle_compiles() -> None:
    assert f"omnidraft.version={__version__}\n" in read("mobile/android/gradle.properties")
    assert (version("minSdk"), version("targetSdk")) == (setting("MIN_SDK"), setting("TARGET_SDK"))
    assert setting("KOTLIN_VERSION").partition("-")[0] == version("kotlinStdlib")
    assert version("kotlinStdlib").startswith(f"{version('kotlinLanguage')}.")
    readme = read("mobile/android/README.md")
    assert f"onnxruntime-android:{version('onnxruntime')}" in readme
    qnn = read("mobile/android/omnidraft-qnn/build.gradle.kts")
    assert f"onnxruntime-android-qnn:{version('onnxruntime')}" in qnn
    assert f"compileSdk = {version('compileSdk')}\n" in qnn and f"minSdk = {version('minSdk')} " in qnn
    for module in ("omnidraft", "omnidraft-coroutines"):
        assert f'"io.omnidraft:{module}:{__version__}"' in readme
    assert f'"io.omnidraft:omnidraft:{__version__}"' in read("mobile/android/sample/build.gradle.kts")
    wrapper = (
        "gradle/wrapper/gradle-wrapper.properties"  # Android Studio reads that of the build that it opens
    )
    assert read(f"mobile/android/{wrapper}") == read(f"mobile/android/sample/{wrapper}")


def test_the_engine_is_one_that_bundles_run_on_and_that_reports_nothing() -> None:
    least = re.search(r'"onnxruntime>=([\d.]+)"', read("pyproject.toml"))
    assert least is not None
    engine = tuple(map(int, version("onnxruntime").split(".")))
    assert tuple(map(int, least[1].split("."))) <= engine < (1, 29)  # 1.29 brought telemetry
    rules = (LIBRARY / "resources/META-INF/proguard/io.omnidraft_omnidraft.pro").read_text("utf-8")
    assert "-keep class ai.onnxruntime.** { *; }" in rules  # its native code looks classes up by name


def test_what_a_phone_lacks_is_not_used() -> None:
    """Android's regular expressions, time and streams differ from those of the JVM that the tests run on."""
    forbidden = (
        r"^import (kotlinx|java\.util\.(regex|function|stream)|java\.time|kotlin\.reflect)\b|\bRegex\("
    )
    files = sorted((LIBRARY / "kotlin").rglob("*.kt"))
    assert len(files) > 10
    assert [f.name for f in files if re.search(forbidden, f.read_text("utf-8"), re.MULTILINE)] == []


def test_a_pom_has_what_maven_central_asks_for() -> None:
    space = "{http://maven.apache.org/POM/4.0.0}"
    for module in ("omnidraft", "omnidraft-coroutines"):
        pom = ElementTree.fromstring(maven.pom(module))
        for path in (
            *("groupId", "artifactId", "version", "name", "description", "url", "licenses/license/name"),
            *("licenses/license/url", "developers/developer/name", "scm/url", "scm/connection"),
        ):
            assert pom.findtext("/".join(space + step for step in path.split("/"))), path
        dependencies = {
            each.findtext(f"{space}artifactId"): each.findtext(f"{space}version")
            for each in pom.iter(f"{space}dependency")
        }
        wanted = {"kotlin-stdlib": version("kotlinStdlib")}
        if module == "omnidraft-coroutines":
            wanted |= {"omnidraft": __version__, "kotlinx-coroutines-core": version("coroutines")}
        assert dependencies == wanted


def elf(alignment: int) -> bytes:
    """An ELF file of 64 bits with one loaded part."""
    header = b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HHIQQQIHHH", 3, 183, 1, 0, 64, 0, 0, 64, 56, 1)
    return header.ljust(64, b"\0") + struct.pack("<IIQQQQQQ", apk_pages.LOAD, 5, 0, 0, 0, 120, 120, alignment)


@pytest.mark.parametrize(
    ("alignment", "start", "problem"),
    [
        (1 << 14, 1 << 14, None),
        (1 << 16, 1 << 14, None),
        (1 << 12, 1 << 14, "aligned to 4096"),
        (1 << 14, 1 << 12, "begins at"),
    ],
)
def test_pages_of_16_kb_are_checked(tmp_path: Path, alignment: int, start: int, problem: str | None) -> None:
    apk = tmp_path / "app.apk"
    name = "lib/arm64-v8a/libonnxruntime.so"
    with zipfile.ZipFile(apk, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.extra = bytes(start - 30 - len(name))
        archive.writestr(info, elf(alignment))
        archive.writestr("lib/armeabi-v7a/libonnxruntime.so", b"no such device")
    count, found = apk_pages.problems(apk)
    assert count == 1
    assert len(found) == (problem is not None)
    assert all(problem in sentence for sentence in found if problem)
