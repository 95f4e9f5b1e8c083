import Foundation

/// What is wrong, and what to do about it; one family for all refusals (spec/08-phones.md, Errors).
public struct Refusal: Sendable, Equatable {
    /// The name of what is wrong with a file, the same in every language; empty where a chapter names none.
    public let fault: String
    /// What is wrong, with the offending value: one sentence without its full stop.
    public let message: String
    /// What to do about it; empty where the message says it.
    public let remedy: String

    /// A refusal; what is not printable in its texts is written as an escape.
    public init(fault: String = "", message: String, remedy: String = "") {
        self.fault = fault
        self.message = shown(message)
        self.remedy = shown(remedy)
    }
}

/// Every refusal that an app can meet. A bug is not a member of this family.
public enum OmniDraftError: Error, Sendable, Equatable {
    /// A bundle whose manifest, files or hashes are not what they must be (spec/03-bundle.md).
    case bundle(Refusal)
    /// An archive of a bundle that is refused, or cannot be unpacked (spec/16-archive.md).
    case archive(Refusal)
    /// A bundle that is not signed with the key that was given (spec/10-signing.md).
    case signature(Refusal)
    /// A tokenizer that is absent or of a kind whose bytes cannot be read (spec/02-tokenizer.md).
    case tokenizer(Refusal)
    /// A vocabulary map that does not fit the two models that it is used with (spec/03-bundle.md).
    case vocabMap(Refusal)
    /// An n-gram cache file that is refused (spec/06-ngram-cache.md).
    case cacheFile(Refusal)
    /// A session file that is refused, or cannot be written (spec/09-session.md).
    case sessionFile(Refusal)
    /// A LoRA adapter that is refused, or cannot be written (spec/11-adapter.md).
    case adapter(Refusal)
    /// A trace that is refused, or a place where none can be recorded (spec/12-trace.md).
    case traceFile(Refusal)
    /// A store that cannot be used, or a release that is refused (spec/15-sync.md).
    case sync(Refusal)
    /// A prompt that is empty, not a text, or longer than the context.
    case prompt(Refusal)
    /// A grammar file that is refused, or a grammar of which no text can be written here (spec/17-grammar.md).
    case grammar(Refusal)
    /// A setting outside its range.
    case setting(Refusal)
    /// A session that cannot do what was asked now.
    case session(Refusal)

    /// What is wrong, and what to do about it.
    public var refusal: Refusal {
        switch self {
        case .bundle(let refusal), .archive(let refusal), .signature(let refusal), .tokenizer(let refusal),
            .vocabMap(let refusal), .cacheFile(let refusal), .sessionFile(let refusal), .adapter(let refusal),
            .traceFile(let refusal), .sync(let refusal), .prompt(let refusal), .grammar(let refusal),
            .setting(let refusal), .session(let refusal):
            return refusal
        }
    }

    /// The name of the fault; see ``Refusal/fault``.
    public var fault: String { refusal.fault }
}

extension OmniDraftError: CustomStringConvertible {
    /// The message, then the remedy: one line for a log or an alert.
    public var description: String {
        let refusal = refusal
        return refusal.remedy.isEmpty ? refusal.message : "\(refusal.message); \(refusal.remedy)"
    }
}

extension OmniDraftError: LocalizedError {
    /// The same line, so that `localizedDescription` and an alert of SwiftUI say it; in English.
    public var errorDescription: String? { description }
}

/// A value from outside that is not what it must be; the reader of a file turns it into a refusal of that file.
struct ValueError: Error, Equatable {
    let message: String
    /// The name of the fault where the reader knows it.
    let fault: String

    init(_ message: String, fault: String = "") {
        self.message = message
        self.fault = fault
    }
}

/// A file or directory that the system does not give; the message ends a sentence that begins with "because".
struct FileError: Error, Equatable {
    let message: String
    let isAbsent: Bool

    init(_ message: String, isAbsent: Bool = false) {
        self.message = message
        self.isAbsent = isAbsent
    }
}

func settingError(_ message: String, _ remedy: String = "") -> OmniDraftError {
    .setting(Refusal(message: message, remedy: remedy))
}

/// Runs `work`; an error of the system becomes a refusal, which gets what the system says.
func onFileError<T>(of work: @autoclosure () throws -> T, refusal: (String) -> OmniDraftError) throws -> T {
    do { return try work() } catch let error as FileError { throw refusal(reason(error)) }
}

/// What an error says: at most 200 characters, without a full stop at its end.
func reason(_ error: any Error) -> String {
    let text: String
    switch error {
    case let error as ValueError: text = error.message
    case let error as FileError: text = error.message
    case let error as OmniDraftError: text = error.refusal.message
    default: text = String(describing: error)
    }
    let line = text.split(whereSeparator: \.isNewline).first.map(String.init) ?? "no reason given"
    var short = String(line.prefix(200))
    while let last = short.last, last == "." || last == " " { short.removeLast() }
    return short
}

/// Text of any origin for a log: what is not printable is written as its escape, so that a name in a file cannot move a
/// cursor or begin a new line.
func shown(_ text: String) -> String {
    if !text.unicodeScalars.contains(where: isHidden) { return text }
    var out = ""
    for scalar in text.unicodeScalars {
        if isHidden(scalar) {
            out += "\\u{\(String(scalar.value, radix: 16))}"
        } else {
            out.unicodeScalars.append(scalar)
        }
    }
    return out
}

private func isHidden(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: return true
    default: return false
    }
}

/// A number before its noun, as `1 step`, `2 steps` or `1,024 steps`; `what` is the singular.
func counted(_ number: Int, _ what: String) -> String { "\(grouped(number)) \(what)\(number == 1 ? "" : "s")" }

/// A number with commas between its thousands.
func grouped(_ number: Int) -> String {
    var out = ""
    let digits = String(number.magnitude)
    for (index, digit) in digits.enumerated() {
        if index > 0 && (digits.count - index) % 3 == 0 { out.append(",") }
        out.append(digit)
    }
    return number < 0 ? "-" + out : out
}
