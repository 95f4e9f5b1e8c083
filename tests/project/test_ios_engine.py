"""The engine for iOS: what scripts/ios/engine.py adds to Microsoft's archive for the App Store."""

from __future__ import annotations

import hashlib
import plistlib
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from scripts.ios import engine
from support.places import ROOT

# The Info.plist of Microsoft's framework (cmake/Info.plist.in of onnxruntime).
INFO = {
    "CFBundleExecutable": "onnxruntime",
    "CFBundleName": "onnxruntime",
    "CFBundleIdentifier": "com.microsoft.onnxruntime",
    "CFBundleVersion": "1.27.0",
    "CFBundleShortVersionString": "1.27.0",
    "CFBundleSignature": "????",
    "CFBundlePackageType": "FMWK",
}
SLICES = {"ios-arm64": ("ios", ""), "ios-arm64-simulator": ("ios", "simulator"), "macos-arm64": ("macos", "")}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose manifest asks for a small archive, `archive.zip`."""
    monkeypatch.setattr(engine, "ROOT", tmp_path)
    monkeypatch.setattr(engine, "ENGINE", tmp_path / "Engine")
    return tmp_path


def put(checkout: Path, **changes: Any) -> Path:
    info = {key: value for key, value in (INFO | changes).items() if value is not None}
    archive = checkout / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        libraries = []
        for name, (platform, variant) in SLICES.items():
            library = {"LibraryIdentifier": name, "LibraryPath": "onnxruntime.framework"}
            library |= {"SupportedPlatform": platform} | (
                {"SupportedPlatformVariant": variant} if variant else {}
            )
            libraries.append(library)
            inside = "" if platform == "ios" else "Versions/A/Resources/"
            place = f"{engine.NAME}/{name}/onnxruntime.framework/{inside}"
            file.writestr(f"{place}Info.plist", plistlib.dumps(info))
            file.writestr(f"{place}_CodeSignature/CodeResources", b"old")
        file.writestr(f"{engine.NAME}/Info.plist", plistlib.dumps({"AvailableLibraries": libraries}))
        file.writestr("LICENSE", b"MIT")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (checkout / "Package.swift").write_text(f'url: "https://x.example/a.zip",\n checksum: "{digest}"')
    return archive


def test_each_ios_framework_gets_what_the_store_asks_for(checkout: Path) -> None:
    engine.main(put(checkout))
    made = checkout / "Engine" / engine.NAME
    for name, platform in (("ios-arm64", "iPhoneOS"), ("ios-arm64-simulator", "iPhoneSimulator")):
        info = plistlib.loads((made / name / "onnxruntime.framework/Info.plist").read_bytes())
        added = {key: value for key, value in info.items() if key not in INFO}
        assert added == {
            "MinimumOSVersion": "15.1",
            "CFBundleSupportedPlatforms": [platform],
            "DTPlatformName": platform.lower(),
        }
    mac = made / "macos-arm64/onnxruntime.framework/Versions/A/Resources/Info.plist"
    assert plistlib.loads(mac.read_bytes()) == INFO
    assert list(made.rglob("_CodeSignature")) == []
    assert zipfile.ZipFile(made.with_suffix(".xcframework.zip")).testzip() is None


def test_a_version_that_is_there_stays(checkout: Path) -> None:
    engine.main(put(checkout, MinimumOSVersion="16.0"))
    place = checkout / "Engine" / engine.NAME / "ios-arm64/onnxruntime.framework/Info.plist"
    assert plistlib.loads(place.read_bytes())["MinimumOSVersion"] == "16.0"


def test_what_the_store_would_refuse_is_refused(checkout: Path) -> None:
    with pytest.raises(ValueError, match=r"CFBundleIdentifier is 'com\.x\.onnx_runtime'"):
        engine.main(put(checkout, CFBundleIdentifier="com.x.onnx_runtime"))
    with pytest.raises(ValueError, match=r"CFBundleVersion is None"):
        engine.main(put(checkout, CFBundleVersion=None))
    assert not (checkout / "Engine").exists()


def test_another_archive_is_refused(checkout: Path) -> None:
    archive = put(checkout)
    archive.write_bytes(archive.read_bytes() + b"more")
    with pytest.raises(ValueError, match=r"Package\.swift asks for"):
        engine.main(archive)


def test_the_release_is_that_of_android_and_its_least_ios_that_of_the_package() -> None:
    package = (ROOT / "Package.swift").read_text(encoding="utf-8")
    versions = (ROOT / "mobile/android/gradle/libs.versions.toml").read_text(encoding="utf-8")
    android = re.search(r'^onnxruntime = "(.+)"$', versions, re.MULTILINE)
    assert android is not None
    assert f"pod-archive-onnxruntime-c-{android[1]}.zip" in package
    assert f'.iOS("{engine.LEAST}")' in package


def test_the_sample_asks_for_the_memory_of_a_large_model() -> None:
    sample = ROOT / "mobile/ios/Sample"
    name = "OmniDraftSample.entitlements"
    entitlements = plistlib.loads((sample / name).read_bytes())
    assert entitlements == {"com.apple.developer.kernel.increased-memory-limit": True}
    project = (sample / "OmniDraftSample.xcodeproj/project.pbxproj").read_text(encoding="utf-8")
    assert project.count(f"CODE_SIGN_ENTITLEMENTS = {name};") == 2
