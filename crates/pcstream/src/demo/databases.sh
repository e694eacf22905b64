#!/bin/sh
# Two databases on one file system: SQLite updates rows at random in place, with a write-ahead log; RocksDB overwrites
# keys beside it. Runs in the current directory, which is what `pcstream demo` captures.
#
# The log lives for seconds, table files for minutes, rows of SQLite for as long as chance will have it: an SSD that mixes
# them copies a lot. How long it takes does not matter: both do a given number of operations, and what they may hold at
# most is limited by their own settings (SQLite checkpoints every 1,000 pages; RocksDB stops writers at 12 files of level
# 0, or when 32 MiB wait for compaction). On an idle machine with two processors it takes about a minute.
set -eu
rows=140000      # of 1,800 bytes, two to a page
transactions=160000
updates=4        # in each transaction
keys=150000      # of RocksDB, 400 bytes each

sql() {
    cat <<SQL
.bail on
pragma page_size = 4096;
pragma journal_mode = off;
create table t (a integer primary key, b blob);
insert into t with recursive n(i) as (values (1) union all select i + 1 from n where i < $rows)
    select i, randomblob(1800) from n;
pragma journal_mode = wal;
pragma synchronous = normal;
SQL
    awk -v rows="$rows" -v transactions="$transactions" -v updates="$updates" 'BEGIN {
        srand(1)
        for (i = 0; i < transactions; i++) {
            line = "begin;"
            for (j = 0; j < updates; j++)
                line = line " update t set b = randomblob(1800) where a = " 1 + int(rand() * rows) ";"
            print line " commit;"
        }
    }'
}

workload() {
    db_bench --db=rocksdb --benchmarks=fillrandom,overwrite,overwrite,overwrite,overwrite,overwrite --num="$keys" --value_size=400 \
        --write_buffer_size=1048576 --target_file_size_base=262144 --max_bytes_for_level_base=4194304 \
        --level0_slowdown_writes_trigger=8 --level0_stop_writes_trigger=12 \
        --soft_pending_compaction_bytes_limit=16777216 --hard_pending_compaction_bytes_limit=33554432 \
        --max_background_jobs=2 --compression_type=none --seed=1 --stats_interval=-1 >/dev/null 2>rocksdb.log &
    rocksdb=$!
    sql | sqlite3 sqlite.db >/dev/null || { kill "$rocksdb"; exit 1; }
    wait "$rocksdb" || { cat rocksdb.log >&2; exit 1; }
}

workload
