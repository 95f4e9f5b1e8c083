import SwiftUI

/// The conversation; a turn is drawn again only where its text changed.
struct ConversationView: View {
    let turns: [Turn]

    var body: some View {
        ScrollView {
            LazyVStack(alignment: .leading, spacing: 12) {
                ForEach(turns) { turn in
                    Text(turn.message)
                        .bold()
                    Text(tinted(turn.spans))
                        .textSelection(.enabled)
                }
            }
            .frame(maxWidth: .infinity, alignment: .leading)
        }
        .defaultScrollAnchor(.bottom)
    }
}

/// The text of rounds; the stronger its tint, the more of its tokens were drafted.
func tinted(_ spans: [Span]) -> AttributedString {
    var text = AttributedString()
    for span in spans {
        var part = AttributedString(span.text)
        if span.drafted > 0 { part.swiftUI.backgroundColor = Color.green.opacity(strongest * span.drafted) }
        text += part
    }
    return text
}

private let strongest = 0.45
