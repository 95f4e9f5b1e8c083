package io.omnidraft.sample

import android.app.Activity
import android.app.AlertDialog
import android.content.Intent
import android.os.Build
import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.ProgressBar
import android.widget.ScrollView
import android.widget.Switch
import android.widget.TextView
import io.omnidraft.BundleSource
import java.io.FileNotFoundException

/** The one screen: it shows the presenter's state, and tells the presenter what the user does. */
class MainActivity : Activity() {
    private val presenter: Presenter get() = (application as SampleApp).presenter
    private val heat: Heat? by lazy {
        if (Build.VERSION.SDK_INT >= Heat.LEAST_LEVEL) Heat(this, presenter::thermal) else null
    }
    private var shown = 0

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        setContentView(R.layout.main)
        button(R.id.bundle_in_app) { presenter.open(Choice(nameOf(ASSET)) { BundleSource.Stream(assets.open(ASSET)) }) }
        button(R.id.bundle_file) { chooseFile() }
        button(R.id.bundle_download) { askForAddress() }
        button(R.id.speculative) { send(Speed.SPECULATIVE) }
        button(R.id.plain) { send(Speed.PLAIN) }
        button(R.id.cancel) { presenter.cancel() }
        button(R.id.study) { presenter.study(STUDY_SECONDS) }
        button(R.id.wipe) { presenter.wipe() }
        button(R.id.benchmark) {
            val device = "${Build.MANUFACTURER} ${Build.MODEL}, Android ${Build.VERSION.RELEASE}"
            presenter.benchmark(device, Runtime.getRuntime().availableProcessors())
        }
        button(R.id.share) { share() }
        button(R.id.load_drafter) { presenter.loadDrafter() }
        val learn = view<Switch>(R.id.learn)
        learn.setOnClickListener { presenter.learn(learn.isChecked) }
    }

    override fun onStart() {
        super.onStart()
        presenter.attach(::show)
        heat?.start()
    }

    override fun onStop() {
        heat?.stop()
        presenter.detach()
        if (!isChangingConfigurations) leave() // a rotation is no leaving
        super.onStop()
    }

    private fun leave() {
        presenter.leave()
        IdleLearning.schedule(this, presenter.screen.isLearning)
    }

    override fun onActivityResult(request: Int, result: Int, data: Intent?) {
        super.onActivityResult(request, result, data)
        val address = data?.data
        if (request != FILE || result != RESULT_OK || address == null) return
        val choice = Choice(nameOf(address.lastPathSegment.orEmpty())) {
            BundleSource.Stream(contentResolver.openInputStream(address) ?: throw FileNotFoundException("$address is gone"))
        }
        presenter.open(choice)
    }

    private fun chooseFile() {
        val intent = Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("*/*")
        startActivityForResult(intent, FILE)
    }

    private fun share() {
        val intent = Intent(Intent.ACTION_SEND).setType("text/plain").putExtra(Intent.EXTRA_TEXT, presenter.screen.benchmark)
        startActivity(Intent.createChooser(intent, null))
    }

    private fun askForAddress() {
        val fields = listOf(R.string.address_hint, R.string.sha256_hint, R.string.size_hint).map { hint ->
            EditText(this).apply { setHint(hint) }
        }
        val column = LinearLayout(this).apply { orientation = LinearLayout.VERTICAL }
        fields.forEach { column.addView(it) }
        AlertDialog.Builder(this).setTitle(R.string.bundle_download).setView(column)
            .setPositiveButton(android.R.string.ok) { _, _ -> open(fields.map { it.text.toString().trim() }) }
            .setNegativeButton(android.R.string.cancel, null).show()
    }

    private fun open(fields: List<String>) = presenter.open(download(fields[0], bytes = fields[2], sha256 = fields[1]))

    private fun send(speed: Speed) {
        val prompt = view<EditText>(R.id.prompt)
        presenter.send(prompt.text.toString(), speed)
        prompt.text.clear()
    }

    private fun show(screen: Screen) {
        val isReady = screen.phase == Phase.READY
        val whileReady = intArrayOf(R.id.speculative, R.id.plain, R.id.study, R.id.wipe, R.id.benchmark)
        for (id in whileReady) view<View>(id).isEnabled = isReady
        view<View>(R.id.cancel).isEnabled = screen.phase == Phase.ANSWERING
        view<View>(R.id.load_drafter).visibility = if (screen.hasDrafter) View.GONE else View.VISIBLE
        val learn = view<Switch>(R.id.learn)
        learn.isEnabled = isReady
        learn.isChecked = screen.isLearning
        val progress = view<ProgressBar>(R.id.progress)
        progress.visibility = if (screen.phase == Phase.OPENING) View.VISIBLE else View.GONE
        progress.isIndeterminate = screen.progress == null
        progress.progress = ((screen.progress ?: 0f) * progress.max).toInt()
        view<TextView>(R.id.speed).text = status(screen)
        view<TextView>(R.id.notice).text = listOfNotNull(screen.benchmark, screen.notice).joinToString("\n").trim()
        view<View>(R.id.share).visibility = if (screen.benchmark == null) View.GONE else View.VISIBLE
        view<SparklineView>(R.id.acceptance).values = screen.acceptance
        showText(screen.spans)
    }

    /** Adds the new spans only: a text of any length costs the same for each round. */
    private fun showText(spans: List<Span>) {
        val text = view<TextView>(R.id.text)
        if (shown == 0 || spans.size < shown) {
            text.text = ""
            shown = 0
        }
        for (span in spans.subList(shown, spans.size)) text.append(tinted(span))
        if (spans.size > shown) view<ScrollView>(R.id.scroll).post { scrollToEnd() }
        shown = spans.size
    }

    private fun scrollToEnd() = view<ScrollView>(R.id.scroll).run { fullScroll(View.FOCUS_DOWN) }

    /** Level 26 returns a view of the type that is asked for, level 23 any view; this compiles with both. */
    private fun <T : View> view(id: Int): T {
        val found: View = findViewById(id)
        @Suppress("UNCHECKED_CAST") // the type is that of the layout
        return found as T
    }

    private fun button(id: Int, action: () -> Unit) = view<Button>(id).setOnClickListener { action() }

    private companion object {
        const val ASSET = "starter-a.zip"
        const val FILE = 1
        const val STUDY_SECONDS = 30.0
    }
}
