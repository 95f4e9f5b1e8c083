"""The privacy manifests of the Swift package and the sample say what their sources use, and nothing else."""

from __future__ import annotations

import plistlib
import re
from pathlib import Path

import pytest

from support.places import ROOT

IOS = ROOT / "mobile/ios"
CATEGORY = "NSPrivacyAccessedAPICategory"
# Calls that Apple asks a reason for, and the reasons that are true here.
REASONED = {
    # files in the app's container, and those that the user chose
    "FileTimestamp": (
        r"\b[fl]?stat(at)?\(|getattrlist|[cC]reationDate|odificationDate",
        {"C617.1", "3B52.1"},
    ),
    # whether a bundle fits before it is unpacked
    "DiskSpace": (r"\bf?statv?fs\(|[vV]olumeAvailable|volumeTotal|systemFreeSize|systemSize", {"E174.1"}),
    "SystemBootTime": (r"systemUptime|mach_absolute_time", {"35F9.1"}),
    "ActiveKeyboards": (r"activeInputModes", {"54BD.1"}),
    "UserDefaults": (r"UserDefaults|AppStorage", {"CA92.1"}),
}


@pytest.mark.parametrize(
    ("manifest", "folder"),
    [("Sources/OmniDraftORT/PrivacyInfo.xcprivacy", "Sources"),
     ("Sample/Resources/PrivacyInfo.xcprivacy", "Sample/Sources")],
)  # fmt: skip
def test_a_privacy_manifest_says_what_its_sources_use(manifest: str, folder: str) -> None:
    privacy = plistlib.loads((IOS / manifest).read_bytes())
    accessed = privacy.pop("NSPrivacyAccessedAPITypes")
    nothing: list[str] = []
    assert privacy == {
        "NSPrivacyTracking": False,
        "NSPrivacyTrackingDomains": nothing,
        "NSPrivacyCollectedDataTypes": nothing,
    }
    text = "\n".join(re.sub(r"//.*", "", file.read_text("utf-8")) for file in swift(IOS / folder))
    used = {CATEGORY + name: reasons for name, (calls, reasons) in REASONED.items() if re.search(calls, text)}
    assert {
        a["NSPrivacyAccessedAPIType"]: set(a["NSPrivacyAccessedAPITypeReasons"]) for a in accessed
    } == used


def swift(folder: Path) -> list[Path]:
    files = sorted(folder.rglob("*.swift"))
    assert files
    return files
