// A safetensors file, read strictly: spec/03-bundle.md, "safetensors". The caller knows the tensors.

private let lengthBytes = 8
private let most = (1 << 53) - 1

/// Bytes of a value of each type.
let tensorSizes: [String: Int] = [
    "BOOL": 1, "U8": 1, "I8": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8,
    "I64": 8, "F64": 8,
]

/// One tensor: its type, its sizes, and its bytes in row-major order, little-endian.
struct Tensor: Sendable {
    let dtype: String
    let shape: [Int]
    let data: Bytes
}

/// The metadata, the entries of the tensors, and the byte at which the tensors begin.
struct TensorHeader: Sendable {
    let metadata: [(name: String, value: String)]
    let entries: JsonObject
    let start: Int
}

/// The header of a file.
///
/// - Parameter most: bytes of the header at most.
/// - Throws: ``ValueError`` with the fault `truncated` or `header`.
func readTensorHeader(_ data: Bytes, most: Int) throws -> TensorHeader {
    if data.count < lengthBytes {
        throw ValueError("it has \(data.count) bytes and a header's length takes 8", fault: "truncated")
    }
    let length = data.u64(0)
    let isObject = data.count == lengthBytes || data[lengthBytes] == UInt8(ascii: "{")
    if length > UInt64(most) || !isObject { throw ValueError("it is not a safetensors file", fault: "header") }
    let start = lengthBytes + Int(length)
    if data.count < start { throw ValueError("it has \(data.count) bytes of a header of \(start)", fault: "truncated") }
    do {
        let fields = try mapping(parseJson(data.array(lengthBytes, start)))
        let metadata = try mapping(fields["__metadata__"] ?? [:])
        let entries = JsonObject(fields.members.filter { !isSame($0.name, "__metadata__") }.map { ($0.name, $0.value) })
        let texts = try metadata.members.map { (name: $0.name, value: try text($0.value)) }
        return TensorHeader(metadata: texts, entries: entries, start: start)
    } catch let error as ValueError {
        throw ValueError("it is not a safetensors file (\(error.message.prefix(80)))", fault: "header")
    }
}

/// The tensors of a file: one after another, without holes, to the end of the file.
///
/// - Parameter entries: the entries of the tensors, which the caller may have checked.
/// - Throws: ``ValueError`` with the fault `layout`, `truncated` or `trailing_bytes`.
func readTensors(_ data: Bytes, entries: JsonObject, start: Int) throws -> [(name: String, tensor: Tensor)] {
    var layout: [Entry]
    do {
        layout = try entries.members.map { try Entry($0.name, $0.value) }
    } catch let error as ValueError {
        throw ValueError(
            "its tensors are not laid out as in safetensors (\(error.message.prefix(80)))", fault: "layout")
    }
    layout.sort { ($0.begin, $0.end) < ($1.begin, $1.end) }
    var at = 0
    for each in layout {
        if each.begin != at {
            throw ValueError("'\(each.name)' begins at \(each.begin) and not at \(at)", fault: "layout")
        }
        at = each.end
    }
    if data.count < start + at { throw ValueError("it has \(data.count) bytes of \(start + at)", fault: "truncated") }
    if data.count > start + at {
        throw ValueError("it has \(data.count - start - at) bytes too many", fault: "trailing_bytes")
    }
    return layout.map {
        let data = data.part(start + $0.begin, start + $0.end)
        return (name: $0.name, tensor: Tensor(dtype: $0.dtype, shape: $0.shape, data: data))
    }
}

private struct Entry {
    let name: String
    let begin: Int
    let end: Int
    let dtype: String
    let shape: [Int]

    init(_ name: String, _ value: JsonValue) throws {
        let entry = try mapping(value)
        self.name = name
        dtype = try text(entry.at("dtype"))
        shape = try array(entry.at("shape"), most: 8).map { try integer($0, in: 0...most) }
        let offsets = try array(entry.at("data_offsets"), most: 2, least: 2).map { try integer($0, in: 0...most) }
        (begin, end) = (offsets[0], offsets[1])
        guard entry.count == 3, let size = tensorSizes[dtype] else {
            throw ValueError("'\(name)' is a tensor of type '\(dtype)' with \(entry.count) fields")
        }
        if end - begin != bytesOf(shape: shape, size) {
            throw ValueError("'\(name)' has \(end - begin) bytes and its shape another number")
        }
    }
}

/// Bytes of a shape; -1 if they are more than any file has. A zero size makes it 0, whatever the others are.
private func bytesOf(shape: [Int], _ size: Int) -> Int {
    if shape.contains(0) { return 0 }
    var product = size
    for each in shape {
        if each > most / product { return -1 }
        product *= each
    }
    return product
}
