// SPDX-License-Identifier: MIT OR Apache-2.0

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.h2.mvstore.MVMap;
import org.h2.mvstore.MVStore;

/**
 * H2's MVStore for YCSB's client: a log-structured store in Java.
 *
 * <p>A commit appends changed pages of a B-tree to the file as a chunk. Chunks whose pages are
 * mostly dead are compacted in the background, and their space is used again. The write buffer is
 * in proportion to the data.
 */
public final class MvStoreClient extends ByteStoreClient {
    private static final int KILOBYTE = 1024;

    @Override
    protected Store open(String path, long bytes) {
        MVStore store =
                new MVStore.Builder()
                        .fileName(path)
                        .autoCommitBufferSize((int) (bytes / 64 / KILOBYTE))
                        .open();
        // Space of dead chunks is used again at once: nothing here has to survive a power cut.
        store.setRetentionTime(0);
        MVMap<String, byte[]> map = store.openMap("records");
        return new Store() {
            @Override
            public byte[] get(String key) {
                return map.get(key);
            }

            @Override
            public void put(String key, byte[] value) {
                map.put(key, value);
            }

            @Override
            public void delete(String key) {
                map.remove(key);
            }

            @Override
            public Iterable<byte[]> scan(String from, int values) {
                List<byte[]> found = new ArrayList<>();
                Iterator<String> keys = map.keyIterator(from);
                while (keys.hasNext() && found.size() < values) {
                    byte[] value = map.get(keys.next());
                    if (value != null) {
                        found.add(value);
                    }
                }
                return found;
            }

            @Override
            public void close() {
                store.close();
            }
        };
    }
}
