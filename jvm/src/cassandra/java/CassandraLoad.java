// SPDX-License-Identifier: MIT OR Apache-2.0

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.IntConsumer;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.service.CassandraDaemon;
import org.apache.cassandra.service.StorageService;

/**
 * Cassandra and its load in one JVM, without a network; at last a forced flush, and a clean end.
 *
 * <p>One argument, operations per thread: inserts into one table, updates of few rows of another,
 * so that commit log, flushes and compactions all happen; then a forced compaction.
 *
 * <p>Four arguments, ycsb-a ROWS OPERATIONS SEED: YCSB's workload A. Rows of 1 KB are inserted,
 * then read and updated in equal parts, chosen by Zipf's law with constant 0.99.
 */
public final class CassandraLoad {
    private static final int THREADS = 2;
    private static final int HOT = 2_000;

    private CassandraLoad() {}

    public static void main(String[] arguments) throws Exception {
        CassandraDaemon daemon = new CassandraDaemon(true);
        daemon.activate();
        schema(
                "CREATE KEYSPACE IF NOT EXISTS load WITH replication = "
                        + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
        long start = System.nanoTime();
        long operations;
        if (arguments[0].equals("ycsb-a")) {
            operations =
                    ycsb(
                            Integer.parseInt(arguments[1]),
                            Integer.parseInt(arguments[2]),
                            Long.parseLong(arguments[3]));
        } else {
            operations = mixed(Integer.parseInt(arguments[0]));
        }
        System.out.printf(
                "%d operations in %.1f s%n", operations, (System.nanoTime() - start) / 1e9);
        StorageService.instance.drain();
        System.out.println("drained");
        // Pools of Cassandra keep the JVM alive.
        System.exit(0);
    }

    private static long mixed(int operations) throws Exception {
        schema(
                "CREATE TABLE IF NOT EXISTS load.events (id bigint PRIMARY KEY, body text) WITH compaction = "
                        + "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': 4}");
        schema(
                "CREATE TABLE IF NOT EXISTS load.users (id bigint PRIMARY KEY, body text) WITH compaction = "
                        + "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 8}");
        inThreads(me -> work(me, operations));
        StorageService.instance.forceKeyspaceFlush("load");
        StorageService.instance.forceKeyspaceCompaction(false, "load");
        return (long) THREADS * operations;
    }

    /** YCSB's fields are random bytes, which do not compress: so nothing is compressed. */
    private static long ycsb(int rows, int operations, long seed) throws Exception {
        schema(
                "CREATE TABLE IF NOT EXISTS load.usertable (id bigint PRIMARY KEY, field blob) WITH compaction = "
                        + "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': 4} "
                        + "AND compression = {'enabled': 'false'}");
        inThreads(
                me -> {
                    SplittableRandom random = new SplittableRandom(seed * THREADS + me);
                    for (int id = me; id < rows; id += THREADS) {
                        write(id, random);
                    }
                });
        double[] zipf = zipf(rows);
        inThreads(
                me -> {
                    SplittableRandom random = new SplittableRandom(~(seed * THREADS + me));
                    for (int i = me; i < operations; i += THREADS) {
                        long id = scrambled(rank(zipf, random.nextDouble()), rows);
                        if (random.nextBoolean()) {
                            QueryProcessor.executeInternal(
                                    "SELECT field FROM load.usertable WHERE id = ?", id);
                        } else {
                            write(id, random);
                        }
                    }
                });
        return (long) rows + operations;
    }

    private static void write(long id, SplittableRandom random) {
        byte[] field = new byte[1000];
        random.nextBytes(field);
        QueryProcessor.executeInternal(
                "INSERT INTO load.usertable (id, field) VALUES (?, ?)", id, ByteBuffer.wrap(field));
    }

    /** The distribution function of Zipf's law over ranks. */
    private static double[] zipf(int rows) {
        double[] sums = new double[rows];
        double sum = 0;
        for (int rank = 0; rank < rows; rank++) {
            sum += Math.pow(rank + 1, -0.99);
            sums[rank] = sum;
        }
        return sums;
    }

    private static int rank(double[] zipf, double uniform) {
        int at = Arrays.binarySearch(zipf, uniform * zipf[zipf.length - 1]);
        return Math.min(at < 0 ? ~at : at, zipf.length - 1);
    }

    /** Neighbours in rank are no neighbours in the table; some ranks share a row, as in YCSB. */
    private static long scrambled(int rank, int rows) {
        return Math.floorMod(new SplittableRandom(rank).nextLong(), (long) rows);
    }

    private static void inThreads(IntConsumer work) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            int me = i;
            Thread thread = new Thread(() -> work.accept(me), "load-" + i);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
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
