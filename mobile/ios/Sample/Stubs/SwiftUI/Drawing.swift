// Shapes, colours and coloured text.

public protocol ShapeStyle: Sendable {}

public struct Color: Hashable, ShapeStyle, CustomStringConvertible {
    public static let green = Color(description: "green")
    public let description: String
    public func opacity(_ opacity: Double) -> Color { Color(description: "\(description) \(opacity)") }
}

extension ShapeStyle where Self == Color {
    public static var green: Color { Color.green }
}

/// The corners of lines, so that a test sees what a shape draws.
public struct Path: Equatable, Sendable {
    private var points: [CGPoint] = []
    public init() {}
    public var isEmpty: Bool { points.isEmpty }
    public var currentPoint: CGPoint? { points.last }
    public var boundingRect: CGRect {
        let (x, y) = (points.map(\.x), points.map(\.y))
        guard let left = x.min(), let right = x.max(), let top = y.min(), let bottom = y.max() else { return CGRect() }
        return CGRect(x: left, y: top, width: right - left, height: bottom - top)
    }
    public mutating func move(to end: CGPoint) { points.append(end) }
    public mutating func addLine(to end: CGPoint) { points.append(end) }
}

public protocol Shape: Sendable, View {
    nonisolated func path(in rect: CGRect) -> Path
}

extension Shape {
    public var body: Never { notHere() }
    public nonisolated func stroke<S: ShapeStyle>(_ content: S, lineWidth: CGFloat = 1) -> some View { EmptyView() }
}

extension AttributeScopes {
    public var swiftUI: SwiftUIAttributes.Type { SwiftUIAttributes.self }

    public struct SwiftUIAttributes: AttributeScope {
        public let backgroundColor: BackgroundColorAttribute

        public enum BackgroundColorAttribute: AttributedStringKey {
            public typealias Value = Color
            public static let name = "SwiftUI.BackgroundColor"
        }
    }
}

extension AttributeDynamicLookup {
    public subscript<T: AttributedStringKey>(
        dynamicMember keyPath: KeyPath<AttributeScopes.SwiftUIAttributes, T>
    ) -> T { self[T.self] }
}
