// The one checkpoint file of learners: named arrays and JSON metadata in a safetensors file.

private let lengthBytes = 8
private let maxHeaderBytes = 1 << 22
private let maxFileBytes = 1 << 30

/// A kind of state file.
struct StateFormat: Sendable {
    /// Written into the file; a file with another name is refused.
    let name: String
    let version: String
    /// What goes on from the file, as the refusal says it: "learning".
    let task: String
    /// Of a file that is refused.
    var remedy = "delete it or name another file"

    /// Replace the file. A kill at any moment leaves the old file or the new one, whole.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the file cannot be written; an old one is whole.
    func write(_ file: String, _ arrays: Arrays, _ metadata: JsonObject) throws {
        do {
            var texts = JsonObject()
            for (name, value) in metadata.members {
                texts[name] = .string(String(decoding: try stateJson(value), as: UTF8.self))
            }
            texts["format"] = .string(name)
            texts["version"] = .string(version)
            try writeAtomically(file, encodeState(arrays, texts))
        } catch {
            throw settingError("\(file) cannot be written (\(reason(error)))", "make room or give another place")
        }
    }

    /// The arrays and the metadata. Memory is that of the file, which is bounded.
    ///
    /// - Throws: ``OmniDraftError/setting(_:)``: the file cannot be read, or has another format.
    func read(_ file: String) throws -> (arrays: Arrays, metadata: JsonObject) {
        let data = try bytesOf(file)
        let header = try headerOf(file, data)
        do {
            var arrays = Arrays()
            for (name, tensor) in try readTensors(data, entries: header.entries, start: header.start) {
                arrays[name] = try arrayOf(name, tensor)
            }
            return (arrays, try metadataOf(file, header))
        } catch let error as ValueError {
            throw unreadable(file, error)
        }
    }

    /// The error of a file from which nothing can go on; `why` is the verb of the sentence.
    func refusal(_ file: String, _ why: String) -> OmniDraftError {
        settingError("\(file) \(why), so \(task) cannot go on from it", remedy)
    }

    private func bytesOf(_ file: String) throws -> Bytes {
        do {
            return Bytes(try readFile(file, most: maxFileBytes))
        } catch let error as FileError {
            throw unreadable(file, error)
        }
    }

    private func headerOf(_ file: String, _ data: Bytes) throws -> TensorHeader {
        let header: TensorHeader
        do {
            header = try readTensorHeader(data, most: maxHeaderBytes)
        } catch let error as ValueError {
            throw unreadable(file, error)
        }
        func text(_ name: String) -> String { header.metadata.first { isSame($0.name, name) }?.value ?? "" }
        let (format, version) = (text("format"), text("version"))
        if !isSame(format, name) || !isSame(version, self.version) {
            throw refusal(file, "is '\(format.prefix(80))' version '\(version.prefix(20))'")
        }
        return header
    }

    private func metadataOf(_ file: String, _ header: TensorHeader) throws -> JsonObject {
        var values = JsonObject()
        for (name, text) in header.metadata where !isSame(name, "format") && !isSame(name, "version") {
            do {
                values[name] = try parseJson(Array(text.utf8))
            } catch let error as ValueError {
                throw refusal(file, "has no readable \(name.prefix(80)) (\(error.message))")
            }
        }
        return values
    }

    private func unreadable(_ file: String, _ error: any Error) -> OmniDraftError {
        refusal(file, "cannot be read (\(reason(error)))")
    }
}

/// The bytes of a file; larger values come first, so that each begins at a multiple of its size.
///
/// - Throws: ``ValueError``: the header has no form in JSON.
func encodeState(_ arrays: Arrays, _ metadata: JsonObject) throws -> [UInt8] {
    let order = arrays.members.sorted { a, b in
        let (ours, theirs) = (a.value.valueBytes, b.value.valueBytes)
        return ours == theirs ? precedes(a.name, b.name) : ours > theirs
    }
    var header: JsonObject = ["__metadata__": .object(metadata)]
    var end = 0
    for (name, array) in order {
        let offsets: [JsonValue] = [.int(end), .int(end + array.byteCount)]
        header[name] = [
            "dtype": .string(array.type), "shape": .array(array.shape.map(JsonValue.int)),
            "data_offsets": .array(offsets),
        ]
        end += array.byteCount
    }
    let text = try dumpJson(.object(header))
    let length = (text.count + 7) / lengthBytes * lengthBytes
    let out = ByteWriter().u64(UInt64(length)).put(text).put(
        repeatElement(UInt8(ascii: " "), count: length - text.count))
    for (_, array) in order { array.put(out) }
    return out.bytes
}

/// A JSON text that may hold numbers with a fraction; only this library and the Python runtime read it.
///
/// - Throws: ``ValueError``: a number that is not finite has no form in JSON.
func stateJson(_ value: JsonValue) throws -> [UInt8] {
    switch value {
    case .double(let number):
        if !number.isFinite { throw ValueError("\(number) has no form in JSON") }
        return Array(number.description.utf8)
    case .array(let items):
        return [UInt8(ascii: "[")] + separated(try items.map(stateJson)) + [UInt8(ascii: "]")]
    case .object(let object):
        let members = try object.members.map {
            try dumpJson(.string($0.name)) + [UInt8(ascii: ":")] + stateJson($0.value)
        }
        return [UInt8(ascii: "{")] + separated(members) + [UInt8(ascii: "}")]
    default: return try dumpJson(value)
    }
}

private func separated(_ texts: [[UInt8]]) -> [UInt8] { Array(texts.joined(separator: [UInt8(ascii: ",")])) }

private func arrayOf(_ name: String, _ tensor: Tensor) throws -> TypedArray {
    switch tensor.dtype {
    case "F32": return TypedArray(numbers(tensor.data, Float.self), shape: tensor.shape)
    case "I64": return TypedArray(numbers(tensor.data, Int64.self), shape: tensor.shape)
    case "U8": return TypedArray(tensor.data.array(), shape: tensor.shape)
    default: throw ValueError("\(quoted(.string(name))) has type '\(tensor.dtype)'")
    }
}

/// The numbers of a tensor, which are little-endian as those of every machine that the library runs on.
private func numbers<T: BitwiseCopyable>(_ data: Bytes, _ type: T.Type) -> [T] {
    let count = data.count / MemoryLayout<T>.size
    return [T](unsafeUninitializedCapacity: count) { buffer, filled in
        data.withUnsafeBytes { UnsafeMutableRawBufferPointer(buffer).copyMemory(from: $0) }
        filled = count
    }
}
