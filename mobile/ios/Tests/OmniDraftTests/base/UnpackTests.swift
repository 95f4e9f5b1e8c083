import Foundation
import XCTest

@testable import OmniDraft

/// Unpacking of archives, shared drafters, and bundles that change after they were opened.
final class UnpackTests: XCTestCase {
    private func archive(_ place: String, _ data: [UInt8]) throws -> String {
        let file = joined(place, "archive.zip")
        try put(file, data)
        return file
    }

    private func assertFault(_ fault: String, line: UInt = #line, _ body: () throws -> Void) throws {
        XCTAssertEqual(try faultOf(body), fault, line: line)
    }

    func testAnArchiveBecomesABundleAndEachByteIsTold() throws {
        try inDirectory { place in
            let file = try archive(place, phoneArchive())
            let out = joined(place, "out")
            var last = (done: 0, total: 0)
            XCTAssertEqual(
                try installFile(file, into: out) { done, total in
                    XCTAssert(done > last.done && done <= total)
                    last = (done, total)
                }, out)
            let bundle = try openBundle(out)
            XCTAssertEqual(last.done, last.total)
            XCTAssertEqual(last.total, bundle.stamps.values.reduce(0) { $0 + $1.size })
            XCTAssertEqual(bundle.stamps.names, bundle.files.names.filter { !bundle.places.isLeftOut($0) })
            XCTAssertEqual(namesIn(place), ["archive.zip", "out"])
            // The same bundle is used as it is.
            let stamp = try stampOf(joined(out, bundle.vocabMap))
            XCTAssertEqual(try installFile(file, into: out), out)
            XCTAssertEqual(try stampOf(joined(out, bundle.vocabMap)), stamp)
        }
    }

    func testABundleThatLostAFileOrAPartOfOneIsWrittenAgain() throws {
        try inDirectory { place in
            let file = try archive(place, phoneArchive())
            let out = try installFile(file, into: joined(place, "out"))
            let map = joined(out, try openBundle(out).vocabMap)
            let bytes = try OpenFile(map).read(1 << 24)
            try put(map, Array(bytes.prefix(100)))
            XCTAssertEqual(try installFile(file, into: out), out)
            XCTAssertEqual(try OpenFile(map).read(1 << 24), bytes)
            try FileManager.default.removeItem(atPath: map)
            XCTAssertEqual(try installFile(file, into: out), out)
            _ = try openBundle(out)
        }
    }

    func testASignatureArrivesWhereTheBundleIsThereWithoutItAndIsNotLost() throws {
        try inDirectory { place in
            let vectors = try vectorsOf("archive/valid")
            let signed = try archiveOf(XCTUnwrap(vectors.first { $0.name == "signed" }).input)
            let out = joined(place, "out")
            let signature = joined(out, signatureName)
            let expected = try openArchive(archive(place, signed)).beside[signatureName]
            let unsigned = try phoneArchive()
            _ = try installFile(archive(place, unsigned), into: out)
            XCTAssertFalse(exists(signature))
            for data in [signed, unsigned] {
                _ = try installFile(archive(place, data), into: out)
                XCTAssertEqual(try readFile(signature, most: signatureBytes), expected)
            }
            try put(signature, [1])
            _ = try installFile(archive(place, signed), into: out)
            XCTAssertEqual(try readFile(signature, most: signatureBytes), expected)
            _ = try openBundle(out)
        }
    }

    func testAnotherDirectoryIsNotReplacedUnlessABundleIsToBe() throws {
        try inDirectory { place in
            let file = try archive(place, phoneArchive())
            let out = joined(place, "out")
            try put(joined(out, "note"), [1])
            try assertFault("unwritable") { _ = try installFile(file, into: out) }
            try assertFault("unwritable") { try unpack(openArchive(file), out, overwrite: true) }
            try put(joined(out, manifestName), Array("{\"manifest_version\":3}".utf8))  // of a browser's extension
            try assertFault("unwritable") { try unpack(openArchive(file), out, overwrite: true) }
            XCTAssert(exists(joined(out, "note")))
            try FileManager.default.removeItem(atPath: out)
            try unpack(openArchive(file), out, overwrite: true)
            XCTAssertEqual(try installFile(file, into: out, overwrite: true), out)
            _ = try openBundle(out)
            try put(joined(out, "note"), [1])
            try assertFault("unwritable") { try unpack(openArchive(file), out, overwrite: true) }
            XCTAssert(exists(joined(out, "note")))
            try assertFault("unwritable") { _ = try installFile(file, into: file + "/out") }
            try FileManager.default.createSymbolicLink(atPath: joined(place, "link"), withDestinationPath: out)
            try assertFault("unwritable") { _ = try installFile(file, into: joined(place, "link")) }
            XCTAssertEqual(namesIn(place), ["archive.zip", "link", "out"])
        }
    }

    func testNothingIsLeftOfAnArchiveThatIsRefusedOrStopped() throws {
        try inDirectory { place in
            let whole = try phoneArchive()
            let out = joined(place, "out")
            var changed = whole
            changed[65536] = 0  // of target/cpu/model.onnx
            try assertFault("checksum") { _ = try installFile(archive(place, changed), into: out) }
            try assertFault("truncated") { _ = try installFile(archive(place, whole.dropLast()), into: out) }
            try assertFault("trailing_bytes") { _ = try installFile(archive(place, whole + [0]), into: out) }
            let file = try archive(place, whole)
            XCTAssertThrowsError(try installFile(file, into: out) { _, _ in throw CancellationError() })
            XCTAssertEqual(namesIn(place), ["archive.zip"])
            try put(joined(place, ".out.0123456789abcdef.tmp/target/half"), [1])  // of a killed process
            _ = try installFile(file, into: out)
            XCTAssertEqual(namesIn(place), ["archive.zip", "out"])
        }
    }

    func testADiskWithoutRoomIsNamed() throws {
        try assertFault("space") { try checkSpace("/", needed: .max, what: "it") }
    }

    func testTwoArchivesShareADrafterWhichIsCompletedWhereItIsDamaged() throws {
        try inDirectory { place in
            let vectors = try vectorsOf("archive/valid")
            func data(_ drafter: String) throws -> [UInt8] {
                try archiveOf(XCTUnwrap(vectors.first { $0.expected["drafter"]?.string == drafter }).input)
            }
            let path = try installFile(archive(place, data("without")), into: joined(place, "bundle"))
            try assertFault("missing") { _ = try openBundle(path) }
            let drafter = try archive(place, data("only"))
            let shared = try installFile(drafter, into: place)
            XCTAssertEqual(split(shared).directory, joined(place, sharedName))
            let bundle = try openBundle(path)
            let graph = try bundle.file(bundle.drafter.graph)
            let content = try readFile(graph, most: 1 << 20)
            try put(graph, [1])
            XCTAssertEqual(unlink(joined(shared, "train/step.onnx")), 0)
            XCTAssertEqual(try installFile(drafter, into: place), shared)
            XCTAssertEqual(try readFile(graph, most: 1 << 20), content)
            _ = try openBundle(path)
            XCTAssertEqual(namesIn(joined(place, sharedName)), [split(shared).name])
        }
    }

    func testALinkAnAbsentFileAndOneThatChangesAreRefused() throws {
        try inBundle { place in
            let bundle = try openBundle(place)
            try checkUnchanged(bundle.places, bundle.stamps)
            let graph = try bundle.file(bundle.target.graph)
            let content = try readFile(graph, most: 1 << 10)
            XCTAssertEqual(unlink(graph), 0)
            try assertFault("checksum") { try checkUnchanged(bundle.places, bundle.stamps) }
            try assertFault("missing") { _ = try openBundle(place) }
            let elsewhere = place + "-elsewhere"
            try put(elsewhere, content)
            try FileManager.default.createSymbolicLink(atPath: graph, withDestinationPath: elsewhere)
            try assertFault("outside") { _ = try openBundle(place) }
            XCTAssertEqual(unlink(graph), 0)
            try put(graph, content)
            try assertFault("checksum") { try checkUnchanged(bundle.places, bundle.stamps) }
            try assertFault("outside") { _ = try checkedGraph(bundle, bundle.target.graph) }  // it is no graph
            try put(graph, [8, 8])  // a version and nothing else
            XCTAssertEqual(try checkedGraph(bundle, bundle.target.graph), graph)
            try assertFault("checksum") { _ = try checkedBytes(bundle, bundle.target.graph, most: 1 << 10) }
            try put(joined(place, "target/cpu/model.onnx.data"), [1])
            try assertFault("no_hash") { _ = try openBundle(place) }
        }
    }

    func testAFileThatWasWrittenInPlaceIsRefusedAndOneThatWasReplacedIsNot() throws {
        try inBundle { place in
            let bundle = try openBundle(place)
            let graph = try bundle.file(bundle.target.graph)
            try put(place + "-other", [1])
            XCTAssertEqual(rename(place + "-other", graph), 0)
            try refuseRewritten(bundle.places, bundle.stamps)
            XCTAssertEqual(unlink(graph), 0)
            try refuseRewritten(bundle.places, bundle.stamps)
            XCTAssertEqual(truncate(joined(place, bundle.vocabMap), 0), 0)
            try assertFault("checksum") { try refuseRewritten(bundle.places, bundle.stamps) }
        }
    }

    func testStampsHashNothingWhereNothingChanged() throws {
        try inBundle { place in
            let state = StateDirectory(root: place + "-state")
            let bundle = try openBundle(place, state: state)  // the files changed less than 3 s ago
            XCTAssertFalse(wasChecked(state, path: place, seal: bundle.seal, stamps: bundle.stamps))
            XCTAssert(rememberCheck(state, path: place, seal: bundle.seal, stamps: bundle.stamps, now: .max))
            XCTAssert(wasChecked(state, path: place, seal: bundle.seal, stamps: bundle.stamps))
            XCTAssertFalse(wasChecked(state, path: split(place).directory, seal: bundle.seal, stamps: bundle.stamps))
            XCTAssertEqual(try openBundle(place, verify: .stamp, state: state).stamps, bundle.stamps)
            let file = joined(place, bundle.vocabMap)
            try put(file, Array(try readFile(file, most: 1 << 10).reversed()))
            try assertFault("checksum") { _ = try openBundle(place, verify: .stamp, state: state) }
        }
    }

    func testCostsAreMeasuredOnceAndKept() throws {
        try inDirectory { place in
            let state = StateDirectory(root: joined(place, "state"))
            let here = thisMachine(onnxruntime: "1.23.0", threads: 2)
            XCTAssertEqual(try readMachine(here.asJson), here)
            let manifest = Costs(target: [1], draft: 0.5, host: 0, acceptance: 0.25)
            let measured = Costs(target: [0.1, 0.2], draft: 0.01, host: 0.001, acceptance: 0.9)
            var times = 0
            func costs(_ measure: Measure, _ state: StateDirectory = state) -> DeviceCosts {
                let seal = String(repeating: "5e", count: 32)
                return deviceCosts(state, seal: seal, costs: manifest, measuredOn: nil, here: here, measure: measure) {
                    times += 1
                    return measured
                }
            }
            XCTAssertEqual(costs(.never).source, .manifest)
            XCTAssertEqual(costs(.auto).source, .measured)
            let kept = costs(.auto)
            XCTAssertEqual(kept.source, .kept)
            // Acceptance is the pair's.
            XCTAssertEqual(kept.costs, Costs(target: [0.1, 0.2], draft: 0.01, host: 0.001, acceptance: 0.25))
            XCTAssertEqual(times, 1)
            XCTAssertEqual(costs(.always).source, .measured)
            XCTAssertEqual(costs(.auto, .none).source, .measured)
            XCTAssertEqual(chmod(joined(place, "state/costs"), 0o750), 0)  // others may read it, so it is not used
            XCTAssertEqual(costs(.auto).source, .measured)
        }
    }

    func testAnArchiveOfPythonIsUnpackedAsPythonDoes() throws {
        let (file, expected) = (try made("starter-a.zip"), try made("unpacked"))
        try inDirectory { place in
            let out = try installFile(file, into: joined(place, "out"))
            XCTAssertEqual(try treeOf(out), try treeOf(expected))
            XCTAssertEqual(namesIn(place), ["out"])
            let bundle = try openBundle(out)
            XCTAssertEqual(bundle.places.index, try openArchive(file).index)
            for entry in [bundle.target, bundle.drafter] {
                XCTAssertEqual(try checkedGraph(bundle, entry.graph), try bundle.file(entry.graph))
            }
            let need = memoryNeed(bundle)
            XCTAssertGreaterThan(need.total, memoryNeed(bundle, drafter: false).total)
        }
    }
}
