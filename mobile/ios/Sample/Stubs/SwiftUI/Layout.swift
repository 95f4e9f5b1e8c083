// Views that hold others.

public struct HorizontalAlignment: Equatable, Sendable {
    public static let leading = HorizontalAlignment()
    public static let center = HorizontalAlignment()
}

public struct VerticalAlignment: Equatable, Sendable {
    public static let center = VerticalAlignment()
}

public struct Alignment: Equatable, Sendable {
    public static let leading = Alignment()
    public static let center = Alignment()
}

public struct Axis: Sendable {
    public static let horizontal = Axis()
    public static let vertical = Axis()

    public struct Set: OptionSet, Sendable {
        public let rawValue: Int8
        public init(rawValue: Int8) { self.rawValue = rawValue }
        public static let horizontal = Set(rawValue: 1)
        public static let vertical = Set(rawValue: 2)
    }
}

public struct UnitPoint: Hashable, Sendable {
    public static let bottom = UnitPoint()
}

public struct VStack<Content: View>: SystemView {
    public nonisolated init(
        alignment: HorizontalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content
    ) { notHere() }
}

public struct LazyVStack<Content: View>: SystemView {
    public nonisolated init(
        alignment: HorizontalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content
    ) { notHere() }
}

public struct HStack<Content: View>: SystemView {
    public nonisolated init(
        alignment: VerticalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content
    ) { notHere() }
}

public struct ScrollView<Content: View>: SystemView {
    public nonisolated init(
        _ axes: Axis.Set = .vertical, showsIndicators: Bool = true, @ViewBuilder content: () -> Content
    ) { notHere() }
}

public struct Spacer: SystemView {
    public nonisolated init(minLength: CGFloat? = nil) {}
}

public struct Menu<Label: View, Content: View>: SystemView {}

extension Menu where Label == Text {
    public nonisolated init(_ titleKey: LocalizedStringKey, @ViewBuilder content: () -> Content) { notHere() }
}
