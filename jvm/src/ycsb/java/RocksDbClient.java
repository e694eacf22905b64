// SPDX-License-Identifier: MIT OR Apache-2.0

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import org.rocksdb.CompressionType;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * RocksDB for YCSB's client, one database for all its threads.
 *
 * <p>A record is one value: its fields one after another, each as two lengths and two byte strings.
 * An update reads the record and writes it whole, as YCSB's own binding does. Keys of all tables
 * lie in one key space.
 *
 * <p>Properties: {@code rocksdb.dir}, the database, and {@code rocksdb.bytes}, how many it will
 * have. Memtables, table files and levels are in proportion to it. The write-ahead log goes to the
 * device sixteen times while a memtable fills, as where that takes longer than writeback waits.
 * Sizes of levels are fixed, as in the RocksDB that the papers used.
 */
public final class RocksDbClient extends DB {
    private static final int JOBS = 2;

    private static Options options;
    private static RocksDB db;
    private static int users;

    @Override
    public void init() throws DBException {
        synchronized (RocksDbClient.class) {
            if (users++ > 0) {
                return;
            }
            RocksDB.loadLibrary();
            long bytes = Long.parseLong(getProperties().getProperty("rocksdb.bytes"));
            options =
                    new Options()
                            .setCreateIfMissing(true)
                            .setCompressionType(CompressionType.NO_COMPRESSION)
                            .setWriteBufferSize(bytes / 64)
                            .setTargetFileSizeBase(bytes / 256)
                            .setMaxBytesForLevelBase(bytes / 32)
                            .setLevelCompactionDynamicLevelBytes(false)
                            .setWalBytesPerSync(bytes / 1024)
                            .setMaxBackgroundJobs(JOBS);
            try {
                db = RocksDB.open(options, getProperties().getProperty("rocksdb.dir"));
            } catch (RocksDBException e) {
                throw new DBException(e);
            }
        }
    }

    @Override
    public void cleanup() {
        synchronized (RocksDbClient.class) {
            if (--users == 0) {
                db.close();
                options.close();
            }
        }
    }

    @Override
    public Status read(
            String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        try {
            byte[] value = db.get(bytes(key));
            if (value == null) {
                return Status.NOT_FOUND;
            }
            select(value, fields, result);
            return Status.OK;
        } catch (RocksDBException e) {
            return failed(e);
        }
    }

    @Override
    public Status scan(
            String table,
            String start,
            int records,
            Set<String> fields,
            Vector<HashMap<String, ByteIterator>> result) {
        try (RocksIterator at = db.newIterator()) {
            for (at.seek(bytes(start)); at.isValid() && result.size() < records; at.next()) {
                HashMap<String, ByteIterator> record = new HashMap<>();
                select(at.value(), fields, record);
                result.add(record);
            }
            at.status();
            return Status.OK;
        } catch (RocksDBException e) {
            return failed(e);
        }
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        try {
            byte[] old = db.get(bytes(key));
            if (old == null) {
                return Status.NOT_FOUND;
            }
            Map<String, ByteIterator> record = new HashMap<>();
            select(old, null, record);
            record.putAll(values);
            db.put(bytes(key), packed(record));
            return Status.OK;
        } catch (RocksDBException e) {
            return failed(e);
        }
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        try {
            db.put(bytes(key), packed(values));
            return Status.OK;
        } catch (RocksDBException e) {
            return failed(e);
        }
    }

    @Override
    public Status delete(String table, String key) {
        try {
            db.delete(bytes(key));
            return Status.OK;
        } catch (RocksDBException e) {
            return failed(e);
        }
    }

    private static Status failed(RocksDBException error) {
        System.err.println("rocksdb: " + error);
        return Status.ERROR;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** The fields of a record that are asked for; null asks for all. */
    private static void select(byte[] value, Set<String> fields, Map<String, ByteIterator> into) {
        ByteBuffer at = ByteBuffer.wrap(value);
        while (at.hasRemaining()) {
            byte[] name = new byte[at.getInt()];
            byte[] field = new byte[at.getInt()];
            at.get(name).get(field);
            String text = new String(name, StandardCharsets.UTF_8);
            if (fields == null || fields.contains(text)) {
                into.put(text, new ByteArrayByteIterator(field));
            }
        }
    }

    private static byte[] packed(Map<String, ByteIterator> record) {
        int length = 0;
        Map<byte[], byte[]> fields = new HashMap<>();
        for (Map.Entry<String, ByteIterator> entry : record.entrySet()) {
            byte[] name = bytes(entry.getKey());
            byte[] field = entry.getValue().toArray();
            fields.put(name, field);
            length += 2 * Integer.BYTES + name.length + field.length;
        }
        ByteBuffer value = ByteBuffer.allocate(length);
        fields.forEach(
                (name, field) ->
                        value.putInt(name.length).putInt(field.length).put(name).put(field));
        return value.array();
    }
}
