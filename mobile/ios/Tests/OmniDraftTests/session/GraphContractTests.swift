import OmniDraftORT
import XCTest

@testable import OmniDraft

/// Graphs against their manifest, and runs of graphs.
final class GraphContractTests: XCTestCase {
    private static let loaded = Result { try StarterBundles.load("a") }
    private let file = "\(vectorRoot)/generate/target.onnx"
    private let width = 13

    private func kv(
        layers: Int = 1, heads: Int = 1, size: Int = 1, length: Int = 64
    ) -> KvShape { KvShape(numLayers: layers, numKvHeads: heads, headDim: size, maxLength: length) }

    private func graph(_ kv: KvShape, width: Int = 13, file: String? = nil) throws -> Graph {
        try Graph(OrtEngine.shared(), path: file ?? self.file, kv: kv, vocabSize: width)
    }

    func testAGraphThatDoesNotFitIsRefused() throws {
        _ = try graph(kv())
        for (shape, width) in [(kv(layers: 2), 13), (kv(heads: 2), 13), (kv(size: 2), 13), (kv(), 14)] {
            XCTAssertEqual(try faultOf { _ = try graph(shape, width: width) }, "graph")
        }
        var half = kv()
        half.type = .float16
        XCTAssertEqual(try faultOf { _ = try graph(half) }, "graph")
        XCTAssertEqual(try faultOf { _ = try graph(kv(), file: "\(vectorRoot)/manifest.json") }, "graph")
    }

    func testAdaptersOfTheManifestMustBeInTheGraph() throws {
        let bundle = try Self.loaded.get().bundle
        let graph = try graph(kv())
        try graph.check(nil)
        XCTAssertNotNil(bundle.drafter.lora)
        XCTAssertEqual(try faultOf { try graph.check(bundle.drafter.lora) }, "graph")
    }

    /// A model begins without an adapter, and is fed its zeros.
    func testAGraphOfAFixedRankRunsWithoutAnAdapter() throws {
        let site = Site(inputs: 9, parts: [Site.Part(name: "o", width: 9)])
        let lora = LoraSites(rank: 4, sites: ByName([("layers.0.o", site)]))
        func tensors(_ value: Float) -> [(name: String, tensor: Tensor)] {
            noAdapter(lora).members.map { each in
                let (shape, count) = (each.value.shape, each.value.values.count)
                let filled = FloatTensor(shape: shape, values: [Float](repeating: value, count: count))
                return (name: each.name, tensor: tensorOf(filled))
            }
        }
        func scored(_ model: OrtModel) throws -> [[Float]] {
            model.rewind(0)
            let logits = try model.score([1, 2, 3], numLogits: nil)
            return (0..<logits.rows).map(logits.numbers)
        }
        let plain = try scored(OrtModel(graph(kv(), width: 9, file: "\(vectorRoot)/generate/drafter.onnx")))
        let fixed = try graph(kv(), width: 9, file: "\(vectorRoot)/generate/fixed_rank.onnx")
        try fixed.check(lora)
        let model = try OrtModel(fixed)
        XCTAssertEqual(try scored(model), plain)
        try model.useAdapter(tensors(1))
        XCTAssertNotEqual(try scored(model), plain)
        try model.useAdapter(tensors(0))
        XCTAssertEqual(try scored(model), plain)
    }

    func testInputsWithADefaultAreThoseOfTheManifest() throws {
        let bundle = try Self.loaded.get().bundle
        let drafter = bundle.drafter
        let graph = try Graph(
            OrtEngine.shared(), path: bundle.file(drafter.graph), kv: drafter.kv, vocabSize: drafter.vocabSize)
        let own = Dictionary(
            uniqueKeysWithValues: (graph.session.inputs + graph.session.defaults).map { ($0.name, $0) })
        let named = adapterValues(drafter.lora)
        XCTAssertEqual(named.count, 16)  // two of each of the eight places
        for value in named { XCTAssertEqual(own[value.name]?.type, value.type, value.name) }
        XCTAssertNotNil(own["input_ids"])
    }

    func testARunThatNobodyCancelledIsRepeated() throws {
        let model = try OrtModel(graph(kv()))
        func row(_ ids: [Int32]) throws -> [Float] {
            try model.score(ids, numLogits: 1).numbers(0)
        }
        let first = try row([1, 2, 3])
        model.rewind(0)
        model.interrupt()  // the next run ends, and is repeated
        var asked = 0
        model.cancelled = {
            asked += 1
            return asked > 100
        }
        XCTAssertEqual(try row([1, 2, 3]), first)
        XCTAssertGreaterThanOrEqual(asked, 1)
        model.cancelled = { true }
        XCTAssertThrowsError(try model.score([4], numLogits: nil)) { XCTAssert($0 is Cancelled) }
        XCTAssertEqual(model.length, 3)
    }

    func testLogitsOfLongPassesAreThoseOfShortOnes() throws {
        let graph = try graph(kv(length: 200))
        let ids = (0..<Int32(150)).map { $0 * 7 % Int32(width) }
        func rows(_ logits: Logits) -> [[Float]] {
            (0..<logits.rows).map(logits.numbers)
        }
        let whole = rows(try OrtModel(graph).score(ids, numLogits: nil))
        let model = try OrtModel(graph)
        for (number, id) in ids.enumerated() {
            XCTAssertEqual(rows(try model.score([id], numLogits: nil)), [whole[number]], "row \(number)")
        }
        model.rewind(0)
        XCTAssertEqual(rows(try model.score(ids, numLogits: 1)), [whole[whole.count - 1]])
        XCTAssertEqual(model.length, 150)
    }
}

extension Logits {
    /// A copy of a row; the pointer of `row` may outlive the logits where nothing else keeps them.
    func numbers(_ row: Int) -> [Float] { Array(UnsafeBufferPointer(start: self.row(row), count: width)) }
}
