package io.floeberg.kafka;

import java.util.Objects;
import java.util.concurrent.Callable;

/** What a test claims. */
final class Expect {
    private Expect() { }

    static void equal(Object expected, Object found) {
        if (!Objects.equals(expected, found))
            throw new AssertionError("expected " + expected + ", found " + found);
    }

    static void holds(boolean claim, String what) {
        if (!claim)
            throw new AssertionError(what);
    }

    /** Runs it, and returns the exception, which must be of exactly this class. */
    static <E extends Throwable> E raised(Class<E> expected, Callable<?> work) {
        try {
            work.call();
        } catch (Throwable found) {
            if (found.getClass() != expected)
                throw new AssertionError("expected " + expected + ", found " + found, found);
            return expected.cast(found);
        }
        throw new AssertionError("expected " + expected + ", found no exception");
    }

    static void contains(String part, Throwable error) {
        holds(error.getMessage().contains(part), "expected \"" + part + "\" in: " + error.getMessage());
    }
}
