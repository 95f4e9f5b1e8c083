@testable import OmniDraft

extension Logits {
    /// A copy of a row; the pointer of `row` may outlive the logits where nothing else keeps them.
    func numbers(_ row: Int) -> [Float] { Array(UnsafeBufferPointer(start: self.row(row), count: width)) }
}
