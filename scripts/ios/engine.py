"""Complete Microsoft's onnxruntime for iOS, so that the App Store takes it.

python3 scripts/ios/engine.py [ARCHIVE]

ARCHIVE is the file at the address in Package.swift; without it, it is downloaded. Its SHA-256 must be the one
there. The result is mobile/ios/Engine: onnxruntime.xcframework, which Package.swift takes, and the
same as a zip, whose checksum is printed, for a `binaryTarget(url:checksum:)` of your own. It takes macOS or
Linux with zip and unzip, and Python 3.9.

The App Store refuses a framework without MinimumOSVersion (ITMS-90530, 90360), and one whose Info.plist does
not name its platform (ITMS-90208).
"""

from __future__ import annotations

import hashlib
import plistlib
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "onnxruntime.xcframework"
ENGINE = ROOT / "mobile/ios/Engine"
LEAST = "15.1"  # what the library in it is built for
PLATFORMS = {"": ("iPhoneOS", "iphoneos"), "simulator": ("iPhoneSimulator", "iphonesimulator")}


def complete(framework: Path) -> list[str]:
    """Add what is absent to the Info.plist of each iOS framework, and return these files.

    Raises:
        ValueError: there is none, or one has another identity or version than a store takes.
    """
    changed = []
    for library in plistlib.loads((framework / "Info.plist").read_bytes())["AvailableLibraries"]:
        variant = library.get("SupportedPlatformVariant", "")
        if library["SupportedPlatform"] != "ios" or variant not in PLATFORMS:
            continue  # of a Mac
        place = framework / library["LibraryIdentifier"] / library["LibraryPath"] / "Info.plist"
        info = plistlib.loads(place.read_bytes())
        supported, platform = PLATFORMS[variant]
        info |= {"CFBundleSupportedPlatforms": [supported], "DTPlatformName": platform}
        info["MinimumOSVersion"] = info.get("MinimumOSVersion") or LEAST
        for key, form in (
            ("CFBundleIdentifier", r"[A-Za-z0-9.-]+"),
            ("CFBundleVersion", r"\d+(\.\d+){0,2}"),
            ("CFBundleShortVersionString", r"\d+(\.\d+){0,2}"),
            ("CFBundleExecutable", r"onnxruntime"),
            ("CFBundlePackageType", r"FMWK"),
            ("MinimumOSVersion", r"\d+\.\d+"),
        ):
            if not re.fullmatch(form, str(info.get(key, ""))):
                raise ValueError(f"{place}: {key} is {info.get(key)!r}, which the App Store refuses")
        place.write_bytes(plistlib.dumps(info))
        changed.append(str(place.relative_to(framework)))
    if not changed:
        raise ValueError(f"{framework} has no library for iOS")
    for signature in framework.rglob("_CodeSignature"):  # of what was before; the app signs it
        shutil.rmtree(signature)
    return changed


def main(archive: Path | None) -> None:
    """Write the folder, whole or not at all."""
    package = (ROOT / "Package.swift").read_text(encoding="utf-8")
    found = re.search(r'url: "(\S+)",\s*checksum: "(\w+)"', package)
    assert found is not None, "Package.swift names the archive"
    data = archive.read_bytes() if archive else urllib.request.urlopen(found[1]).read()
    digest = hashlib.sha256(data).hexdigest()
    if digest != found[2]:
        raise ValueError(f"{archive or found[1]} has the SHA-256 {digest}, Package.swift asks for {found[2]}")
    work = ENGINE.with_name("Engine.new")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    (work / "archive.zip").write_bytes(data)
    subprocess.run(["unzip", "-q", "archive.zip", f"{NAME}/*"], cwd=work, check=True)
    for name in complete(work / NAME):
        print(f"completed {name}")
    (work / "archive.zip").unlink()
    subprocess.run(["zip", "-q", "-r", "-y", "-X", f"{NAME}.zip", NAME], cwd=work, check=True)
    print(f"checksum {hashlib.sha256((work / f'{NAME}.zip').read_bytes()).hexdigest()}")
    shutil.rmtree(ENGINE, ignore_errors=True)
    work.rename(ENGINE)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if sys.argv[1:] else None)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"error: {error}")
