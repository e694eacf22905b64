// SPDX-License-Identifier: MIT OR Apache-2.0

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.Callable;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * YCSB's operations on a store of keys and byte strings: one store for all threads of YCSB's
 * client.
 *
 * <p>A record is one value: its fields one after another, each as two lengths and two byte strings.
 * An update reads the record and writes it whole, as YCSB's own bindings of such stores do. Keys of
 * all tables lie in one key space.
 *
 * <p>Properties: {@code store.path}, where the store is, and {@code store.bytes}, how much data it
 * will have.
 */
public abstract class ByteStoreClient extends DB {
    /** A store, opened once. */
    protected interface Store extends AutoCloseable {
        /** The value of a key, or null. */
        byte[] get(String key) throws Exception;

        void put(String key, byte[] value) throws Exception;

        void delete(String key) throws Exception;

        /** Up to so many values, in the order of keys, from one on. */
        Iterable<byte[]> scan(String from, int values) throws Exception;
    }

    private static Store store;
    private static int users;

    /** Makes a new store. */
    protected abstract Store open(String path, long bytes) throws Exception;

    @Override
    public void init() throws DBException {
        synchronized (ByteStoreClient.class) {
            if (users++ > 0) {
                return;
            }
            String path = getProperties().getProperty("store.path");
            try {
                store = open(path, Long.parseLong(getProperties().getProperty("store.bytes")));
            } catch (Exception e) {
                throw new DBException(e);
            }
        }
    }

    @Override
    public void cleanup() throws DBException {
        synchronized (ByteStoreClient.class) {
            if (--users > 0) {
                return;
            }
            try {
                store.close();
            } catch (Exception e) {
                throw new DBException(e);
            }
        }
    }

    @Override
    public Status read(
            String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        return tried(
                () -> {
                    byte[] value = store.get(key);
                    if (value == null) {
                        return Status.NOT_FOUND;
                    }
                    select(value, fields, result);
                    return Status.OK;
                });
    }

    @Override
    public Status scan(
            String table,
            String start,
            int records,
            Set<String> fields,
            Vector<HashMap<String, ByteIterator>> result) {
        return tried(
                () -> {
                    for (byte[] value : store.scan(start, records)) {
                        HashMap<String, ByteIterator> record = new HashMap<>();
                        select(value, fields, record);
                        result.add(record);
                    }
                    return Status.OK;
                });
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        return tried(
                () -> {
                    byte[] old = store.get(key);
                    if (old == null) {
                        return Status.NOT_FOUND;
                    }
                    Map<String, ByteIterator> record = new HashMap<>();
                    select(old, null, record);
                    record.putAll(values);
                    store.put(key, packed(record));
                    return Status.OK;
                });
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        return tried(
                () -> {
                    store.put(key, packed(values));
                    return Status.OK;
                });
    }

    @Override
    public Status delete(String table, String key) {
        return tried(
                () -> {
                    store.delete(key);
                    return Status.OK;
                });
    }

    /** What an operation says; an error is printed, and YCSB counts it. */
    private static Status tried(Callable<Status> operation) {
        try {
            return operation.call();
        } catch (Exception e) {
            System.err.println(e);
            return Status.ERROR;
        }
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
