// Texts as arrays of code points. All rules of a tokenizer are on code points or bytes, never on Swift's characters.

func codePoints(_ text: String) -> [UInt32] { text.unicodeScalars.map(\.value) }

func utf8(_ points: some Sequence<UInt32>) -> [UInt8] {
    var data: [UInt8] = []
    for point in points {
        switch point {
        case 0..<0x80: data.append(UInt8(point))
        case 0x80..<0x800: data += [UInt8(0xc0 | point >> 6), trail(point)]
        case 0x800..<0x10000: data += [UInt8(0xe0 | point >> 12), trail(point >> 6), trail(point)]
        default: data += [UInt8(0xf0 | (point >> 18) & 7), trail(point >> 12), trail(point >> 6), trail(point)]
        }
    }
    return data
}

private func trail(_ point: UInt32) -> UInt8 { UInt8(0x80 | point & 0x3f) }

/// Bytes of the character of well-formed UTF-8 that begins at a place; 0 if none does.
func characterLength(_ data: [UInt8], _ at: Int) -> Int {
    let lead = data[at]
    let length: Int
    switch lead {
    case 0..<0x80: return 1
    case 0xc2...0xdf: length = 2
    case 0xe0...0xef: length = 3
    case 0xf0...0xf4: length = 4
    default: return 0
    }
    if at + length > data.count || !secondBytes(lead).contains(data[at + 1]) { return 0 }
    for index in 2..<max(2, length) where data[at + index] & 0xc0 != 0x80 { return 0 }
    return length
}

/// The bytes that may follow a first byte: no surrogates, nothing that a shorter form has, nothing above U+10FFFF.
private func secondBytes(_ lead: UInt8) -> ClosedRange<UInt8> {
    switch lead {
    case 0xe0: return 0xa0...0xbf
    case 0xed: return 0x80...0x9f
    case 0xf0: return 0x90...0xbf
    case 0xf4: return 0x80...0x8f
    default: return 0x80...0xbf
    }
}
