// SPDX-License-Identifier: MIT OR Apache-2.0

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.rocksdb.CompressionType;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * RocksDB for YCSB's client.
 *
 * <p>Memtables, table files and levels are in proportion to the data. The write-ahead log goes to
 * the device while a memtable fills, as where that takes longer than writeback waits. Sizes of
 * levels are fixed, as in the RocksDB that the papers used.
 */
public final class RocksDbClient extends ByteStoreClient {
    private static final int JOBS = 2;

    @Override
    protected Store open(String path, long bytes) throws RocksDBException {
        RocksDB.loadLibrary();
        Options options =
                new Options()
                        .setCreateIfMissing(true)
                        .setCompressionType(CompressionType.NO_COMPRESSION)
                        .setWriteBufferSize(bytes / 64)
                        .setTargetFileSizeBase(bytes / 256)
                        .setMaxBytesForLevelBase(bytes / 32)
                        .setLevelCompactionDynamicLevelBytes(false)
                        .setWalBytesPerSync(bytes / 1024)
                        .setMaxBackgroundJobs(JOBS);
        RocksDB db = RocksDB.open(options, path);
        return new Store() {
            @Override
            public byte[] get(String key) throws RocksDBException {
                return db.get(bytes(key));
            }

            @Override
            public void put(String key, byte[] value) throws RocksDBException {
                db.put(bytes(key), value);
            }

            @Override
            public void delete(String key) throws RocksDBException {
                db.delete(bytes(key));
            }

            @Override
            public Iterable<byte[]> scan(String from, int values) throws RocksDBException {
                List<byte[]> found = new ArrayList<>();
                try (RocksIterator at = db.newIterator()) {
                    for (at.seek(bytes(from)); at.isValid() && found.size() < values; at.next()) {
                        found.add(at.value());
                    }
                    at.status();
                }
                return found;
            }

            @Override
            public void close() {
                db.close();
                options.close();
            }
        };
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
