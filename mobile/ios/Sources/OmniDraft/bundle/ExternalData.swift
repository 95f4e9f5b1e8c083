// The weight files that an ONNX graph names, and what no graph may hold, found before onnxruntime reads it
// (spec/03-bundle.md, "The weights of a graph").
//
// A graph is a protobuf message. Every message of onnx.proto that a graph may have is walked through, so that the number
// of its fields bounds the memory that a parser takes for it. Refused are loops, branches, functions and sparse tensors: a
// small graph with them can take any time and memory while it is loaded. So is what two parsers could read in two ways.
// Field numbers are those of onnx.proto.

private let mostFields = 1 << 19
private let mostNodes = 1 << 15
private let mostTensors = 1 << 15
private let mostUses = 1 << 12  // of a value, as an input of nodes
private let mostPlace = 4096  // bytes of a name; longer ones are in no manifest
private let mostVarint = 70  // bits of a number: 10 bytes of 7 bits
private let huge = 1 << 62  // stands for a number that 63 bits do not hold

private let inputField = 1  // of a node: the name of a value
private let operatorField = 4  // of a node: the name of its operator
private let keyField = 1  // of an entry of external data, and of a property of the model
private let valueField = 2
private let compiled = Array("EPContext".utf8)  // a node that names a file of compiled code
private let settings = Array("ort_config".utf8)  // a property that sets options of onnxruntime's session
private let keys = ["location", "offset", "length", "checksum"].map { Array($0.utf8) }  // of external data
private let ortMark = Array("ORTM".utf8)  // at byte 4 of a graph in .ort format

private enum FieldType {
    static let varint = 0
    static let fixed64 = 1
    static let message = 2
    static let fixed32 = 5
}

/// A kind of message; a plain one holds no message.
private enum Kind {
    case model, graph, node, attribute, tensor, value, type, tensorType, shape, annotation, property, plain, external

    /// What a refused field holds; nil for all other fields.
    func refused(_ field: Int) -> String? {
        switch (self, field) {
        case (.model, 20): return "training information"
        case (.model, 25): return "a function"
        case (.model, 26), (.node, 10): return "a configuration of devices"
        case (.graph, 15), (.attribute, 22), (.attribute, 23): return "a sparse tensor"
        case (.attribute, 6), (.attribute, 11): return "a graph inside a node"
        case (.type, 4), (.type, 5), (.type, 7), (.type, 8), (.type, 9): return "a value that is no tensor"
        default: return nil
        }
    }

    /// The kind of message in a field; nil for all fields that hold no message.
    func inside(_ field: Int) -> Kind? {
        switch (self, field) {
        case (.model, 7): return .graph
        case (.model, 8), (.graph, 16), (.node, 9), (.tensor, 3), (.tensor, 16): return .plain
        case (.model, 14): return .property
        case (.graph, 1): return .node
        case (.graph, 5), (.attribute, 5), (.attribute, 10): return .tensor
        case (.graph, 11), (.graph, 12), (.graph, 13): return .value
        case (.graph, 14): return .annotation
        case (.node, 5): return .attribute
        case (.attribute, 14), (.attribute, 15), (.value, 2): return .type
        case (.tensor, 13): return .external
        case (.value, 4), (.shape, 1), (.annotation, 2): return .plain
        case (.type, 1): return .tensorType
        case (.tensorType, 2): return .shape
        default: return nil
        }
    }
}

/// A walk through a graph: what it may still hold, and the places that were found.
///
/// Every place is compared with the end of its message before it is read, and no message ends behind the data.
private struct Walk {
    let data: UnsafeRawBufferPointer
    var places: [String] = []
    private var fields = mostFields
    private var nodes = mostNodes
    private var tensors = mostTensors
    private var uses: [[UInt8]: Int] = [:]  // of each value, as an input of nodes

    init(_ data: UnsafeRawBufferPointer) { self.data = data }

    /// A field that has a length: its number, its first byte, and the byte behind its last.
    private struct Field {
        let number: Int
        let start: Int
        let stop: Int
    }

    /// Reads one message. The depth is that of ``Kind/inside(_:)``.
    mutating func message(_ kind: Kind, _ start: Int, _ end: Int) throws {
        if kind == .external { return try entry(start, end) }
        if kind == .node { nodes -= 1 }
        if kind == .tensor { tensors -= 1 }
        if nodes < 0 || tensors < 0 {
            let most = nodes < 0 ? "\(mostNodes) nodes" : "\(mostTensors) tensors"
            throw ValueError("it has more than \(most)", fault: "graph")
        }
        var at = start
        while let field = try next(&at, end) {
            if let inside = kind.inside(field.number) {
                try message(inside, field.start, field.stop)
            } else if let refused = kind.refused(field.number) {
                throw ValueError("it holds \(refused)", fault: "graph")
            } else if kind == .node || kind == .property {
                try name(kind, field)
            }
        }
    }

    /// Looks at a text of a node, or of a property of the model.
    private mutating func name(_ kind: Kind, _ field: Field) throws {
        if kind == .property {
            if field.number == keyField && isText(field, settings) {
                throw ValueError("it sets options of the engine (ort_config)", fault: "graph")
            }
        } else if field.number == operatorField && isText(field, compiled) {
            throw ValueError("it holds compiled code (EPContext)", fault: "graph")
        } else if field.number == inputField && field.start < field.stop {
            let count = uses[Array(data[field.start..<field.stop]), default: 0] + 1
            if count > mostUses { throw ValueError("a value is used more than \(mostUses) times", fault: "graph") }
            uses[Array(data[field.start..<field.stop])] = count
        }
    }

    /// Reads a key and a value of external data, of which `location` names the file.
    private mutating func entry(_ start: Int, _ end: Int) throws {
        var names: [Field] = []
        var values: [Field] = []
        var at = start
        while let field = try next(&at, end) {
            if field.number == keyField && names.count < 2 { names.append(field) }
            if field.number == valueField && values.count < 2 { values.append(field) }
        }
        if names.count > 1 || values.count > 1 {
            throw ValueError("an entry of external data has two keys or values")
        }
        guard let name = names.first, let number = keys.firstIndex(where: { isText(name, $0) }) else {
            let key = names.first.map { String(decoding: data[$0.start..<min($0.stop, $0.start + 80)], as: UTF8.self) }
            throw ValueError("an entry of external data has the key \(quoted(.string(key ?? "")))")
        }
        if number == 0 {
            let place = try self.place(values.first)
            if !places.contains(where: { isSame($0, place) }) { places.append(place) }
        }
    }

    private func place(_ field: Field?) throws -> String {
        let count = field.map { $0.stop - $0.start } ?? 0
        let start = field?.start ?? 0
        let place = String(decoding: data[start..<(start + min(count, mostPlace))], as: UTF8.self)
        if count > mostPlace || !isFileName(place) {
            throw ValueError("its weights are in \(quoted(.string(place))), which is not a file of a bundle")
        }
        return place
    }

    private func isText(_ field: Field, _ text: [UInt8]) -> Bool { data[field.start..<field.stop].elementsEqual(text) }

    /// The next field that has a length; others are skipped. Nil at the end of the message.
    private mutating func next(_ at: inout Int, _ end: Int) throws -> Field? {
        while at < end {
            fields -= 1
            if fields < 0 { throw ValueError("it has more than \(mostFields) fields") }
            let tag = try short(&at, end)
            if tag < 8 { throw ValueError("a field has the number 0") }
            let size = try sizeOf(tag & 7, &at, end)
            if size > end - at { throw ValueError("a field is longer than its message") }
            let start = at
            at += size
            if tag & 7 == FieldType.message { return Field(number: tag >> 3, start: start, stop: at) }
        }
        return nil
    }

    /// Bytes of a field behind its number, or behind its length; `at` moves to the first of them.
    private func sizeOf(_ type: Int, _ at: inout Int, _ end: Int) throws -> Int {
        switch type {
        case FieldType.varint:
            _ = try varint(&at, end)
            return 0
        case FieldType.message: return try short(&at, end)
        case FieldType.fixed64: return 8
        case FieldType.fixed32: return 4
        default: throw ValueError("a field has the unknown type \(type)")
        }
    }

    /// A tag or a length: below 2^32, and in no more bytes than it needs.
    ///
    /// Parsers differ in the rest: some keep the lowest 32 bits, others refuse.
    private func short(_ at: inout Int, _ end: Int) throws -> Int {
        let start = at
        let value = try varint(&at, end)
        let isLong = at - start > 1 && value >> (7 * (at - start - 1)) == 0
        if value >= 1 << 32 || isLong {
            throw ValueError("a tag or a length is longer than it needs to be, or too large")
        }
        return value
    }

    /// A number; one that 62 bits do not hold keeps its lowest 3 bits and becomes larger than any file.
    private func varint(_ at: inout Int, _ end: Int) throws -> Int {
        var value = 0
        var shift = 0
        while at < end && shift < mostVarint {
            let byte = data[at]
            at += 1
            let bits = Int(byte & 0x7f)
            if shift < 56 { value |= bits << shift } else if bits != 0 { value = value & 7 | huge }
            if byte < 0x80 { return value }
            shift += 7
        }
        throw ValueError("a number has no end")
    }
}

/// Whether a text is a relative path of files: parts of `A-Za-z0-9._+-` that do not begin with `.`, with `/` between
/// them.
func isFileName(_ name: String) -> Bool {
    partsOf(path: name).allSatisfy { part in
        guard let first = part.utf8.first, first != UInt8(ascii: ".") else { return false }
        return part.utf8.allSatisfy { isLetterOrDigit($0) || "._+-".utf8.contains($0) }
    }
}

/// The files that the tensors of a graph are in: relative paths with `/` between parts, ascending.
///
/// - Parameter graph: the bytes of an ONNX file; they may be mapped.
func externalFiles(_ graph: Bytes) throws -> [String] {
    let isOrt = graph.count >= 8 && graph.array(4, 8) == ortMark
    if graph.count < 2 || isOrt { throw ValueError("it is no ONNX graph") }
    return try graph.withUnsafeBytes { data in
        var walk = Walk(data)
        try walk.message(.model, 0, data.count)
        return walk.places.sorted(by: precedes)
    }
}
