package io.omnidraft

/**
 * Settings of a generation (spec/09-session.md, `config`). A value outside its range is refused when the generation
 * begins.
 *
 * @property maxNewTokens output tokens at most.
 * @property temperature 0 for greedy decoding.
 * @property seed repeats a text where the drafts are equal: with the same settings, adapters, learned n-grams and text
 *   before it, and for auto [numDraftTokens] the same costs. In a session that learned in between it gives another text
 *   of the same distribution. Modes plain and lookup repeat it whatever was learned. All 64 bits count, as an unsigned
 *   number. Null: drawn by the system.
 * @property mode where proposals come from.
 * @property numDraftTokens of each round; null (auto) proposes as many tokens as pay, in mode trie also copies of the
 *   context instead of drafts. A number drafts that many tokens and copies only in mode lookup.
 * @property stop strings that end the output; none of them is part of it.
 * @property ignoreEos continue after the end of the text.
 * @property topK keep the most probable tokens; 0 keeps all.
 * @property topP of those, keep each token before which less than this share of their mass comes; 1 keeps all.
 * @property minP of those, keep each token with at least this share of the largest probability; 0 keeps all.
 * @property repetitionPenalty divides the positive and multiplies the negative logits of every id in the context; 1
 *   changes nothing.
 * @property verification of mode trie above temperature 0.
 * @property logprobs also give each token's natural log-probability.
 */
public data class GenerationConfig(
    public val maxNewTokens: Int = Defaults.MAX_NEW_TOKENS,
    public val temperature: Double = 0.0,
    public val seed: Long? = null,
    public val mode: Mode = Mode.TRIE,
    public val numDraftTokens: Int? = null,
    public val stop: List<String> = emptyList(),
    public val ignoreEos: Boolean = false,
    public val topK: Int = 0,
    public val topP: Double = 1.0,
    public val minP: Double = 0.0,
    public val repetitionPenalty: Double = 1.0,
    public val verification: Verification = Verification.AUTO,
    public val logprobs: Boolean = false,
) {
    /**
     * Where proposals come from. The output has the target's distribution in each mode.
     *
     * @property word the name in session files.
     */
    public enum class Mode(internal val word: String) {
        /** The drafter, and copies of the context where the length is auto. */
        TRIE("trie"),

        /** Copies of the context, without the drafter. */
        LOOKUP("lookup"),

        /** Nothing is proposed. */
        PLAIN("plain"),
    }

    /**
     * How drafts are verified above temperature 0.
     *
     * @property word the name in session files.
     */
    public enum class Verification(internal val word: String) {
        /** Token by token. */
        TOKEN("token"),

        /** As a block. */
        BLOCK("block"),

        /** Block where a round takes long enough by the bundle's costs. */
        AUTO("auto"),
    }
}
