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
            field("https address of the archive", $address)
            field("its SHA-256", $sha256)
            field("its bytes", $bytes)
            Button("Open") { model.download(address, bytes: bytes, sha256: sha256) }
            Button("Cancel", role: .cancel) {}
        }
    }

    /// A field for addresses and hashes: the keyboard corrects and capitalizes nothing.
    private func field(_ title: LocalizedStringKey, _ text: Binding<String>) -> some View {
        TextField(title, text: text).autocorrectionDisabled().textInputAutocapitalization(.never)
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
