import SwiftUI

/// The app holds the model, so that it outlives the views of a rotation, and work in the background has it, too.
@main
struct SampleApp: App {
    @State private var model: ScreenModel
    @Environment(\.scenePhase) private var scenePhase
    private let signals: DeviceSignals

    init() {
        let model = ScreenModel(LibraryEngine.ofApp())
        _model = State(initialValue: model)
        signals = DeviceSignals(model)
        IdleLearning.register(model)
    }

    var body: some Scene {
        WindowGroup {
            ContentView(model: model)
        }
        .onChange(of: scenePhase) { _, phase in
            guard phase == .background else { return }
            TimeToSave.leave(model)
            IdleLearning.schedule(model)
        }
    }
}
