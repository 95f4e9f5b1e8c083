package io.omnidraft.coroutines

import io.omnidraft.BundleSource
import io.omnidraft.ChatMessage
import io.omnidraft.GenerationConfig
import io.omnidraft.GenerationResult
import io.omnidraft.Grammar
import io.omnidraft.LanguageModel
import io.omnidraft.LoadOptions
import io.omnidraft.OmniDraft
import io.omnidraft.Piece
import io.omnidraft.SessionOptions
import io.omnidraft.TextSession
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.callbackFlow
import kotlinx.coroutines.job
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import java.io.File
import java.util.concurrent.Executor

/*
 * The blocking calls of the library as suspending functions and flows. They run on Dispatchers.IO, and throw what the
 * blocking calls throw.
 */

/** [OmniDraft.open]; cancelled meanwhile, it closes what it opened. */
public suspend fun OmniDraft.awaitOpen(directory: File, options: LoadOptions = LoadOptions()): LanguageModel =
    opened { open(directory, options) }

/**
 * [OmniDraft.unpack]; cancelled meanwhile, it ends, and a download goes on there when it is asked for again. Until this
 * call has returned, which `cancelAndJoin` waits for, another one is refused (`in_use`).
 */
public suspend fun OmniDraft.awaitUnpack(
    source: BundleSource,
    into: File,
    overwrite: Boolean = false,
    onProgress: (Long, Long) -> Unit = { _, _ -> },
): File = withContext(Dispatchers.IO) {
    unpack(source, into, overwrite) { done, all ->
        ensureActive()
        onProgress(done, all)
    }
}

/** [LanguageModel.session]; cancelled meanwhile, it closes the session. */
public suspend fun LanguageModel.awaitSession(options: SessionOptions = SessionOptions()): TextSession =
    opened { session(options) }

/**
 * The next message's answer, which begins when the flow is collected. A collector that stops ends the answer, and the
 * session is free when `collect` has returned; a slow one makes the answer wait. [TextSession.chat] has the errors.
 *
 * @param onResult called once, on a thread of Dispatchers.IO, after the last piece; not where the flow fails.
 */
public fun TextSession.chat(
    message: String,
    config: GenerationConfig = GenerationConfig(),
    grammar: Grammar? = null,
    onResult: (GenerationResult) -> Unit = {},
): Flow<Piece> = pieces(onResult) { executor, onPiece -> chat(message, config, executor, grammar, onPiece) }

/** The answer to results of tools; see [chat] and [TextSession.toolResults]. */
public fun TextSession.toolResults(
    results: List<String>,
    config: GenerationConfig = GenerationConfig(),
    grammar: Grammar? = null,
    onResult: (GenerationResult) -> Unit = {},
): Flow<Piece> = pieces(onResult) { executor, onPiece -> toolResults(results, config, executor, grammar, onPiece) }

/** The answer to the last message of a whole conversation; see [chat]. */
public fun TextSession.chat(
    messages: List<ChatMessage>,
    config: GenerationConfig = GenerationConfig(),
    grammar: Grammar? = null,
    onResult: (GenerationResult) -> Unit = {},
): Flow<Piece> = pieces(onResult) { executor, onPiece -> chat(messages, config, executor, grammar, onPiece) }

/** A text after a prompt; see [chat]. */
public fun TextSession.generate(
    prompt: String,
    config: GenerationConfig = GenerationConfig(),
    grammar: Grammar? = null,
    onResult: (GenerationResult) -> Unit = {},
): Flow<Piece> = pieces(onResult) { executor, onPiece -> generate(prompt, config, executor, grammar, onPiece) }

private suspend fun <T : AutoCloseable> opened(open: () -> T): T {
    var made: T? = null
    try {
        return withContext(Dispatchers.IO) { open().also { made = it } }
    } catch (cancelled: CancellationException) { // also after `open` returned
        made?.close()
        throw cancelled
    }
}

private fun TextSession.pieces(
    onResult: (GenerationResult) -> Unit,
    write: (Executor, (Piece) -> Unit) -> GenerationResult,
): Flow<Piece> = callbackFlow {
    val writing = launch(Dispatchers.IO) {
        // As a child of this job the wait for a slow collector ends with it; that of trySendBlocking would not.
        onResult(write(Executor { it.run() }) { piece -> runBlocking(coroutineContext.job) { send(piece) } })
    }
    writing.invokeOnCompletion { close(it) }
    // Not after the end: by then the session may write another text.
    awaitClose { if (!writing.isCompleted) this@pieces.cancel() }
}.buffer(Channel.RENDEZVOUS) // else 64 pieces that the collector has not seen stay in the conversation when it stops
