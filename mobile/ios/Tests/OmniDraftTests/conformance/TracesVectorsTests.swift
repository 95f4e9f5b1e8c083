import XCTest

@testable import OmniDraft

/// Runs `trace/...`: what a trace keeps of a row, good and bad files.
final class TracesVectorsTests: VectorTestCase {
    func testRows() throws {
        try run("trace/rows") { vector in
            if vector.input["numbers"] != nil { try halves(vector) } else { try row(vector) }
        }
    }

    private func halves(_ vector: Vector) throws {
        let numbers = vector.input["numbers"]!.floats
        let kept = numbers.withUnsafeBufferPointer {
            largestMasses($0.baseAddress!, numbers.count, total: 1, whole: 1, Defaults.traceTop)
        }
        let bits = kept.probabilities.map { String(hex64(UInt64(halfOf($0))).suffix(4)) }
        try same("float16", bits, vector.expected["float16"]!.strings)
    }

    private func row(_ vector: Vector) throws {
        let (logits, expected) = (vector.input["logits"]!.floats, vector.expected)
        let tracer = Tracer(try vectorMap(vector.input["map"]!.string))
        let row = try XCTUnwrap(tracer.row(Logits(logits, width: logits.count), 0))
        let (roots, unspelled) = tracer.roots(row)
        let surprisals = logits.indices.map { row.surprisal(Int32($0)) }
        try near("surprisals", surprisals, expected["surprisals"]!.nums, 1e-5)
        try near("unspelled", [unspelled], [expected["unspelled"]!.num], 1e-6)
        try check("distribution", row.largest(Defaults.traceTop), expected["distribution"]!.object)
        try check("roots", roots, expected["roots"]!.object)
    }

    private func check(_ what: String, _ kept: Masses, _ expected: JsonObject) throws {
        try same("ids of the \(what)", kept.ids, expected["ids"]!.int32s)
        let probabilities = expected["probabilities"]!.nums
        for (actual, given) in zip(kept.probabilities, probabilities) {
            try near("\(what)", [Double(actual)], [given], given / 2048)  // a rounding of float16
        }
        try near("the rest of the \(what)", [kept.rest], [expected["rest"]!.num], 1e-6)
    }

    func testValid() throws {
        try run("trace/valid") { vector in
            let file = vector.file(vector.input["file"]!.string)
            var segments: [TraceSegment] = []
            try readSegments(file) { _, segment in segments.append(segment) }
            try same("segments", segments.count, 1)
            let (segment, expected) = (segments[0], vector.expected["segment"]!.object)
            try same("the pair", segment.header.vocabularies, vocabulariesOf(expected))
            try same("the number", segment.header.number, UInt64(expected["number"]!.int))
            try same("the records", segment.generations(), recordsOf(expected))
            try same("torn", segment.torn, vector.expected["torn"]!.int)
            let data = try readFile(file, most: maxSegmentBytes)
            try same("the bytes written again", encodeSegment(segment), Array(data.dropLast(segment.torn)))
        }
    }

    func testInvalid() throws {
        try run("trace/invalid") { vector in
            let pair = try vector.input["map"]?.optional.map { Vocabularies(try vectorMap($0.string)) }
            let file = vector.file(vector.input["file"]!.string)
            let fault = try faultOf { try readTraces([file], pair) { _ in } }
            try same("the fault", fault, vector.expected["fault"]!.string)
        }
    }
}
