package io.omnidraft

import java.io.File

/**
 * What a session begins with.
 *
 * @property cache a file of learned n-grams; where it is absent or refused, the session begins with an empty cache.
 * @property traces a directory to record generations in, once learning is on; text included.
 * @property adapter of the drafter or of the target.
 * @property learned a directory for what is learned here and pulled; null: beside [traces], with `.learned` behind its name.
 * @property dropsOldest whether a conversation leaves out its oldest turns where the context is too small for all of them
 *   and an answer; the system prompt stays. Else such a message is refused.
 */
public class SessionOptions(
    public val cache: File? = null,
    public val traces: File? = null,
    public val adapter: File? = null,
    public val learned: File? = null,
    public val dropsOldest: Boolean = false,
)
