package io.floeberg.kafka;

import java.util.HashMap;
import java.util.Map;

/** Copies a segment to a real log door and reads it back: {@code AskDoor url token-file [ca-file]}. */
final class AskDoor {
    private AskDoor() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> configs = new HashMap<>(Map.of(
            "floeberg.url", arguments[0], "floeberg.token.file", arguments[1], "floeberg.copy.timeout.ms", "1000"));
        if (arguments.length > 2)
            configs.put("floeberg.ca.file", arguments[2]);
        FloebergRemoteStorageManager plugin = new FloebergRemoteStorageManager();
        plugin.configure(configs);
        plugin.copyLogSegmentData(Segments.segment(100, 199), Segments.data("0\n1\n5 0\n", new byte[] {1, 2, 3}));
        System.out.println(plugin.fetchLogSegment(Segments.segment(100, 199), 0).readAllBytes().length);
    }
}
