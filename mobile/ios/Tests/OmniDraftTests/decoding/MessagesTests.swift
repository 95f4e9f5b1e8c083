import XCTest

@testable import OmniDraft

/// Lists of messages as programs give them.
final class MessagesTests: XCTestCase {
    private typealias Message = (role: String, content: String)

    private func said(_ text: String) -> Message { ("user", text) }
    private func answered(_ text: String) -> Message { ("assistant", text) }

    /// What a refusal of `body` says.
    private func refusal(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch OmniDraftError.prompt(let refusal) {
            return refusal.message
        } catch {
            return nil
        }
    }

    func testAConversationIsRead() throws {
        let turns = [said("a"), answered("b"), said("c"), answered(""), said("d")]
        let due = [GivenTurn(message: "a", answer: "b"), GivenTurn(message: "c", answer: "")]
        XCTAssertEqual(try readMessages(turns), MessageList(system: nil, turns: due, message: "d"))
        let whole = try readMessages([("system", "s")] + turns)
        XCTAssertEqual(whole, MessageList(system: "s", turns: due, message: "d"))
        XCTAssertEqual(try readMessages([said("a")]), MessageList(system: nil, turns: [], message: "a"))
    }

    func testAnotherOrderIsRefused() {
        let system: Message = ("system", "s")
        let lists = [
            [], [system], [answered("a")], [said("a"), said("b")], [said("a"), answered("b")],
            [said("a"), system, said("b")], [system, system, said("a")], [("tool", "a")],
        ]
        for messages in lists { XCTAssertNotNil(refusal { _ = try readMessages(messages) }, "\(messages)") }
    }

    func testTheMessageNamesTheFirstWrongRole() {
        let message = refusal { _ = try readMessages([("system", "s"), answered("a")]) }
        XCTAssertEqual(message?.contains("message 2 has the role assistant"), true, message ?? "it was read")
    }

    func testTextsWithoutLettersAreRefused() throws {
        for text in ["", " \n", "\r\n", "\u{a0}\u{3000}\u{2003}", "\u{1c}\u{85}"] {
            XCTAssertNotNil(refusal { _ = try checkedText(text) })
            XCTAssertNotNil(refusal { _ = try readMessages([said(text)]) })
        }
        XCTAssertEqual(try checkedText(" a "), " a ")
        XCTAssertEqual(try checkedText("\u{200b}"), "\u{200b}", "a zero-width space is no white space")
    }

    func testTooMuchIsRefused() throws {
        let most = String(repeating: "a", count: maxContent)
        XCTAssertEqual(try checkedText(most).utf8.count, maxContent)
        XCTAssertNotNil(refusal { _ = try checkedText(most + "a") })
        XCTAssertNotNil(refusal { _ = try checkedText(String(repeating: "\u{e9}", count: maxContent / 2 + 1)) })
        let many = (0...maxMessages).map { $0 % 2 == 0 ? said("a") : answered("b") }
        XCTAssertNotNil(refusal { _ = try readMessages(many) })
    }
}
