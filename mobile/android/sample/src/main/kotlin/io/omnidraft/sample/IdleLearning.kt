package io.omnidraft.sample

import android.app.job.JobInfo
import android.app.job.JobParameters
import android.app.job.JobScheduler
import android.app.job.JobService
import android.content.ComponentName
import android.content.Context

/** Learning while the device is idle and charges. The system decides when; nothing is sent. */
class IdleLearning : JobService() {
    private val presenter: Presenter get() = (application as SampleApp).presenter

    override fun onStartJob(job: JobParameters): Boolean {
        presenter.learnInIdleTime(MOST_SECONDS) { isLeft -> jobFinished(job, isLeft) }
        return true // it goes on behind this call
    }

    override fun onStopJob(job: JobParameters): Boolean {
        presenter.endIdleLearning()
        return true // the rest at another time
    }

    companion object {
        private const val JOB = 1
        private const val MOST_SECONDS = 300.0 // of one job; the system ends it earlier where it takes the device back

        /** Asks for the job, or takes it back where learning is off. */
        fun schedule(context: Context, isLearning: Boolean) {
            val scheduler = context.getSystemService(Context.JOB_SCHEDULER_SERVICE) as JobScheduler
            if (!isLearning) return scheduler.cancel(JOB)
            val service = ComponentName(context, IdleLearning::class.java)
            scheduler.schedule(JobInfo.Builder(JOB, service).setRequiresCharging(true).setRequiresDeviceIdle(true).build())
        }
    }
}
