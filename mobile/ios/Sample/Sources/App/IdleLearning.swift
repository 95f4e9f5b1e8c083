import BackgroundTasks

private let mostSeconds = 300.0  // of one task; the system ends it earlier where it takes the device back

/// Learning while the device is idle and charges. The system decides when; nothing is sent.
enum IdleLearning {
    /// The name of the task, which Info.plist permits.
    static let identifier = "io.omnidraft.sample.learn"

    /// Tells the system what to run; before the app has finished launching.
    static func register(_ model: ScreenModel) {
        BGTaskScheduler.shared.register(forTaskWithIdentifier: identifier, using: nil) { task in
            let given = GivenTask(task: task)
            let learning = Task { @MainActor in
                let isFinished = await model.learnInIdleTime(seconds: mostSeconds)
                schedule(model)
                given.task.setTaskCompleted(success: isFinished)
            }
            task.expirationHandler = { learning.cancel() }
        }
    }

    /// Asks for the next task, where the user switched learning on.
    @MainActor
    static func schedule(_ model: ScreenModel) {
        guard model.isLearning else { return }
        let request = BGProcessingTaskRequest(identifier: identifier)
        request.requiresExternalPower = true
        request.requiresNetworkConnectivity = false
        do {
            try BGTaskScheduler.shared.submit(request)
        } catch {
            model.say("there is no learning in idle time: \(error.localizedDescription)")
        }
    }
}

/// A task of the system; its methods may be called from any thread.
private struct GivenTask: @unchecked Sendable {
    let task: BGTask
}
