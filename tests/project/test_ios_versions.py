"""Names of Apple's libraries that are newer than what the Swift package and the sample are deployed to.

Linux does not check availability, so a compiler there takes every name of the newest Swift. On a Mac one
such name stops the build. A use behind `#available` is refused, too: there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.places import ROOT

IOS = ROOT / "mobile/ios"
# First version of iOS -> an expression for a name, and code that it finds. iOS 16, 17 and 18 are macOS 13, 14
# and 15.
NEWER: dict[int, list[tuple[str, str]]] = {
    16: [
        # Swift 5.7: clocks, regular expressions, collections in collections, existentials with type arguments
        (r"\bDuration\b", "let pause: Duration = .seconds(1)"),
        (r"\b(?:Continuous|Suspending)Clock\b", "let clock = ContinuousClock()"),
        (r"\b(?:any|some) (?:Clock|InstantProtocol)\b", "let clock: any Clock"),
        (r"\bTask\.sleep\((?:for|until):", "try await Task.sleep(for: .seconds(1))"),
        (r"\bRegex\b", "let digits: Regex<Substring>"),
        (r"\bimport RegexBuilder\b", "import RegexBuilder"),
        (r"=\s*/[^/*\s]", "let digits = /[0-9]+/"),
        (r"\.(?:first|whole|prefix)Match\((?:of|in):", "text.firstMatch(of: digits)"),
        (r"\.(?:firstRange|ranges|matches)\(of:", 'text.ranges(of: "ab")'),
        (r"\.trimmingPrefix\(|\.trimPrefix\(", 'text.trimmingPrefix("ab")'),
        (r"\.replac(?:ing|e)\((?!with:)(?:\"|/|\w+,\s*with:)", 'text.replacing("a", with: "b")'),
        (r"\.split\((?:\w+: [^()]*, )?separator: \"(?:[^\"\\]|\\.){2,}\"", 'text.split(separator: "ab")'),
        (r"\bany \w+<", "var all: any Sequence<Int>"),
        # Foundation
        (r"\bURL\((?:filePath|directoryHint|string: .*, encodingInvalidCharacters):", "URL(filePath: path)"),
        (r"\.append(?:ing)?\((?:path|component|components|queryItems):", "url.appending(path: name)"),
        (r"\bpercentEncoded:", "url.path(percentEncoded: false)"),
        (r"\.path\(\)", "url.path()"),
        (r"\bURL\.(?:\w+Directory)\b", "let base = URL.documentsDirectory"),
        (r": URL = \.\w+Directory\b", "let base: URL = .documentsDirectory"),
        (r"\.(?:homeDirectory|currentDirectory)\(", "let place: URL = .currentDirectory()"),
        (r"\bLocale\.(?:Language|Region|Currency|Script|Components)\b", "Locale.Language(identifier: name)"),
        (
            r"\bdidCreateTask\b",
            "func urlSession(_ session: URLSession, didCreateTask task: URLSessionTask) {}",
        ),
        (r"\bTransferable\b", "extension Piece: Transferable {}"),
        # other frameworks
        (r"\bOSAllocatedUnfairLock\b", "let lock = OSAllocatedUnfairLock(initialState: 0)"),
        (r"\bcompressedRepresentation\b", "P256.Signing.PublicKey(compressedRepresentation: bytes)"),
    ],
    17: [
        (r"@Observable\b", "@Observable final class ScreenModel {}"),
        (r"\bwithObservationTracking\b|\bObservationRegistrar\b", "withObservationTracking { model.text }"),
        (r"\bimport Observation\b", "import Observation"),
        (r"\bwith(?:Throwing)?DiscardingTaskGroup\b", "await withDiscardingTaskGroup { group in }"),
        (r"\b(?:struct|class|enum|actor) \w+<[^>{]*\beach ", "struct All<each Part> {}"),
        (r"#Predicate\b|\bPredicate<", "#Predicate<Turn> { $0.id > 1 }"),
        (r"\bunownedExecutor\b|\bSerialExecutor\b|\bExecutorJob\b", "nonisolated var unownedExecutor"),
        (r"\bHPKE\b", "HPKE.Sender(recipientKey: key)"),
        (r"\buploadTask\(withResumeData", "session.uploadTask(withResumeData: data)"),
        (r"\bimport SwiftData\b|@Model\b", "@Model final class Talk {}"),
    ],
    18: [
        (r"\bString\(validating(?:CString|UTF8CString)?:", "String(validating: data, as: UTF8.self)"),
        (r"\bimport Synchronization\b", "import Synchronization"),
        (r"\bMutex[<(]", "let count = Mutex(0)"),
        (r"\bAtomic(?:LazyReference)?<|\bAtomic\(", "let count = Atomic<Int>(0)"),
        (r"\bU?Int128\b", "let product: UInt128 = 0"),
        (
            r"\bTaskExecutor\b|\bwithTaskExecutorPreference\b|\bexecutorPreference:",
            "Task(executorPreference: queue) {}",
        ),
        (r"\bisolated deinit\b", "isolated deinit {}"),
        (r"\bIndexSequence\b|\bRangeSet\b|\bDiscontiguousSlice\b", "var places = RangeSet<Int>()"),
        (r"\bMLState\b|\bMLTensor\b", "let state: MLState"),
        (r"#Expression\b|#Index\b|#Unique\b", "#Expression<Turn, Int> { $0.id }"),
        (r"\bMeshGradient\b|\bonScrollGeometryChange\b|\bScrollPosition\(", "ScrollPosition(edge: .bottom)"),
        (r"\bTab\(\"|\bTextRenderer\b|\bnavigationTransition\(", 'Tab("Talk", systemImage: "text") {}'),
        (r"\bdefaultScrollAnchor\([^)]*, for:", ".defaultScrollAnchor(.bottom, for: .sizeChanges)"),
    ],
    26: [
        (r"\bInlineArray\b", "var lanes: InlineArray<4, Float>"),
        (
            r"\b(?:Mutable|Output)?(?:Raw)?Span<|\b(?:Mutable|Output)?RawSpan\b",
            "func sum(_ row: Span<Float>)",
        ),
        (r"\.(?:mutableSpan|utf8Span)\b|\bUTF8Span\b", "let view = text.utf8Span"),
        (r"\.span\b", "let row = values.span"),
        (r"\bTask\.immediate\b|\baddImmediateTask\b", "Task.immediate {}"),
        (r"\bObservations(?:\.| \{|\()", "Observations { model.text }"),
        (
            r"\bNotificationCenter\.(?:Message|AsyncMessage|MainActorMessage)\b",
            "NotificationCenter.MainActorMessage",
        ),
        (r"\bMLDSA(?:65|87)\b|\bMLKEM(?:768|1024)\b|\bSHA3_(?:256|384|512)\b", "SHA3_256.hash(data: data)"),
        (r"\bimport FoundationModels\b|\bLanguageModelSession\b", "import FoundationModels"),
        (r"\bBGContinuedProcessingTask", "BGContinuedProcessingTaskRequest(identifier: name)"),
        (r"\.glassEffect\(|\bGlassEffectContainer\b", ".glassEffect()"),
    ],
}
# With Foundation, of which every version has it, a text inside a text is another function.
INSIDE = re.compile(r"\.contains\(\"(?:[^\"\\]|\\.){2,}\"\)")
FOUNDATION = re.compile(r"^\s*import (?:Foundation|XCTest|SwiftUI|UIKit)\b", re.MULTILINE)
# What the same words mean in code that every version has.
OLD = [
    "bits.replacing(with: limit, where: bits .> limit)",
    'text.split(separator: "\\n")',
    'text.split(separator: " ", maxSplits: 1)',
    'let last = text.dropFirst(name.count + 2).split(separator: ".", omittingEmptySubsequences: false)',
    "try await Task.sleep(nanoseconds: 500_000_000)",
    "root.appendingPathComponent(folder, isDirectory: true)",
    "FileManager.default.urls(for: .applicationSupportDirectory, in: .userDomainMask)",
    "func put(_ data: some Sequence<UInt8>)",
    "let left = total / half * half",
    "typealias Clock = () -> Double",
    "URL(fileURLWithPath: path, isDirectory: true)",
    "return out.bytes",
    "left.count { $0 > 1 }",
    "pthread_mutex_lock(mutex)",
    "turns[last].spans.append(part)",
]
COMMENT = re.compile(r'("""(?s:.*?)"""|"(?:\\.|[^"\\\n])*")|//[^\n]*|/\*(?s:.*?)\*/')


def code(text: str) -> str:
    """A Swift source without its comments; strings stay, since code is inside of some."""
    return COMMENT.sub(lambda found: found[1] or "", text)


def newer(text: str, deployment: int) -> list[str]:
    """The names in Swift code that came after a version of iOS."""
    found = [
        f"iOS {first}: {match[0].strip()}"
        for first, names in NEWER.items()
        if first > deployment
        for expression, _ in names
        for match in re.finditer(expression, text)
    ]
    if deployment < 16 and not FOUNDATION.search(text):
        found += [f"iOS 16: {match[0]}" for match in INSIDE.finditer(text)]
    return sorted(found)


def deployment(path: str) -> int:
    """The version of iOS that a manifest of a Swift package names."""
    found = re.search(r"\.iOS\((?:\.v|\")(\d+)", (ROOT / path).read_text(encoding="utf-8"))
    assert found is not None, path
    return int(found[1])


def blocks(path: Path) -> Iterator[str]:
    """The Swift code in a document."""
    yield from re.findall(
        r"^ *```swift\n(.*?)^ *```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize(
    ("folder", "manifest"), [("Sources", "Package.swift"), ("Tests", "Package.swift"),
                             ("Sample/Sources", "mobile/ios/Sample/Package.swift"),
                             ("Sample/Tests", "mobile/ios/Sample/Package.swift")],
)  # fmt: skip
def test_sources_use_no_name_that_is_newer_than_their_deployment_target(folder: str, manifest: str) -> None:
    files = sorted((IOS / folder).rglob("*.swift"))
    assert files, folder
    found = {
        str(file.relative_to(IOS)): names
        for file in files
        if (names := newer(code(file.read_text(encoding="utf-8")), deployment(manifest)))
    }
    assert found == {}


def test_the_readme_uses_none_either() -> None:
    examples = list(blocks(IOS / "README.md"))
    assert len(examples) > 5
    assert [names for each in examples if (names := newer(code(each), deployment("Package.swift")))] == []


@pytest.mark.parametrize(
    ("first", "expression", "example"),
    [(first, *each) for first, names in NEWER.items() for each in names],
)
def test_each_name_of_the_table_is_found(first: int, expression: str, example: str) -> None:
    assert re.search(expression, code(f"{example}\n")), expression
    assert newer(code(example), first - 1) != []


@pytest.mark.parametrize("text", OLD)
def test_what_every_version_has_is_not_found(text: str) -> None:
    assert newer(code(text), 15) == []


def test_comments_are_left_out_and_strings_stay() -> None:
    text = 'let a = "https://x" // Mutex(0)\n/* Mutex(0)\n */ let b = "\\(Mutex(0))"'
    assert code(text) == 'let a = "https://x" \n let b = "\\(Mutex(0))"'
    assert newer(code(text), 15) == ["iOS 18: Mutex("]


def test_a_text_inside_a_text_takes_foundation() -> None:
    text = 'let isThere = name.contains("ab") && name.contains("c")'
    assert newer(text, 15) == ['iOS 16: .contains("ab")']
    assert newer(f"import Foundation\n{text}", 15) == newer(text, 16) == []


def test_the_sample_is_deployed_to_the_same_version_in_all_its_files() -> None:
    version = deployment("mobile/ios/Sample/Package.swift")
    project = (IOS / "Sample/OmniDraftSample.xcodeproj/project.pbxproj").read_text(encoding="utf-8")
    assert set(re.findall(r"IPHONEOS_DEPLOYMENT_TARGET = ([\d.]+);", project)) == {f"{version}.0"}
