"""The text of a scheme of Xcode, which says what is built, run and tested."""

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

ACTIONS = {
    "test": "Testing",
    "run": "Running",
    "profile": "Profiling",
    "archive": "Archiving",
    "analyze": "Analyzing",
}


def only(mapping: dict[str, Any], *known: str) -> dict[str, Any]:
    """The mapping; a name that is not known here is an error."""
    assert set(mapping) <= set(known), f"{sorted(set(mapping) - set(known))} is not known here"
    return mapping


def scheme(spec: dict[str, Any], buildable: Callable[[str], str]) -> str:
    """The file of a scheme.

    Args:
        spec: of the manifest.
        buildable: gives the reference to a target, as XML.
    """
    only(spec, "build", "run", "test")
    builds = only(spec["build"], "targets")["targets"]
    app = next(iter(builds))
    entries = ""
    for target, actions in builds.items():
        flags = [
            f'buildFor{name}="{"YES" if actions == "all" or action in actions else "NO"}"'
            for action, name in ACTIONS.items()
        ]
        entries += f"<BuildActionEntry {' '.join(flags)}>{buildable(target)}</BuildActionEntry>"
    test, run = only(spec["test"], "config", "targets"), only(spec["run"], "config")
    testables = "".join(
        f'<TestableReference skipped="NO">{buildable(target)}</TestableReference>'
        for target in test["targets"]
    )
    runnable = buildable(app).join(
        ('<BuildableProductRunnable runnableDebuggingMode="0">', "</BuildableProductRunnable>")
    )
    text = f"""<Scheme LastUpgradeVersion="1600" version="1.7">
        <BuildAction parallelizeBuildables="YES" buildImplicitDependencies="YES">
        <BuildActionEntries>{entries}</BuildActionEntries></BuildAction>
        <TestAction buildConfiguration="{test["config"]}"><Testables>{testables}</Testables></TestAction>
        <LaunchAction buildConfiguration="{run["config"]}">{runnable}</LaunchAction>
        <ProfileAction buildConfiguration="Release"/><AnalyzeAction buildConfiguration="Debug"/>
        <ArchiveAction buildConfiguration="Release" revealArchiveInOrganizer="YES"/></Scheme>"""
    root = ElementTree.fromstring(re.sub(r">\s+<", "><", text))
    ElementTree.indent(root, "   ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"
