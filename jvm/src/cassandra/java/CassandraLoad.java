// SPDX-License-Identifier: MIT OR Apache-2.0

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.service.CassandraDaemon;
import org.apache.cassandra.service.StorageService;

/**
 * Cassandra and its load in one JVM, without a network: inserts into one table, updates of few rows
 * of another, so that commit log, flushes and compactions all happen; then a forced flush, a forced
 * compaction and a clean end.
 *
 * <p>arguments: operations per thread
 */
public final class CassandraLoad {
    private static final int THREADS = 2;
    private static final int HOT = 2_000;

    private CassandraLoad() {}

    public static void main(String[] arguments) throws Exception {
        int operations = Integer.parseInt(arguments[0]);
        CassandraDaemon daemon = new CassandraDaemon(true);
        daemon.activate();
        schema(
                "CREATE KEYSPACE IF NOT EXISTS load WITH replication = "
                        + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
        schema(
                "CREATE TABLE IF NOT EXISTS load.events (id bigint PRIMARY KEY, body text) WITH compaction = "
                        + "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': 4}");
        schema(
                "CREATE TABLE IF NOT EXISTS load.users (id bigint PRIMARY KEY, body text) WITH compaction = "
                        + "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 8}");

        long start = System.nanoTime();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int me = i;
            Thread thread = new Thread(() -> work(me, operations), "load-" + i);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.printf(
                "%d writes in %.1f s%n", THREADS * operations, (System.nanoTime() - start) / 1e9);
        StorageService.instance.forceKeyspaceFlush("load");
        StorageService.instance.forceKeyspaceCompaction(false, "load");
        StorageService.instance.drain();
        System.out.println("drained");
        // Pools of Cassandra keep the JVM alive.
        System.exit(0);
    }

    private static void schema(String statement) {
        QueryProcessor.process(statement, ConsistencyLevel.ONE);
    }

    private static void work(int me, int operations) {
        SplittableRandom random = new SplittableRandom(me);
        for (int i = 0; i < operations; i++) {
            if (i % 2 == 0) {
                insert((long) me * operations + i, random);
            } else {
                update(random.nextInt(HOT), random);
            }
        }
    }

    private static void insert(long id, SplittableRandom random) {
        QueryProcessor.executeInternal(
                "INSERT INTO load.events (id, body) VALUES (?, ?)", id, body(random));
    }

    private static void update(long id, SplittableRandom random) {
        QueryProcessor.executeInternal(
                "UPDATE load.users SET body = ? WHERE id = ?", body(random), id);
    }

    /** Text that does not compress much. */
    private static String body(SplittableRandom random) {
        StringBuilder text = new StringBuilder(400);
        for (int i = 0; i < 25; i++) {
            text.append(Long.toHexString(random.nextLong() | 1L << 63));
        }
        return text.toString();
    }
}
