"""The iOS sample: its Xcode project, property lists, privacy manifests and workflow, which a Mac reads.

No Mac runs these tests. scripts/ios/sample.sh compiles the same sources and runs the same tests on Linux.
"""

from __future__ import annotations

import plistlib
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from omnidraft.version import __version__
from support.command_line import Run
from support.old_property_list import parse
from support.places import ROOT

yaml: Any = pytest.importorskip("yaml", reason="XcodeGen's manifest and the workflow are YAML")

IOS = ROOT / "mobile/ios"
SAMPLE = IOS / "Sample"
PROJECT = SAMPLE / "OmniDraftSample.xcodeproj"
LIBRARY_PRIVACY = IOS / "Sources/OmniDraftORT/PrivacyInfo.xcprivacy"
SAMPLE_PRIVACY = SAMPLE / "Resources/PrivacyInfo.xcprivacy"
WORKFLOW = ROOT / ".github/workflows/ios.yml"
# Calls that Apple asks a reason for, and the reasons that are true here.
CATEGORY = "NSPrivacyAccessedAPICategory"
REASONED = {
    "FileTimestamp": (
        r"\b[fl]?stat(at)?\(|getattrlist|[cC]reationDate|odificationDate",
        {"C617.1", "3B52.1"},  # inside the app's container; what the user chose
    ),
    "DiskSpace": (
        r"\bf?statv?fs\(|[vV]olumeAvailable|volumeTotal|systemFreeSize|systemSize",
        {"E174.1"},  # whether a bundle fits before it is unpacked
    ),
    "SystemBootTime": (r"systemUptime|mach_absolute_time", {"35F9.1"}),
    "ActiveKeyboards": (r"activeInputModes", {"54BD.1"}),
    "UserDefaults": (r"UserDefaults|AppStorage", {"CA92.1"}),
}


def swift(*folders: Path) -> str:
    """The Swift sources of folders, without comments."""
    files = [file for folder in folders for file in sorted(folder.rglob("*.swift"))]
    assert files
    return re.sub(r"//.*", "", "\n".join(file.read_text(encoding="utf-8") for file in files))


class Objects:
    """The objects of project.pbxproj."""

    def __init__(self) -> None:
        text = (PROJECT / "project.pbxproj").read_text(encoding="utf-8")
        document: Any = parse(text)
        self.all: dict[str, Any] = document["objects"]
        self.root: Any = self.all[document["rootObject"]]
        assert re.fullmatch(r"// !\$\*UTF8\*\$!\n.*\}\n", text, re.DOTALL)

    def of(self, isa: str) -> list[Any]:
        return [each for each in self.all.values() if each["isa"] == isa]

    def target(self, name: str) -> Any:
        return next(each for each in self.of("PBXNativeTarget") if each["name"] == name)

    def paths(self, group: str, at: Path = SAMPLE) -> Iterator[tuple[str, Path]]:
        """The files of a group and of the groups in it."""
        for child in self.all[group]["children"]:
            each = self.all[child]
            if each["sourceTree"] == "BUILT_PRODUCTS_DIR":
                continue
            assert each["sourceTree"] == "<group>"
            if each["isa"] == "PBXGroup":
                yield from self.paths(child, at / each.get("path", ""))
            else:
                yield child, at / each["path"]

    def files(self, target: str, phase: str) -> set[Path]:
        """The files of a phase of a target."""
        places = dict(self.paths(self.root["mainGroup"]))
        phases = [self.all[each] for each in self.target(target)["buildPhases"]]
        found = [each for each in phases if each["isa"] == f"PBX{phase}BuildPhase"]
        assert len(found) == 1
        builds = [self.all[each] for each in found[0]["files"]]
        assert len(builds) == len({each["fileRef"] for each in builds})
        return {places[each["fileRef"]] for each in builds}

    def settings(self, owner: Any) -> dict[str, dict[str, Any]]:
        configs = [
            self.all[each] for each in self.all[owner["buildConfigurationList"]]["buildConfigurations"]
        ]
        return {each["name"]: each["buildSettings"] for each in configs}


@pytest.fixture(scope="module")
def objects() -> Objects:
    return Objects()


@pytest.fixture(scope="module")
def spec() -> Any:
    return yaml.safe_load((SAMPLE / "project.yml").read_text(encoding="utf-8"))


def test_the_xcode_project_is_that_of_the_manifest_and_the_folders() -> None:
    from scripts.ios import xcodeproj

    for path, text in xcodeproj.render().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m scripts.ios.xcodeproj"


def test_each_reference_of_the_project_is_to_an_object_of_it(objects: Objects) -> None:
    def named(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            if re.fullmatch(r"[0-9A-F]{24}", value):
                yield value
            return
        for each in value.values() if isinstance(value, dict) else value:
            yield from named(each)

    used = {name for each in objects.all.values() for name in named(each)}
    root = next(name for name, each in objects.all.items() if each is objects.root)
    assert used | {root} == set(objects.all)
    assert all(re.fullmatch(r"[0-9A-F]{24}", name) for name in objects.all)


def test_the_project_has_each_file_of_its_folders(objects: Objects) -> None:
    listed = [path for _, path in objects.paths(objects.root["mainGroup"])]
    assert len(listed) == len(set(listed))
    assert all(path.exists() for path in listed)
    folders = [SAMPLE / name for name in ("Sources", "Resources", "Tests")]
    there = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert set(listed) == {path for path in there if path.name != ".swift-format"} | {SAMPLE / "Bundles"}


def test_the_targets_compile_the_sources_and_copy_the_resources(objects: Objects) -> None:
    assert objects.files("OmniDraftSample", "Sources") == set((SAMPLE / "Sources").rglob("*.swift"))
    assert objects.files("OmniDraftSampleTests", "Sources") == set((SAMPLE / "Tests").rglob("*.swift"))
    assert objects.files("OmniDraftSample", "Resources") == {SAMPLE_PRIVACY, SAMPLE / "Bundles"}
    assert objects.files("OmniDraftSampleTests", "Resources") == set()


def test_the_project_takes_the_package_of_this_repository(objects: Objects, spec: Any) -> None:
    packages = objects.of("XCLocalSwiftPackageReference")
    assert [each["relativePath"] for each in packages] == [spec["packages"]["OmniDraft"]["path"]]
    assert (SAMPLE / packages[0]["relativePath"]).resolve() == ROOT
    assert [objects.all[each] for each in objects.root["packageReferences"]] == packages
    manifest = (ROOT / "Package.swift").read_text(encoding="utf-8")
    app = objects.target("OmniDraftSample")
    products = [objects.all[each]["productName"] for each in app["packageProductDependencies"]]
    wanted = spec["targets"]["OmniDraftSample"]["dependencies"]
    assert products == [each["product"] for each in wanted] == ["OmniDraft"]
    assert f'.library(name: "{products[0]}"' in manifest
    linked = [objects.all[each] for phase in app["buildPhases"] for each in objects.all[phase]["files"]]
    assert [each["productRef"] for each in linked if "productRef" in each] == app[
        "packageProductDependencies"
    ]
    imported = set(re.findall(r"^import (OmniDraft\w*)", swift(SAMPLE / "Sources"), re.MULTILINE))
    assert imported <= set(re.findall(r"\.target\(\s*name: \"(\w+)\"", manifest))


def test_the_settings_are_those_of_the_manifest(objects: Objects, spec: Any) -> None:
    target = spec["options"]["deploymentTarget"]["iOS"]
    for config, settings in objects.settings(objects.root).items():
        assert settings.items() >= spec["settings"]["base"].items()
        assert settings["IPHONEOS_DEPLOYMENT_TARGET"] == target
        assert settings["SWIFT_OPTIMIZATION_LEVEL"] == {"Debug": "-Onone", "Release": "-O"}[config]
    assert spec["settings"]["base"]["MARKETING_VERSION"] == __version__
    for name, wanted in spec["targets"].items():
        for settings in objects.settings(objects.target(name)).values():
            assert settings.items() >= wanted["settings"]["base"].items()
    package = (SAMPLE / "Package.swift").read_text(encoding="utf-8")
    assert f".iOS(.v{target.partition('.')[0]})" in package
    tests = objects.settings(objects.target("OmniDraftSampleTests"))["Debug"]
    assert tests["TEST_HOST"] == "$(BUILT_PRODUCTS_DIR)/OmniDraftSample.app/OmniDraftSample"


def test_the_scheme_builds_and_tests_the_targets(objects: Objects, spec: Any) -> None:
    assert list(spec["schemes"]) == ["OmniDraftSample"]
    scheme = ElementTree.parse(PROJECT / "xcshareddata/xcschemes/OmniDraftSample.xcscheme").getroot()
    for reference in scheme.iter("BuildableReference"):
        target = objects.all[reference.attrib["BlueprintIdentifier"]]
        assert target is objects.target(reference.attrib["BlueprintName"])
        product = objects.all[target["productReference"]]
        assert product["path"] == reference.attrib["BuildableName"]
        assert reference.attrib["ReferencedContainer"] == f"container:{PROJECT.name}"
    tested = [each.attrib["BlueprintName"] for each in scheme.iterfind("TestAction//BuildableReference")]
    assert tested == ["OmniDraftSampleTests"]
    run = [each.attrib["BlueprintName"] for each in scheme.iterfind("LaunchAction//BuildableReference")]
    assert run == ["OmniDraftSample"]


def test_the_logic_of_the_screen_knows_no_views() -> None:
    modules = set(re.findall(r"^\s*import (\w+)", swift(SAMPLE / "Sources/Screen"), re.MULTILINE))
    assert modules == {"Foundation", "Observation", "OmniDraft", "OmniDraftORT", "os"}
    apple = set(re.findall(r"^import (\w+)", swift(SAMPLE / "Sources/App"), re.MULTILINE)) - modules
    assert apple == {each.name for each in (SAMPLE / "Stubs").iterdir() if each.is_dir()}
    manifest = (SAMPLE / "Package.swift").read_text(encoding="utf-8")
    found = re.search(r"let stubs = \[(\".*\")\]", manifest)
    assert found is not None
    assert set(re.findall(r'"(\w+)"', found[1])) == apple


def test_the_property_list_of_the_app() -> None:
    info = plistlib.loads((SAMPLE / "Resources/Info.plist").read_bytes())
    source = (SAMPLE / "Sources/App/IdleLearning.swift").read_text(encoding="utf-8")
    identifiers = re.findall(r'static let identifier = "([\w.]+)"', source)
    assert info["BGTaskSchedulerPermittedIdentifiers"] == identifiers
    assert identifiers[0].startswith("io.omnidraft.sample.")
    assert info["UIBackgroundModes"] == ["processing"]
    assert "NSAppTransportSecurity" not in info  # HTTPS without exceptions
    assert not any(name.endswith("UsageDescription") for name in info)  # it asks for no permission
    assert info["CFBundleIdentifier"] == "$(PRODUCT_BUNDLE_IDENTIFIER)"
    assert info["CFBundleShortVersionString"] == "$(MARKETING_VERSION)"
    assert len(info["UISupportedInterfaceOrientations"]) == 3  # it rotates


@pytest.mark.parametrize(
    ("manifest", "folders"),
    [
        (LIBRARY_PRIVACY, [IOS / "Sources/OmniDraft", IOS / "Sources/OmniDraftORT"]),
        (SAMPLE_PRIVACY, [SAMPLE / "Sources"]),
    ],
)
def test_a_privacy_manifest_says_what_its_sources_use(manifest: Path, folders: list[Path]) -> None:
    privacy = plistlib.loads(manifest.read_bytes())
    assert privacy["NSPrivacyTracking"] is False
    assert privacy["NSPrivacyTrackingDomains"] == []
    assert privacy["NSPrivacyCollectedDataTypes"] == []
    text = swift(*folders)
    used = {CATEGORY + name: reasons for name, (calls, reasons) in REASONED.items() if re.search(calls, text)}
    accessed = privacy["NSPrivacyAccessedAPITypes"]
    said = {
        each["NSPrivacyAccessedAPIType"]: set(each["NSPrivacyAccessedAPITypeReasons"]) for each in accessed
    }
    assert said == used
    assert len(said) == len(accessed)
    assert set(privacy) == {
        "NSPrivacyTracking",
        "NSPrivacyTrackingDomains",
        "NSPrivacyCollectedDataTypes",
        "NSPrivacyAccessedAPITypes",
    }


def test_the_package_has_its_privacy_manifest() -> None:
    manifest = (ROOT / "Package.swift").read_text(encoding="utf-8")
    (target,) = re.findall(
        r'name: "(\w+)", [^()]*(?:\([^()]*\)[^()]*)*resources: \[\.copy\("PrivacyInfo.xcprivacy"\)\]',
        manifest,
    )
    assert LIBRARY_PRIVACY.parent.name == target
    # The generated code of a target with resources says `Bundle`, which must be Foundation's.
    assert not re.search(r"(struct|class|enum|actor|typealias) Bundle\b", swift(LIBRARY_PRIVACY.parent))


def commands() -> list[list[str]]:
    """The command lines of the workflow, without the variables that are set before them."""
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    lines = [line for step in job["steps"] for line in step.get("run", "").replace("\\\n", " ").splitlines()]
    words = [shlex.split(line) for line in lines]
    return [[word for at, word in enumerate(each) if at or "=" not in word] for each in words]


def test_the_workflow_says_that_it_is_not_run_here() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    assert text.startswith("# Not run by this project")
    assert "was not run" in (IOS / "README.md").read_text(encoding="utf-8")
    assert "ios.yml" in (IOS / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"https?://", text) == []
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert {"push", "pull_request", "workflow_dispatch"} == set(
        workflow[True]
    )  # `on` is a truth value in YAML
    for event in ("push", "pull_request"):
        for pattern in workflow[True][event]["paths"]:
            assert (ROOT / pattern.removesuffix("/**")).exists(), pattern
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in used)


def test_the_workflow_names_what_is_there(spec: Any) -> None:
    products = set(
        re.findall(r'\.library\(name: "(\w+)"', (ROOT / "Package.swift").read_text(encoding="utf-8"))
    )
    builds = [words for words in commands() if "xcodebuild" in words]
    assert len(builds) == 3
    for words in builds:
        named = dict(pairwise(words))
        if "-project" in named:
            assert (ROOT / named["-project"]).is_dir()
            assert named["-scheme"] in spec["schemes"]
        else:
            assert named["-scheme"] in products
        assert re.match(r"(generic/)?platform=iOS", named["-destination"])
    packages = [words for words in commands() if words[0] == "swift"]
    assert [dict(pairwise(each)).get("--package-path", ".") for each in packages] == [
        ".",
        "mobile/ios/Sample",
    ]
    assert all((ROOT / "mobile/ios/Sample" / name).exists() for name in ("Package.swift", "Bundles"))
    assert {words[0] for words in commands()} == {
        "make", "mkdir", ".venv/bin/omnidraft", "cp", "swift", "xcodebuild",
    }  # fmt: skip
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(
        re.search(rf"^{words[1]}:", makefile, re.MULTILINE) for words in commands() if words[0] == "make"
    )


def test_the_workflow_calls_omnidraft_with_options_that_it_has(run: Run) -> None:
    calls = [words[1:] for words in commands() if words[0].endswith("omnidraft")]
    assert [words[0] for words in calls] == ["export", "pack", "unpack"]
    for words in calls:
        places = [word for word in words if word.startswith("examples/")]
        assert all((ROOT / place).is_dir() for place in places)
        status, out, err = run(*words, "--help")
        assert status == 0, f"{shlex.join(words)}\n{out}{err}"


def test_the_bundles_of_the_app_are_made_by_a_command_that_runs(run: Run) -> None:
    text = (SAMPLE / "Bundles/README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^    omnidraft (.*)$", text, re.MULTILINE)
    assert "mobile/ios/Sample/Bundles/" in line
    status, out, err = run(*shlex.split(line), "--help")
    assert status == 0, f"{line}\n{out}{err}"
