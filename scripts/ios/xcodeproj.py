"""Write the Xcode project of the iOS sample from its XcodeGen manifest, `project.yml`, and from the folders.

    python -m scripts.ios.xcodeproj           # writes OmniDraftSample.xcodeproj
    python -m scripts.ios.xcodeproj --check   # exit status 1 if it is out of date

The checked-in project lets a Mac open the sample without XcodeGen. Only what `project.yml` of the sample uses
is known here; anything else in it is an error.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.ios.pbxproj import Project, Reference, identifier
from scripts.ios.xcscheme import only, scheme

SAMPLE = Path(__file__).resolve().parents[2] / "mobile/ios/Sample"
PRODUCTS = {
    "application": ("com.apple.product-type.application", "wrapper.application", "app"),
    "bundle.unit-test": ("com.apple.product-type.bundle.unit-test", "wrapper.cfbundle", "xctest"),
}
# What XcodeGen and Xcode give each project, so far as Xcode's own defaults differ.
PROJECT_SETTINGS = {
    "ALWAYS_SEARCH_USER_PATHS": "NO",
    "CLANG_ENABLE_MODULES": "YES",
    "ENABLE_USER_SCRIPT_SANDBOXING": "YES",
    "PRODUCT_NAME": "$(TARGET_NAME)",
    "SDKROOT": "iphoneos",
}
CONFIGS = {
    "Debug": {
        "DEBUG_INFORMATION_FORMAT": "dwarf",
        "ENABLE_TESTABILITY": "YES",
        "GCC_OPTIMIZATION_LEVEL": "0",
        "ONLY_ACTIVE_ARCH": "YES",
        "SWIFT_ACTIVE_COMPILATION_CONDITIONS": "DEBUG",
        "SWIFT_OPTIMIZATION_LEVEL": "-Onone",
    },
    "Release": {
        "DEBUG_INFORMATION_FORMAT": "dwarf-with-dsym",
        "SWIFT_COMPILATION_MODE": "wholemodule",
        "SWIFT_OPTIMIZATION_LEVEL": "-O",
        "VALIDATE_PRODUCT": "YES",
    },
}
FRAMEWORKS = ["$(inherited)", "@executable_path/Frameworks"]


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder, without those that the system hides."""
    found = sorted(folder.iterdir(), key=lambda path: (path.is_file(), path.name))
    return (path for path in found if not path.name.startswith("."))


class Writer:
    """Turns a manifest into a project."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        known = ("name", "options", "packages", "settings", "targets", "schemes")
        self.spec = only(spec, *known)
        self.name: str = spec["name"]
        self.project = Project(folder)
        self.root = Reference(identifier("PBXProject", self.name), "Project object")
        self.tops: list[Reference] = []
        self.targets: dict[str, Reference] = {}
        self.apps: list[str] = []

    def build_file(self, target: str, phase: str, file: Reference, **fields: Reference) -> Reference:
        fields = fields or {"fileRef": file}
        name, comment = f"{target} {phase} {file.identifier}", f"{file.comment} in {phase}"
        return self.project.add("PBXBuildFile", name, comment, **fields)

    def tree(self, folder: Path, sources: list[Reference], resources: list[Reference]) -> Reference:
        """The group of a folder; its files go to the phases that their kinds are for."""
        children = []
        for path in files(folder):
            if path.is_dir():
                children.append(self.tree(path, sources, resources))
                continue
            children.append(self.project.file(path))
            if path.suffix == ".swift":
                sources.append(children[-1])
            elif path.name != "Info.plist":
                resources.append(children[-1])
        name = folder.relative_to(self.project.folder).as_posix()
        return self.project.group(name, children, path=folder.name)

    def phase(self, target: str, kind: str, refs: list[Reference]) -> Reference:
        members = [self.build_file(target, kind, ref) for ref in refs]
        return self.project.add(
            f"PBX{kind}BuildPhase",
            target,
            kind,
            buildActionMask="2147483647",
            files=members,
            runOnlyForDeploymentPostprocessing="0",
        )

    def configurations(self, owner: str, kind: str, settings: dict[str, dict[str, Any]]) -> Reference:
        configs = [
            self.project.add(
                "XCBuildConfiguration",
                f"{kind} {owner} {name}",
                name,
                buildSettings=dict(sorted(values.items())),
                name=name,
            )
            for name, values in settings.items()
        ]
        return self.project.add(
            "XCConfigurationList",
            f"{kind} {owner}",
            f'Build configuration list for {kind} "{owner}"',
            buildConfigurations=configs,
            defaultConfigurationIsVisible="0",
            defaultConfigurationName="Release",
        )

    def sources_of(self, target: dict[str, Any]) -> tuple[list[Reference], list[Reference]]:
        sources: list[Reference] = []
        resources: list[Reference] = []
        for source in target["sources"]:
            place = self.project.folder / only(source, "path", "type", "buildPhase")["path"]
            if source.get("type") == "folder":
                assert source["buildPhase"] == "resources"
                resources.append(self.project.file(place))
                self.tops.append(resources[-1])
            else:
                self.tops.append(self.tree(place, sources, resources))
        return sources, resources

    def product(self, target: str, package: Reference, product: str) -> tuple[Reference, Reference]:
        """A product of a package: the dependency of a target, and its part of the link."""
        dependency = self.project.add(
            "XCSwiftPackageProductDependency",
            f"{target} {product}",
            product,
            package=package,
            productName=product,
        )
        return dependency, self.build_file(target, "Frameworks", dependency, productRef=dependency)

    def depends_on(self, target: str, other: str) -> Reference:
        proxy = self.project.add(
            "PBXContainerItemProxy",
            f"{target} {other}",
            "PBXContainerItemProxy",
            containerPortal=self.root,
            proxyType="1",
            remoteGlobalIDString=self.targets[other].identifier,
            remoteInfo=other,
        )
        return self.project.add(
            "PBXTargetDependency",
            f"{target} {other}",
            "PBXTargetDependency",
            target=self.targets[other],
            targetProxy=proxy,
        )

    def target(self, name: str, spec: dict[str, Any], packages: dict[str, Reference]) -> Reference:
        """A target and its product; the product is returned."""
        only(spec, "type", "platform", "sources", "dependencies", "settings")
        assert spec["platform"] == "iOS"
        product_type, kind, suffix = PRODUCTS[spec["type"]]
        product = self.project.add(
            "PBXFileReference",
            f"product {name}",
            f"{name}.{suffix}",
            explicitFileType=kind,
            includeInIndex="0",
            path=f"{name}.{suffix}",
            sourceTree="BUILT_PRODUCTS_DIR",
        )
        settings: dict[str, Any] = {"LD_RUNPATH_SEARCH_PATHS": FRAMEWORKS}
        products, links, dependencies = [], [], []
        for dependency in spec["dependencies"]:
            if "package" in only(dependency, "package", "product", "target"):
                pair = self.product(name, packages[dependency["package"]], dependency["product"])
                products.append(pair[0])
                links.append(pair[1])
            else:
                dependencies.append(self.depends_on(name, dependency["target"]))
                app = dependency["target"]
                settings["BUNDLE_LOADER"] = "$(TEST_HOST)"
                settings["TEST_HOST"] = f"$(BUILT_PRODUCTS_DIR)/{app}.app/{app}"
                settings["LD_RUNPATH_SEARCH_PATHS"] = [*FRAMEWORKS, "@loader_path/Frameworks"]
        settings |= only(spec["settings"], "base")["base"]
        sources, resources = self.sources_of(spec)
        phases = [self.phase(name, "Sources", sources), self.phase(name, "Resources", resources)]
        frameworks = self.project.add(
            "PBXFrameworksBuildPhase",
            name,
            "Frameworks",
            buildActionMask="2147483647",
            files=links,
            runOnlyForDeploymentPostprocessing="0",
        )
        self.targets[name] = self.project.add(
            "PBXNativeTarget",
            name,
            name,
            buildConfigurationList=self.configurations(
                name, "PBXNativeTarget", {config: settings for config in CONFIGS}
            ),
            buildPhases=[*phases, frameworks],
            buildRules=[],
            dependencies=dependencies,
            name=name,
            packageProductDependencies=products,
            productName=name,
            productReference=product,
            productType=product_type,
        )
        return product

    def pbxproj(self) -> str:
        """The file `project.pbxproj`."""
        options = only(self.spec["options"], "bundleIdPrefix", "deploymentTarget", "xcodeVersion")
        packages = {
            name: self.project.add(
                "XCLocalSwiftPackageReference",
                name,
                f'XCLocalSwiftPackageReference "{package["path"]}"',
                relativePath=only(package, "path")["path"],
            )
            for name, package in self.spec["packages"].items()
        }
        # A target comes before those that depend on it.
        products = [self.target(name, spec, packages) for name, spec in self.spec["targets"].items()]
        self.tops.append(self.project.group("products", products, name="Products"))
        common = {
            **PROJECT_SETTINGS,
            "IPHONEOS_DEPLOYMENT_TARGET": only(options["deploymentTarget"], "iOS")["iOS"],
            **only(self.spec["settings"], "base")["base"],
        }
        major, minor = str(options["xcodeVersion"]).split(".")
        attributes = {"BuildIndependentTargetsInParallel": "YES", "LastUpgradeCheck": f"{major}{minor}0"}
        configs = self.configurations(
            self.name, "PBXProject", {name: common | values for name, values in CONFIGS.items()}
        )
        made = self.project.add(
            "PBXProject",
            self.name,
            "Project object",
            attributes=attributes,
            buildConfigurationList=configs,
            compatibilityVersion="Xcode 15.0",
            developmentRegion="en",
            hasScannedForEncodings="0",
            knownRegions=["Base", "en"],
            mainGroup=self.project.group("main", self.tops),
            packageReferences=list(packages.values()),
            projectDirPath="",
            projectRoot="",
            targets=list(self.targets.values()),
        )
        assert made == self.root
        return self.project.text(self.root)

    def schemes(self) -> Iterator[tuple[str, str]]:
        """The names and files of the schemes; after `pbxproj`, which gives the targets their identifiers."""
        for name, spec in self.spec["schemes"].items():
            yield name, scheme(spec, self.buildable)

    def buildable(self, target: str) -> str:
        """The reference of a scheme to a target."""
        suffix = PRODUCTS[self.spec["targets"][target]["type"]][2]
        return (
            f'<BuildableReference BuildableIdentifier="primary" BlueprintName="{target}"'
            f' BlueprintIdentifier="{self.targets[target].identifier}" BuildableName="{target}.{suffix}"'
            f' ReferencedContainer="container:{self.name}.xcodeproj"/>'
        )


def render(folder: Path = SAMPLE) -> dict[Path, str]:
    """The texts of the project's files, by their places."""
    yaml: Any = importlib.import_module("yaml")
    writer = Writer(yaml.safe_load((folder / "project.yml").read_text(encoding="utf-8")), folder)
    place = folder / f"{writer.name}.xcodeproj"
    found = {place / "project.pbxproj": writer.pbxproj()}
    for name, text in writer.schemes():
        found[place / f"xcshareddata/xcschemes/{name}.xcscheme"] = text
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    old = 0
    for path, text in render().items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if check:
            print(f"{path.relative_to(SAMPLE)} is out of date", file=sys.stderr)
            old = 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return old


if __name__ == "__main__":
    sys.exit(main())
