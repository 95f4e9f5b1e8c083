"""The Android build: versions and names that must agree, and that no compiler checks here."""

from __future__ import annotations

import re

from omnidraft.version import __version__
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
    assert setting("KOTLIN_VERSION").partition("-")[0] == version("kotlin")
    readme = read("mobile/android/README.md")
    assert f"onnxruntime-android:{version('onnxruntime')}" in readme
    assert f'"io.omnidraft:omnidraft:{__version__}"' in readme


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
