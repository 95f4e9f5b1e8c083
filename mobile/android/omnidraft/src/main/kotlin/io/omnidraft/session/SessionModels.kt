package io.omnidraft.session

import io.omnidraft.SessionException
import io.omnidraft.bundle.FloatTensor
import io.omnidraft.decoding.Drafter
import io.omnidraft.decoding.noDrafter
import io.omnidraft.disk.Tensor
import io.omnidraft.grammar.ModelTokens
import io.omnidraft.grammar.TextGrammars
import io.omnidraft.models.Adapter
import io.omnidraft.models.Fitted
import io.omnidraft.models.OwnModel
import io.omnidraft.models.Role
import io.omnidraft.models.fit
import io.omnidraft.models.never
import io.omnidraft.models.placeOf
import io.omnidraft.models.unfitted
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.EnumMap

/* A session's own models on a shared bundle: their contexts, and the adapters in use. */

/** The drafter's model in a session, and its context. */
internal class SmallModel(val model: OwnModel, start: IntArray) {
    val drafter: Drafter = Drafter(model, start)
}

/** The target, and the drafter where one is loaded. */
internal class SessionModels(val loaded: LoadedBundle) : AutoCloseable {
    /** How much the app lets the session do. */
    val throttle = Throttle()

    val target: OwnModel = loaded.target.acquire()

    // Held for a moment each time, never during a pass; all fields below belong to it.
    private val lock = Any()
    private var isBusy = false
    private var isClosed = false
    private var dropAsked = false
    private var isWanted = true // the drafter: not since it was dropped

    @Volatile private var small: SmallModel? = try {
        loaded.drafter?.let { newDrafter(it) }
    } catch (error: Throwable) {
        loaded.target.release(target, free = false)
        throw error
    }
    /** The grammars of the session's texts; for the thread whose turn it is. */
    val grammars: TextGrammars by lazy(LazyThreadSafetyMode.NONE) {
        TextGrammars(
            ModelTokens(loaded.targetTokenizer) { loaded.targetTrie },
            loaded.drafterTokenizer?.let { ModelTokens(it) { loaded.draftTrie } },
            { loaded.draftAllowed },
        ) { loaded.outputText.shown }
    }
    private val withoutDrafter = noDrafter(loaded.bundle.drafter.vocabSize)
    private val chosen = EnumMap<Role, Fitted>(Role::class.java)
    private val inUse = EnumMap<Role, String>(Role::class.java)

    /** The drafter and its context; one without a model where none is loaded. */
    val drafter: Drafter get() = small?.drafter ?: withoutDrafter

    val hasDrafter: Boolean get() = small != null && !dropAsked

    /** How often the drafter was dropped; its context counts as empty after each time. */
    @Volatile var drops: Int = 0
        private set

    val adapters: Map<Role, Adapter> get() = synchronized(lock) {
        chosen.entries.mapNotNull { (role, fitted) -> fitted.adapter?.let { role to it } }.toMap()
    }

    /** The digest of the adapter that the last round ran with; null for none. */
    fun digest(role: Role): String? = synchronized(lock) { inUse[role] }

    /** Uses an adapter from the next round on; from any thread. */
    fun useAdapter(adapter: Adapter?, role: Role?) {
        val bundle = loaded.bundle
        if (adapter == null) {
            for (each in if (role == null) Role.values().toList() else listOf(role)) {
                val entry = if (each == Role.TARGET) bundle.target else bundle.drafter
                synchronized(lock) { chosen[each] = unfitted(entry) }
            }
            return
        }
        val (model, fitted) = fit(adapter, placeOf(bundle, loaded.vocabMap), role)
        synchronized(lock) { chosen[model] = fitted } // the next round takes it up
    }

    /** Runs something as the one user of the models; a second user is refused, because waiting could take for ever. */
    fun <T> turn(work: (Boolean) -> T): T {
        begin()
        try {
            return work(takeUp())
        } finally {
            end()
        }
    }

    /** Frees the drafter: now, or at the end of the round that is running; from any thread. */
    fun dropDrafter() = synchronized(lock) {
        isWanted = false
        if (small == null) return@synchronized
        dropAsked = true
        if (!isBusy) drop()
    }

    /** Loads the drafter again, for the next generation; from any thread. Nothing happens where it is loaded. */
    fun loadDrafter() {
        val graph = loaded.drafter
            ?: throw SessionException("the bundle was opened without its drafter", "open it again with the drafter")
        synchronized(lock) {
            dropAsked = false
            isWanted = true
            if (small != null || isClosed) return
        }
        val loading = newDrafter(graph) // which takes long: nobody waits for it at the lock
        synchronized(lock) {
            if (isWanted && small == null && !isClosed) {
                small = loading
                inUse.remove(Role.DRAFTER)
                return
            }
        }
        graph.release(loading.model, free = true)
    }

    /** Ends the run of a graph that is going on, in this thread or another. */
    fun interrupt() {
        target.interrupt()
        small?.model?.interrupt()
    }

    /** Lets [isCancelled] cancel passes inside [work]: before they begin, or when interrupted. */
    fun <T> cancelledBy(isCancelled: () -> Boolean, work: () -> T): T {
        val models = listOfNotNull(target, small?.model)
        models.forEach { it.cancelled = isCancelled }
        try {
            return work()
        } finally {
            models.forEach { it.cancelled = ::never }
        }
    }

    /** Frees the models: now, or at the end of the turn that is running; from any thread. */
    override fun close() = synchronized(lock) {
        if (isClosed) return@synchronized
        isClosed = true
        if (!isBusy) free()
    }

    private fun free() {
        small?.let { loaded.drafter?.release(it.model, free = false) }
        small = null
        loaded.target.release(target, free = false)
    }

    private fun begin() = synchronized(lock) {
        if (isClosed) throw SessionException("this session was closed", "open another one")
        if (isBusy) throw sessionInUse()
        isBusy = true
    }

    private fun end() = synchronized(lock) {
        isBusy = false
        if (isClosed) return@synchronized free()
        if (dropAsked) drop()
    }

    private fun drop() {
        dropAsked = false
        val dropped = small ?: return
        small = null
        drops++
        loaded.drafter?.release(dropped.model, free = true)
    }

    private fun newDrafter(graph: SharedGraph) = SmallModel(graph.acquire(), loaded.bundle.drafter.start)

    /**
     * Gives the models the adapters of [useAdapter]; their contexts are of the old weights.
     *
     * @return whether the target has to read its context again.
     */
    private fun takeUp(): Boolean {
        val isChanged = takeUp(Role.TARGET, target)
        small?.let { if (takeUp(Role.DRAFTER, it.model)) it.drafter.forget() }
        return isChanged
    }

    private fun takeUp(role: Role, model: OwnModel): Boolean {
        val fitted = synchronized(lock) {
            val fitted = chosen[role] ?: return false
            if (fitted.digest == inUse[role]) return false
            fitted
        }
        model.useAdapter(fitted.tensors.mapValues { tensorOf(it.value) })
        synchronized(lock) { fitted.digest?.let { inUse[role] = it } ?: inUse.remove(role) }
        return true
    }
}

internal fun sessionInUse() = SessionException(
    "this session is in use by another thread",
    "cancel its text and wait, or give each thread its own session",
)

internal fun tensorOf(tensor: FloatTensor): Tensor {
    val data = ByteBuffer.allocateDirect(4 * tensor.values.size).order(ByteOrder.LITTLE_ENDIAN)
    data.asFloatBuffer().put(tensor.values)
    return Tensor("F32", LongArray(tensor.shape.size) { tensor.shape[it].toLong() }, data)
}
