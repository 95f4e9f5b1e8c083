import Foundation

// Run the steps of a compiled tokenizer on a text: the normaliser, then the pre-tokenizer, which cuts it
// (spec/02-tokenizer.md).

private let firstMark: UInt32 = 0x300  // the first code point that NFC changes or that changes the one before it
private let pageBits: UInt32 = 8
private let pageSize = 256
private let pageCount = 0x110000 >> 8

/// A value for each code point, computed for 256 of them at once when the first is asked for. One thread uses it.
final class PointTable<Value> {
    private var pages: [[Value]?]
    private let compute: (UInt32) -> Value

    init(_ compute: @escaping (UInt32) -> Value) {
        self.compute = compute
        pages = [[Value]?](repeating: nil, count: pageCount)
    }

    subscript(_ point: UInt32) -> Value {
        let number = Int(point >> pageBits)
        if let page = pages[number] { return page[Int(point) & (pageSize - 1)] }
        let first = point & ~UInt32(pageSize - 1)
        let page = (0..<UInt32(pageSize)).map { compute(first + $0) }
        pages[number] = page
        return page[Int(point) & (pageSize - 1)]
    }
}

/// The classes of a code point, a bit each, looked up in the ranges of the file.
func classMask(_ ranges: IntTable, _ masks: LongTable, _ point: UInt32) -> UInt64 {
    let low = firstIndex(in: 0..<ranges.count) { UInt32(bitPattern: ranges[$0]) <= point }
    return masks[low - 1]
}

/// The GPT-2 byte alphabet: a printable letter, as a code point, for each of the 256 bytes.
let byteLetters: [UInt32] = {
    var unprintable: UInt32 = 0x100
    return (0..<UInt32(0x100)).map { byte in
        if (0x21...0x7e).contains(byte) || (0xa1...0xac).contains(byte) || (0xae...0xff).contains(byte) { return byte }
        defer { unprintable += 1 }
        return unprintable
    }
}()

/// The byte of a letter of the alphabet; nil for what is no letter of it.
func byteOf(_ letter: UInt32) -> UInt8? {
    letter < 0x200 && letterBytes[Int(letter)] >= 0 ? UInt8(letterBytes[Int(letter)]) : nil
}

private let letterBytes: [Int] = {
    var bytes = [Int](repeating: -1, count: 0x200)
    for (byte, letter) in byteLetters.enumerated() { bytes[Int(letter)] = byte }
    return bytes
}()

/// Runs steps on texts with the classes of code points that were looked up before. One thread uses it.
struct TextStepRunner {
    let steps: [TextStep]
    let masks: PointTable<UInt64>

    func normalise(_ text: [UInt32]) -> [UInt32] {
        var points = text
        for step in steps {
            switch step.op {
            case .nfc: points = nfc(points, UInt64(1) << UInt64(step.codeClass))
            case .prepend: points = points.isEmpty ? points : step.strings[0] + points
            case .replace: points = replaced(points[...], step.strings[0], step.strings[1])
            case .replaceMatches: points = matchesReplaced(step, points)
            default: return points
            }
        }
        return points
    }

    /// Runs the steps of the pre-tokenizer on a normalised text.
    func words(_ text: [UInt32], atStart: Bool) -> [ArraySlice<UInt32>] {
        var words = text.isEmpty ? [] : [text[...]]
        for step in steps where !step.op.isNormaliser {
            switch step.op {
            case .split: words = words.flatMap { split(step, $0) }
            case .substitute: words = words.map { replaced($0, step.strings[0], step.strings[1])[...] }
            case .bytes: words = words.map { utf8($0).map { byteLetters[Int($0)] }[...] }
            case .prefix: words = words.map { prefixed($0, step.strings[0]) }
            default: if atStart, let first = words.first { words[0] = prefixed(first, step.strings[0]) }
            }
        }
        return words
    }

    /// NFC of each run of code points of a class; all others stay as they are.
    ///
    /// Outside the class are the code points that the writer's Unicode version did not know. A newer version of the
    /// platform would reorder or compose some of them.
    private func nfc(_ points: [UInt32], _ bit: UInt64) -> [UInt32] {
        if points.allSatisfy({ $0 < firstMark }) { return points }
        var done: [UInt32] = []
        var run = String.UnicodeScalarView()
        func endRun() {
            if run.isEmpty { return }
            done += String(run).precomposedStringWithCanonicalMapping.unicodeScalars.map(\.value)
            run = String.UnicodeScalarView()
        }
        for point in points {
            if masks[point] & bit != 0, let scalar = Unicode.Scalar(point) {
                run.append(scalar)
            } else {
                endRun()
                done.append(point)
            }
        }
        endRun()
        return done
    }

    private func matchesReplaced(_ step: TextStep, _ points: [UInt32]) -> [UInt32] {
        parts(step, points[...]).flatMap { $0.isMatch ? step.strings[0] : Array($0.part) }
    }

    /// The matches of the step's program, and the text between them, in order.
    private func parts(_ step: TextStep, _ word: ArraySlice<UInt32>) -> [(part: ArraySlice<UInt32>, isMatch: Bool)] {
        guard let program = step.program else { return [(word, false)] }
        var parts: [(ArraySlice<UInt32>, Bool)] = []
        var last = word.startIndex
        for match in matches(program, word.map { masks[$0] }) {
            let (start, end) = (word.startIndex + match.lowerBound, word.startIndex + match.upperBound)
            if last < start { parts.append((word[last..<start], false)) }
            parts.append((word[start..<end], true))
            last = end
        }
        if last < word.endIndex { parts.append((word[last...], false)) }
        return parts
    }

    /// Cuts a word. Parts follow one another, so parts that are joined are a range again.
    private func split(_ step: TextStep, _ word: ArraySlice<UInt32>) -> [ArraySlice<UInt32>] {
        let parts = parts(step, word).map { (part: $0.part, isMatch: $0.isMatch != step.invert) }
        var words: [ArraySlice<UInt32>] = []
        var start = word.startIndex
        for (index, each) in parts.enumerated() {
            // A part goes on where the next one is joined to it.
            if index + 1 < parts.count, joins(step.behaviour, each.isMatch, parts[index + 1].isMatch) { continue }
            if !(step.behaviour == .removed && each.isMatch) { words.append(word[start..<each.part.endIndex]) }
            start = each.part.endIndex
        }
        return words
    }
}

/// Whether a part is joined to the part behind it.
private func joins(_ behaviour: SplitBehaviour, _ isMatch: Bool, _ nextIsMatch: Bool) -> Bool {
    switch behaviour {
    case .contiguous: return isMatch == nextIsMatch
    case .mergedWithPrevious: return !isMatch && nextIsMatch
    case .mergedWithNext: return isMatch && !nextIsMatch
    case .removed, .isolated: return false
    }
}

private func prefixed(_ word: ArraySlice<UInt32>, _ prefix: [UInt32]) -> ArraySlice<UInt32> {
    word.starts(with: prefix) ? word : (prefix + word)[...]
}

/// A text with each `old`, which is not empty, replaced from left to right.
private func replaced(_ points: ArraySlice<UInt32>, _ old: [UInt32], _ new: [UInt32]) -> [UInt32] {
    var result: [UInt32] = []
    result.reserveCapacity(points.count)
    var at = points.startIndex
    while at < points.endIndex {
        if points[at] == old[0] && points[at...].starts(with: old) {
            result += new
            at += old.count
        } else {
            result.append(points[at])
            at += 1
        }
    }
    return result
}
