// SPDX-License-Identifier: MIT OR Apache-2.0

import com.sleepycat.je.Cursor;
import com.sleepycat.je.Database;
import com.sleepycat.je.DatabaseConfig;
import com.sleepycat.je.DatabaseEntry;
import com.sleepycat.je.Durability;
import com.sleepycat.je.Environment;
import com.sleepycat.je.EnvironmentConfig;
import com.sleepycat.je.LockMode;
import com.sleepycat.je.OperationStatus;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;

/**
 * Berkeley DB Java Edition for YCSB's client: a log-structured store in Java.
 *
 * <p>Records and nodes of the B-tree are appended to a log of many files. A cleaner copies what is
 * live of files that are mostly dead, and deletes them. Each operation is a transaction of its own;
 * it is given to the operating system, which decides when it reaches the device. Files and the
 * interval of checkpoints are in proportion to the data.
 */
public final class BerkeleyDbClient extends ByteStoreClient {
    /** The least that the store takes for a file of its log. */
    private static final long LEAST_FILE = 1_000_000;

    @Override
    protected Store open(String path, long bytes) throws Exception {
        Files.createDirectories(new File(path).toPath());
        EnvironmentConfig config = new EnvironmentConfig();
        config.setAllowCreate(true);
        config.setTransactional(true);
        config.setDurability(Durability.COMMIT_WRITE_NO_SYNC);
        // By default it stops where less than 5 GB are free.
        config.setConfigParam(EnvironmentConfig.FREE_DISK, "0");
        config.setConfigParam(
                EnvironmentConfig.LOG_FILE_MAX, Long.toString(Math.max(bytes / 64, LEAST_FILE)));
        config.setConfigParam(
                EnvironmentConfig.CHECKPOINTER_BYTES_INTERVAL, Long.toString(bytes / 16));
        Environment environment = new Environment(new File(path), config);
        DatabaseConfig tree = new DatabaseConfig();
        tree.setAllowCreate(true);
        tree.setTransactional(true);
        Database db = environment.openDatabase(null, "records", tree);
        return new Store() {
            @Override
            public byte[] get(String key) {
                DatabaseEntry value = new DatabaseEntry();
                OperationStatus found = db.get(null, entry(key), value, LockMode.DEFAULT);
                return found == OperationStatus.SUCCESS ? value.getData() : null;
            }

            @Override
            public void put(String key, byte[] value) {
                db.put(null, entry(key), new DatabaseEntry(value));
            }

            @Override
            public void delete(String key) {
                db.delete(null, entry(key));
            }

            @Override
            public Iterable<byte[]> scan(String from, int values) {
                List<byte[]> found = new ArrayList<>();
                DatabaseEntry key = entry(from);
                DatabaseEntry value = new DatabaseEntry();
                try (Cursor at = db.openCursor(null, null)) {
                    OperationStatus next = at.getSearchKeyRange(key, value, LockMode.DEFAULT);
                    while (next == OperationStatus.SUCCESS && found.size() < values) {
                        found.add(value.getData());
                        next = at.getNext(key, value, LockMode.DEFAULT);
                    }
                }
                return found;
            }

            @Override
            public void close() {
                db.close();
                environment.close();
            }
        };
    }

    private static DatabaseEntry entry(String key) {
        return new DatabaseEntry(key.getBytes(StandardCharsets.UTF_8));
    }
}
