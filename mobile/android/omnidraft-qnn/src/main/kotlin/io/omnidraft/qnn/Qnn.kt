package io.omnidraft.qnn

import android.content.Context
import android.system.Os

/** Tells the NPU where its libraries are in the app; once, before the first bundle is opened. */
fun prepareQnn(context: Context) {
    Os.setenv("ADSP_LIBRARY_PATH", context.applicationInfo.nativeLibraryDir, true)
}
