package io.omnidraft

/**
 * Where the models run.
 *
 * A provider other than the CPU needs graphs that the bundle was exported with and an engine that was built with it.
 * Where one is absent, the models run on the CPU, and a notice says why ([LanguageModel.notices]).
 *
 * @property place the name of the graphs in the manifest's field `npu`; null for the dynamic graphs.
 */
public enum class ExecutionProvider(internal val place: String?) {
    /** The dynamic graphs on the CPU. */
    CPU(null),

    /** The dynamic graphs on the CPU, with kernels of XNNPACK where it has them. */
    XNNPACK(null),

    /** Static graphs on a Qualcomm NPU: experimental, never run on a phone. */
    QNN("qnn"),

    /** Static graphs on NNAPI, which Android has deprecated: experimental, never run on a phone. */
    NNAPI("nnapi"),
}
