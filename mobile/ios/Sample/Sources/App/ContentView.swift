import SwiftUI

private let studySeconds = 30.0

/// The one screen: it shows the model's state, and tells the model what the user does.
struct ContentView: View {
    let model: ScreenModel

    var body: some View {
        VStack(alignment: .leading, spacing: 8) {
            BundleBar(model: model)
            StatusView(model: model)
            ConversationView(turns: model.turns)
            MessageBar(model: model)
            LearningBar(model: model)
            BenchmarkBar(model: model)
        }
        .padding()
    }
}

/// Speed, acceptance, progress, and what the library says.
struct StatusView: View {
    let model: ScreenModel

    var body: some View {
        Text(model.status)
            .font(.footnote)
            .monospacedDigit()
        Sparkline(values: model.acceptance)
            .stroke(Color.green, lineWidth: 2)
            .frame(height: 32)
            .accessibilityLabel("Acceptance of the last rounds")
        if model.phase == .opening {
            if let progress = model.progress {
                ProgressView(value: progress)
            } else {
                ProgressView()
            }
        }
        if !model.notice.isEmpty {
            Text(model.notice)
                .font(.footnote)
                .italic()
        }
    }
}

/// What the user writes, and how it is answered.
struct MessageBar: View {
    @Bindable var model: ScreenModel

    var body: some View {
        TextField("Message", text: $model.message, axis: .vertical)
            .textFieldStyle(.roundedBorder)
            .lineLimit(4)
        HStack {
            Button("With drafts") { model.send(.speculative) }
                .disabled(!model.canSend)
            Button("Without") { model.send(.plain) }
                .disabled(!model.canSend)
            Spacer()
            Button("Cancel", role: .cancel) { model.cancel() }
                .disabled(model.phase != .answering)
        }
        .buttonStyle(.bordered)
    }
}

/// The learning switch, and what goes with it.
struct LearningBar: View {
    @Bindable var model: ScreenModel

    var body: some View {
        HStack {
            Toggle("Learn", isOn: $model.wantsLearning)
                .fixedSize()
            Button("Learn now") { model.learnNow(seconds: studySeconds) }
                .disabled(!model.isLearning)
            Button("Wipe", role: .destructive) { model.wipe() }
            if !model.hasDrafter {
                Button("Load drafter") { model.loadDrafter() }
            }
        }
        .buttonStyle(.bordered)
        .disabled(model.phase != .ready)
    }
}

/// The speed with and without drafts, as a line to share.
struct BenchmarkBar: View {
    let model: ScreenModel

    var body: some View {
        HStack {
            Button("Benchmark") { model.measure() }
                .disabled(model.phase != .ready)
            if let line = model.benchmark {
                ShareLink(item: line)
                Text(line)
                    .font(.footnote)
                    .lineLimit(2)
            }
        }
        .buttonStyle(.bordered)
    }
}
