/// Names and values in the order of a file; a name occurs once. Names are compared by their bytes: Swift's own comparison of
/// texts takes canonically equivalent names as equal.
struct ByName<Value> {
    private(set) var members: [(name: String, value: Value)] = []
    private var places: [[UInt8]: Int] = [:]

    init() {}

    /// Names with values; a later value of a name takes the place of an earlier one.
    init(_ members: [(String, Value)]) {
        for (name, value) in members { self[name] = value }
    }

    var count: Int { members.count }
    var names: [String] { members.map(\.name) }
    var values: [Value] { members.map(\.value) }

    /// The value of a name; nil where there is none. A new name is put at the end; nil as a new value does nothing.
    subscript(_ name: String) -> Value? {
        get { places[Array(name.utf8)].map { members[$0].value } }
        set {
            guard let newValue else { return }
            let key = Array(name.utf8)
            if let place = places[key] {
                members[place].value = newValue
            } else {
                places[key] = members.count
                members.append((name, newValue))
            }
        }
    }

    func has(_ name: String) -> Bool { places[Array(name.utf8)] != nil }

    /// The members in the order of the bytes of their names.
    var sorted: [(name: String, value: Value)] { members.sorted { precedes($0.name, $1.name) } }
}

extension ByName: ExpressibleByDictionaryLiteral {
    init(dictionaryLiteral members: (String, Value)...) { self.init(members) }
}

extension ByName: Sendable where Value: Sendable {}

extension ByName: Equatable where Value: Equatable {
    /// The same names with the same values, in any order.
    static func == (a: ByName, b: ByName) -> Bool {
        a.count == b.count && a.members.allSatisfy { b[$0.name] == $0.value }
    }
}

/// Whether two texts have the same bytes.
func isSame(_ a: String, _ b: String) -> Bool { a.utf8.elementsEqual(b.utf8) }

func begins(_ text: String, with start: String) -> Bool { text.utf8.starts(with: start.utf8) }

/// Whether the bytes of a text come before those of another.
func precedes(_ a: String, _ b: String) -> Bool { a.utf8.lexicographicallyPrecedes(b.utf8) }

/// The parts of a path between its slashes, which are one more than the slashes.
func partsOf(path: String) -> [String] {
    let parts = path.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
    return parts.map { String(decoding: $0, as: UTF8.self) }
}

/// A text without its first bytes, which are ASCII.
func without(_ start: String, of text: String) -> String {
    String(decoding: text.utf8.dropFirst(start.utf8.count), as: UTF8.self)
}

/// The sum of sizes from a file, at most 2^53 - 1: a hostile file may name any sizes.
func cappedSum(_ sizes: some Sequence<Int>) -> Int { sizes.reduce(0) { min($0 + min($1, mostExact), mostExact) } }

/// The largest integer of a manifest: every binary64 below it is exact.
let mostExact = (1 << 53) - 1
