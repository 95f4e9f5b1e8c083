import SwiftUI

/// A line of numbers from 0 to 1, the newest at the right.
struct Sparkline: Shape {
    /// The oldest first.
    let values: [Double]

    func path(in rect: CGRect) -> Path {
        let step = rect.width / Double(most - 1)
        var path = Path()
        for (place, value) in values.suffix(most).reversed().enumerated() {
            let point = CGPoint(x: rect.maxX - Double(place) * step, y: rect.maxY - value * rect.height)
            if place == 0 { path.move(to: point) } else { path.addLine(to: point) }
        }
        return path
    }
}

private let most = 60
