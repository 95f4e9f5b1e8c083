package io.omnidraft.learning.online

import io.omnidraft.LearnOutcome
import io.omnidraft.Learning
import io.omnidraft.PullOutcome
import io.omnidraft.PushFile
import io.omnidraft.PushPart
import io.omnidraft.SessionException
import io.omnidraft.SessionOptions
import io.omnidraft.SettingException
import io.omnidraft.learning.step.lengthWithin
import io.omnidraft.learning.step.StepBudget
import io.omnidraft.bundle.publicKeyOf
import io.omnidraft.bundle.readPublicKey
import io.omnidraft.disk.hexOf
import io.omnidraft.inHeap
import io.omnidraft.models.Adapter
import io.omnidraft.models.Role
import io.omnidraft.models.encodeAdapter
import io.omnidraft.models.placeOf
import io.omnidraft.session.Session
import io.omnidraft.sync.Device
import io.omnidraft.sync.DeviceReleases
import io.omnidraft.sync.SignedKind
import io.omnidraft.sync.Trial
import io.omnidraft.sync.channelOfBundle
import io.omnidraft.sync.deviceSeed
import io.omnidraft.sync.pull
import io.omnidraft.sync.readSigned
import io.omnidraft.sync.segmentsIn
import io.omnidraft.sync.trialOn
import io.omnidraft.sync.writePush
import io.omnidraft.traces.TraceStore
import io.omnidraft.traces.Vocabularies
import io.omnidraft.traces.readTraces
import io.omnidraft.vocab.NgramCache
import io.omnidraft.vocab.encode
import io.omnidraft.vocab.readTable
import java.io.File

/*
 * Learning of one session, as an app sees it (spec/08-phones.md, The interface).
 *
 * Three things on the disk belong to it: the trace, what was learned (`LearnedDirectory`), and the releases that were
 * pulled (`sync/Installed.kt`). The adapter in use is the learned one, else that of a release, else that of the
 * session's options. None of the calls sends anything.
 */

private const val RELEASES = "releases"
private const val DEVICE_KEY = "device.key"
private const val NANOSECONDS = 1e9

private enum class LearningState { OFF, ON, PAUSED }

internal class LearningController(
    private val session: Session, // whose answers are recorded, and whose drafter learns
    private val options: SessionOptions,
    private val publicKey: ByteArray?, // of the publisher of releases; without one no release is taken
    private val throttle: () -> Int = { 0 }, // the level that the app set; from 1 on nothing is learned
) : Learning, AutoCloseable {
    private val lock = Any()
    private var store: TraceStore? = null
    private var isClosed = false
    private val user = SessionUser(session)

    @Volatile private var state = LearningState.OFF

    /** The adapter of the options, which is used where nothing was learned or pulled. */
    private val given: Adapter? = session.adapters[Role.DRAFTER]

    override fun on() = inHeap {
        synchronized(lock) {
            if (isClosed) throw SessionException("this session was closed", "open another one")
            val recorder = store ?: TraceStore(traces(), Vocabularies.of(session.vocabMap))
            try {
                user.useDrafterAdapter(adapterInUse())
            } catch (error: Throwable) {
                if (store == null) recorder.close()
                throw error
            }
            store = recorder
            recorder.resume()
            session.trace = recorder
            state = LearningState.ON
        }
    }

    override fun pause() = synchronized(lock) {
        store?.pause()
        if (state == LearningState.ON) state = LearningState.PAUSED
    }

    override fun off() = synchronized(lock) {
        state = LearningState.OFF
        session.trace = null
        store?.close()
        store = null
    }

    override fun close() = synchronized(lock) {
        isClosed = true
        off()
    }

    override fun wipe() = inHeap {
        synchronized(lock) {
            val directory = directory()
            directory.claimed {
                session.turn { session.resetCache() }
                options.cache?.delete()
                wipeTraces()
                directory.wipe()
                releases().forgetOwn()
            }
            user.useDrafterAdapter(adapterInUse())
        }
    }

    override fun step(seconds: Double, freeMemory: Long?): LearnOutcome = inHeap {
        if (!(seconds >= 0.0)) {
            throw SettingException("seconds $seconds is not a number of at least 0", setting = "seconds")
        }
        if (state == LearningState.OFF) throw SessionException("learning is off", "turn it on first")
        val end = System.nanoTime() + (minOf(seconds, MOST_SECONDS) * NANOSECONDS).toLong()
        val budget = StepBudget { System.nanoTime() < end && throttle() == 0 && state != LearningState.OFF }
        val adapted = adaptation(freeMemory?.let { lengthWithin(session.bundle, it) }).step(user, ofSession(), budget)
        LearnOutcome(
            adapted.steps, adapted.isFinished, adapted.usesLearned, adapted.losses.lastOrNull(),
            IntervalEvent.ROLLED_BACK in adapted.events,
        )
    }

    override val releaseName: String get() = "${channelOfBundle(models()).id}/release"

    override fun pull(release: ByteArray): PullOutcome = inHeap {
        val key = publicKey ?: throw SettingException(
            "a release is checked with the public key of its publisher, and none was given",
            "give one in the options of the bundle",
            "publicKey",
        )
        val signed = readSigned(release, SignedKind.RELEASE, readPublicKey(key))
        val directory = directory()
        val outcome = directory.claimed {
            val own = adaptation(null).checkpoint()?.used
            options.cache?.takeIf { it.parentFile?.isDirectory != false }?.let { session.saveCache(it) }
            val pulled = pull(signed, device(own))
            if (own != null && pulled.outcome in TAKEN) directory.wipe()
            options.cache?.let { takeCache(it) }
            pulled.outcome
        }
        user.useDrafterAdapter(adapterInUse())
        outcome
    }

    override fun goBack() = inHeap {
        val directory = directory()
        directory.claimed {
            releases().goBack(adaptation(null).checkpoint()?.used)
            directory.wipe()
        }
        user.useDrafterAdapter(adapterInUse())
    }

    override fun push(parts: Set<PushPart>): PushFile = inHeap {
        val learned = if (PushPart.ADAPTER in parts) adaptation(null).checkpoint()?.used else null
        val traces = traces()
        val vocabularies = Vocabularies.of(session.vocabMap)
        val cache = if (PushPart.CACHE in parts) session.turn { session.cache.table() } else null
        val channel = channelOfBundle(models())
        val directory = directory()
        val seed = directory.claimed { deviceSeed(File(directory.place, DEVICE_KEY)) }
        val data = writePush(
            channel,
            adapter = learned?.let { encodeAdapter(it) },
            cache = cache?.let { encode(it) },
            traces = if (PushPart.TRACES in parts) segmentsIn(traces, vocabularies) else emptyList(),
            accepted = if (traces.isDirectory) accepted(traces, vocabularies) else 0,
            seed = seed,
        )
        PushFile("${channel.id}/${hexOf(publicKeyOf(seed))}.push", data)
    }

    /** The adapter that learning begins with: that in use where nothing was learned. */
    private fun ofSession(): Adapter? = releases().adapter() ?: given

    private fun adapterInUse(): Adapter? {
        val learned = if (session.bundle.drafter.train == null) null else adaptation(null).checkpoint()
        return if (learned == null) ofSession() else learned.adapter
    }

    private fun wipeTraces() {
        val recorder = store
        if (recorder != null) {
            recorder.wipe()
        } else if (traces().isDirectory) {
            TraceStore(traces(), Vocabularies.of(session.vocabMap)).use { it.wipe() }
        }
    }

    /** The session's n-grams with those of a release; the file holds both. */
    private fun takeCache(file: File) {
        if (!file.exists()) return
        val table = readTable(file, session.vocabMap)
        session.turn { session.cache = NgramCache.ofTable(table, session.vocabMap) }
    }

    private fun device(own: Adapter?): Device = Device(
        models = models(),
        vocabMap = session.vocabMap,
        into = releases().place,
        trial = trial(),
        own = own,
        cache = options.cache,
    )

    /** A comparison on what was recorded; null where nothing was, and then a release is used without one. */
    private fun trial(): Trial? {
        val recorded = options.traces?.listFiles().orEmpty().any { it.name.endsWith(".odt") }
        val drafter = session.loaded.drafter
        if (!recorded || drafter == null) return null
        return trialOn(traces(), session.bundle, session.vocabMap) { use -> drafter.lent(use) }
    }

    private fun adaptation(maxLength: Int?): Adaptation =
        Adaptation(session.bundle, session.vocabMap, directory(), traces(), AdaptOptions(maxLength = maxLength))

    private fun models() = placeOf(session.bundle, session.vocabMap)

    private fun releases() = DeviceReleases(File(directory().place, RELEASES))

    private fun directory(): LearnedDirectory {
        val traces = traces()
        return LearnedDirectory(options.learned ?: File(traces.absoluteFile.parentFile, traces.name + ".learned"))
    }

    private fun traces(): File = options.traces ?: throw SettingException(
        "the session has no directory for traces, so nothing can be learned",
        "give one in its options",
        setting = "traces",
    )

    private companion object {
        const val MOST_SECONDS = 1e6
        val TAKEN = setOf(PullOutcome.SWITCHED, PullOutcome.NEWEST)
    }
}

/** The target tokens that drafts proposed and the target accepted, in the records of a trace. */
private fun accepted(traces: File, vocabularies: Vocabularies): Long {
    if (traces.listFiles().orEmpty().none { it.name.endsWith(".odt") }) return 0
    return readTraces(listOf(traces), vocabularies).sumOf { traced -> traced.tokens.count { it.accepted }.toLong() }
}

internal class SessionUser(private val session: Session) : AdapterUser {
    override val targetAdapter: String? get() = session.adapters[Role.TARGET]?.digest

    override val isAnswering: Boolean
        get() {
            val answer = session.answer
            return answer != null && answer.stopReason == null
        }

    override fun useDrafterAdapter(adapter: Adapter?) = session.useAdapter(adapter, Role.DRAFTER)
}
