import SwiftUI
import UniformTypeIdentifiers

/// Where a bundle comes from: the app, a file, or an address.
struct BundleBar: View {
    let model: ScreenModel
    @State private var choosesFile = false
    @State private var asksAddress = false
    @State private var address = ""
    @State private var bytes = ""
    @State private var sha256 = ""

    var body: some View {
        HStack {
            Menu("In the app") {
                ForEach(model.inApp, id: \.name) { choice in
                    Button(choice.name) { model.open(choice) }
                }
            }
            .disabled(model.inApp.isEmpty)
            Button("File") { choosesFile = true }
            Button("Download") { asksAddress = true }
        }
        .buttonStyle(.bordered)
        .fileImporter(isPresented: $choosesFile, allowedContentTypes: [.zip], onCompletion: open)
        .alert("Download", isPresented: $asksAddress) {
            TextField("https address of the archive", text: $address)
            TextField("its SHA-256", text: $sha256)
            TextField("its bytes", text: $bytes)
            Button("Open") { model.download(address, bytes: bytes, sha256: sha256) }
            Button("Cancel", role: .cancel) {}
        }
    }

    /// A file of another app may be read only between two calls.
    private func open(_ result: Result<URL, any Error>) {
        switch result {
        case .success(let url):
            let isOutside = url.startAccessingSecurityScopedResource()
            model.open(.file(url) { if isOutside { url.stopAccessingSecurityScopedResource() } })
        case .failure(let error):
            model.say(error.localizedDescription)
        }
    }
}
