package io.omnidraft.session

import io.omnidraft.BundleException
import io.omnidraft.ExecutionProvider
import io.omnidraft.LARGER_HEAP
import io.omnidraft.LoadOptions
import io.omnidraft.Notice
import io.omnidraft.NoticeKind
import io.omnidraft.bundle.Bundle
import io.omnidraft.bundle.CPU_GRAPH
import io.omnidraft.bundle.Verify
import io.omnidraft.bundle.heapNeed
import io.omnidraft.bundle.memoryNeed
import io.omnidraft.bundle.openBundle
import io.omnidraft.bundle.placed
import io.omnidraft.bundle.whyPlain
import io.omnidraft.device.StateDirectory
import io.omnidraft.models.hasXnnpack
import java.io.File

/* What an app opens: the bundle, on the provider and with the drafter that the device has room for. */

/**
 * Loads a bundle as an app asks for it. Where the memory is too small for both models, it is loaded without the
 * drafter; where the provider cannot be used, on the CPU. The notices of the bundle say so.
 */
internal fun openLoaded(
    directory: File,
    options: LoadOptions,
    measureSeconds: Double = MEASURE_SECONDS, // see Loading
): LoadedBundle {
    val state = StateDirectory(options.state)
    val bundle = openBundle(directory, options.publicKey, Verify.AUTO, state)
    val provider = whyNotOn(options.provider, bundle)
    val place = if (provider == null) options.provider.place else null
    val (targetOn, drafterOn) = listOf(bundle.target, bundle.drafter).map {
        if (place != null && place in it.places) place else CPU_GRAPH
    }
    val there = placed(bundle, targetOn, drafterOn)
    val plain = if (options.withDrafter) whyWithoutDrafter(there, options.freeMemory) else null
    checkMemory(there, options.freeMemory)
    val loading = Loading(
        threads = options.threads,
        drafter = options.withDrafter && plain == null,
        xnnpack = options.provider == ExecutionProvider.XNNPACK && provider == null,
        targetOn = targetOn,
        drafterOn = drafterOn,
        state = state,
        notices = notices(plain, provider),
        measureSeconds = measureSeconds,
    )
    return try {
        loadBundle(bundle, loading)
    } catch (error: BundleException) {
        if (!loading.xnnpack && place == null) throw error
        checkMemory(bundle, options.freeMemory)
        loadBundle(bundle, loading.onCpu(notices(plain, error.toString())))
    }
}

/** What two models would need more of than there is: the device's memory, or the app's heap. */
private fun whyWithoutDrafter(bundle: Bundle, free: Long?): String? =
    whyPlain(memoryNeed(bundle).total, memoryNeed(bundle, drafter = false).total, free)
        ?: whyPlain(heapNeed(bundle), heapNeed(bundle, drafter = false), heap(), "the app's heap", LARGER_HEAP)

/** Refuses a bundle whose target alone needs more than the app may still use, or more than the app's heap holds. */
private fun checkMemory(bundle: Bundle, free: Long?) {
    val name = bundle.path.name
    val needed = memoryNeed(bundle, drafter = false).total
    if (free != null && needed > free) {
        val message = "$name needs ${needed / MEGABYTE} MB without the drafter, and ${free / MEGABYTE} MB are free"
        throw BundleException("memory", message, "export it with a smaller --max-length, or use a smaller model")
    }
    val ofHeap = heapNeed(bundle, drafter = false)
    if (ofHeap > heap()) {
        val message = "$name needs ${ofHeap / MEGABYTE} MB of the app's heap, which has ${heap() / MEGABYTE} MB"
        throw BundleException("memory", message, LARGER_HEAP)
    }
}

private fun heap(): Long = Runtime.getRuntime().maxMemory()

private const val MEGABYTE = 1_000_000L

/** Why the models run on the CPU though another provider was asked for; null where they do not. */
private fun whyNotOn(provider: ExecutionProvider, bundle: Bundle): String? = when {
    provider == ExecutionProvider.CPU || (provider == ExecutionProvider.XNNPACK && hasXnnpack()) -> null
    provider == ExecutionProvider.XNNPACK ->
        "this onnxruntime was built without XNNPACK; use one that has it, or the CPU"
    listOf(bundle.target, bundle.drafter).any { provider.place in it.places } -> null
    else -> "the bundle has no static graphs, which $provider takes alone; export it with --npu, or use the CPU"
}

private fun notices(withoutDrafter: String?, notOn: String?): List<Notice> = listOfNotNull(
    withoutDrafter?.let { Notice(NoticeKind.NO_DRAFTER, it) },
    notOn?.let { Notice(NoticeKind.ON_CPU, "running on the CPU: $it") },
)
