package android.os;

import java.util.concurrent.Executor;

/** What levels 29 and 30 added, as declarations: Debian's android.jar is of level 23. Only the compiler sees this class. */
public class PowerManager {
    public interface OnThermalStatusChangedListener {
        void onThermalStatusChanged(int status);
    }

    public void addThermalStatusListener(Executor executor, OnThermalStatusChangedListener listener) {
        throw new UnsupportedOperationException();
    }

    public float getThermalHeadroom(int forecastSeconds) {
        throw new UnsupportedOperationException();
    }

    public void removeThermalStatusListener(OnThermalStatusChangedListener listener) {
        throw new UnsupportedOperationException();
    }
}
