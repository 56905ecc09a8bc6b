package io.floeberg.kafka;

import java.io.IOException;

/** The log door answered with something else than success. The message has the door's own words. */
final class DoorAnswer extends IOException {
    private static final long serialVersionUID = 1L;

    final int status;

    DoorAnswer(int status, String message) {
        super(message);
        this.status = status;
    }

    /** True where asking again later can help: the range isn't there yet, or the daemon or its warehouse is busy or away. */
    boolean isRetriable() {
        return status == 409 || status == 429 || status >= 500;
    }
}
