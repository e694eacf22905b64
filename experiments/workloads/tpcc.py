"""TPC-C on SQLite: the five transactions in the standard mix, and the consistency conditions 1 to 4 of clause 3.3.2.

Rows, keys and the choice of customers and items (NURand) are those of TPC-C revision 5.11. Four things differ, so the result is
no tpmC: one terminal works without thinking (``--rate`` paces it), ``--scale`` shrinks the tables of a warehouse, texts are random letters throughout,
and every customer and every item is of the terminal's own warehouse. ``python tpcc.py FILE --help`` lists the settings. Exit code 1: a consistency condition does not hold.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import string
import sys
import time

NAMES = ("BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING")
DISTRICTS = 10
#: Clause 5.2.3: shares of New-Order, Payment, Order-Status, Delivery and Stock-Level.
MIX = (45, 43, 4, 4, 4)
NOW = "2019-02-25 09:00:00"

SCHEMA = """
CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_name TEXT, w_tax REAL, w_ytd REAL);
CREATE TABLE district (d_w_id INT, d_id INT, d_name TEXT, d_tax REAL, d_ytd REAL, d_next_o_id INT,
    PRIMARY KEY (d_w_id, d_id)) WITHOUT ROWID;
CREATE TABLE customer (c_w_id INT, c_d_id INT, c_id INT, c_first TEXT, c_last TEXT, c_credit TEXT, c_discount REAL,
    c_balance REAL, c_ytd_payment REAL, c_payment_cnt INT, c_delivery_cnt INT, c_data TEXT,
    PRIMARY KEY (c_w_id, c_d_id, c_id)) WITHOUT ROWID;
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE history (h_c_id INT, h_c_d_id INT, h_c_w_id INT, h_d_id INT, h_w_id INT, h_date TEXT, h_amount REAL, h_data TEXT);
CREATE TABLE new_order (no_w_id INT, no_d_id INT, no_o_id INT, PRIMARY KEY (no_w_id, no_d_id, no_o_id)) WITHOUT ROWID;
CREATE TABLE orders (o_w_id INT, o_d_id INT, o_id INT, o_c_id INT, o_entry_d TEXT, o_carrier_id INT, o_ol_cnt INT,
    PRIMARY KEY (o_w_id, o_d_id, o_id)) WITHOUT ROWID;
CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
CREATE TABLE order_line (ol_w_id INT, ol_d_id INT, ol_o_id INT, ol_number INT, ol_i_id INT, ol_delivery_d TEXT,
    ol_quantity INT, ol_amount REAL, ol_dist_info TEXT, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)) WITHOUT ROWID;
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_name TEXT, i_price REAL, i_data TEXT);
CREATE TABLE stock (s_w_id INT, s_i_id INT, s_quantity INT, s_dist TEXT, s_ytd INT, s_order_cnt INT, s_data TEXT,
    PRIMARY KEY (s_w_id, s_i_id)) WITHOUT ROWID;
"""

#: Each gives a row only where the condition fails: clauses 3.3.2.1 to 3.3.2.4.
CONDITIONS = (
    ("W_YTD = sum of D_YTD", "SELECT w_id FROM warehouse WHERE abs(w_ytd - (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)) > 0.01"),
    (
        "D_NEXT_O_ID - 1 = greatest O_ID",
        "SELECT d_w_id, d_id FROM district WHERE d_next_o_id - 1 <>"
        " (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)",
    ),
    (
        # A district whose orders are all delivered has none that is new.
        "D_NEXT_O_ID - 1 = greatest NO_O_ID",
        "SELECT no_w_id, no_d_id FROM new_order JOIN district ON d_w_id = no_w_id AND d_id = no_d_id"
        " GROUP BY no_w_id, no_d_id HAVING max(no_o_id) <> max(d_next_o_id) - 1",
    ),
    (
        "new orders have consecutive numbers",
        "SELECT no_w_id, no_d_id FROM new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    ),
    (
        "sum of O_OL_CNT = lines of orders",
        "SELECT o_w_id, o_d_id FROM orders GROUP BY o_w_id, o_d_id HAVING sum(o_ol_cnt) <>"
        " (SELECT count(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id)",
    ),
)


class Warehouse:
    """The database, and one terminal."""

    def __init__(self, db: sqlite3.Connection, warehouses: int, scale: float, seed: int) -> None:
        self.db = db
        self.warehouses = warehouses
        self.customers = max(int(3000 * scale), 30)
        self.items = max(int(100_000 * scale), 100)
        self.random = random.Random(seed)
        self.constant = {255: self.random.randrange(256), 1023: self.random.randrange(1024), 8191: self.random.randrange(8192)}
        #: Transactions by kind, and New-Orders that were rolled back.
        self.done = [0] * len(MIX)
        self.rolled_back = 0

    def text(self, least: int, most: int) -> str:
        return "".join(self.random.choices(string.ascii_letters, k=self.random.randint(least, most)))

    def uneven(self, a: int, x: int, y: int) -> int:
        """NURand of clause 2.1.6."""
        return ((self.random.randint(0, a) | self.random.randint(x, y)) + self.constant[a]) % (y - x + 1) + x

    def last_name(self, number: int) -> str:
        return NAMES[number // 100] + NAMES[number // 10 % 10] + NAMES[number % 10]

    def load(self) -> None:
        """Clause 4.3.3, with tables of the scaled sizes."""
        db = self.db
        db.executescript(SCHEMA)
        db.execute("BEGIN")
        db.executemany("INSERT INTO item VALUES (?,?,?,?)", (
            (i, self.text(14, 24), self.random.uniform(1, 100), self.text(26, 50)) for i in range(1, self.items + 1)))
        for w in range(1, self.warehouses + 1):
            db.execute("INSERT INTO warehouse VALUES (?,?,?,?)", (w, self.text(6, 10), self.random.uniform(0, 0.2), 30_000.0 * DISTRICTS))
            db.executemany("INSERT INTO stock VALUES (?,?,?,?,0,0,?)", (
                (w, i, self.random.randint(10, 100), self.text(240, 240), self.text(26, 50)) for i in range(1, self.items + 1)))
            for d in range(1, DISTRICTS + 1):
                self._load_district(w, d)
        db.execute("COMMIT")

    def _load_district(self, w: int, d: int) -> None:
        db, n = self.db, self.customers
        db.execute("INSERT INTO district VALUES (?,?,?,?,?,?)", (w, d, self.text(6, 10), self.random.uniform(0, 0.2), 30_000.0, n + 1))
        db.executemany("INSERT INTO customer VALUES (?,?,?,?,?,?,?,-10.0,10.0,1,0,?)", (
            (w, d, c, self.text(8, 16), self.last_name(c - 1 if c <= 1000 else self.uneven(255, 0, 999)),
             "BC" if self.random.random() < 0.1 else "GC", self.random.uniform(0, 0.5), self.text(300, 500)) for c in range(1, n + 1)))
        buyers = list(range(1, n + 1))
        self.random.shuffle(buyers)
        for o, c in enumerate(buyers, 1):
            lines, delivered = self.random.randint(5, 15), o <= n * 7 // 10
            db.execute("INSERT INTO orders VALUES (?,?,?,?,?,?,?)", (w, d, o, c, NOW, self.random.randint(1, 10) if delivered else None, lines))
            db.executemany("INSERT INTO order_line VALUES (?,?,?,?,?,?,5,?,?)", (
                (w, d, o, line, self.random.randint(1, self.items), NOW if delivered else None,
                 0.0 if delivered else self.random.uniform(0.01, 9999.99), self.text(24, 24)) for line in range(1, lines + 1)))
            if not delivered:
                db.execute("INSERT INTO new_order VALUES (?,?,?)", (w, d, o))

    def run(self, transactions: int, rate: float | None) -> None:
        """Transactions in the standard mix, each committed; ``rate`` a second on average: after a stall it catches up."""
        kinds = (self.new_order, self.payment, self.order_status, self.delivery, self.stock_level)
        begun = time.monotonic()
        for number, kind in enumerate(self.random.choices(range(len(MIX)), MIX, k=transactions)):
            if rate:
                time.sleep(max(begun + number / rate - time.monotonic(), 0))
            self.db.execute("BEGIN IMMEDIATE")
            self.db.execute("COMMIT" if kinds[kind](self.random.randint(1, self.warehouses)) else "ROLLBACK")
            self.done[kind] += 1

    def new_order(self, w: int) -> bool:
        """Clause 2.4: one in a hundred names an item that does not exist, and is rolled back."""
        db, d = self.db, self.random.randint(1, DISTRICTS)
        c = self.uneven(1023, 1, self.customers)
        lines, unused = self.random.randint(5, 15), self.random.randint(1, 100) == 1
        (o,) = db.execute("SELECT d_next_o_id FROM district WHERE d_w_id=? AND d_id=?", (w, d)).fetchone()
        db.execute("UPDATE district SET d_next_o_id = ? WHERE d_w_id=? AND d_id=?", (o + 1, w, d))
        db.execute("INSERT INTO orders VALUES (?,?,?,?,?,NULL,?)", (w, d, o, c, NOW, lines))
        db.execute("INSERT INTO new_order VALUES (?,?,?)", (w, d, o))
        for line in range(1, lines + 1):
            i = 0 if unused and line == lines else self.uneven(8191, 1, self.items)
            price = db.execute("SELECT i_price FROM item WHERE i_id=?", (i,)).fetchone()
            if price is None:
                self.rolled_back += 1
                return False
            quantity = self.random.randint(1, 10)
            (there,) = db.execute("SELECT s_quantity FROM stock WHERE s_w_id=? AND s_i_id=?", (w, i)).fetchone()
            left = there - quantity if there >= quantity + 10 else there - quantity + 91
            db.execute("UPDATE stock SET s_quantity=?, s_ytd=s_ytd+?, s_order_cnt=s_order_cnt+1 WHERE s_w_id=? AND s_i_id=?", (left, quantity, w, i))
            db.execute("INSERT INTO order_line VALUES (?,?,?,?,?,NULL,?,?,?)", (w, d, o, line, i, quantity, quantity * price[0], self.text(24, 24)))
        return True

    def customer(self, w: int, d: int) -> int:
        """Clause 2.5.1.2: six in ten are found by their last name, the middle one of those with it."""
        if self.random.randint(1, 100) <= 60:
            name = self.last_name(self.uneven(255, 0, min(self.customers, 1000) - 1))
            found = self.db.execute("SELECT c_id FROM customer WHERE c_w_id=? AND c_d_id=? AND c_last=? ORDER BY c_first", (w, d, name)).fetchall()
            if found:
                return int(found[len(found) // 2][0])
        return self.uneven(1023, 1, self.customers)

    def payment(self, w: int) -> bool:
        """Clause 2.5."""
        db, d, amount = self.db, self.random.randint(1, DISTRICTS), self.random.uniform(1, 5000)
        c = self.customer(w, d)
        db.execute("UPDATE warehouse SET w_ytd=w_ytd+? WHERE w_id=?", (amount, w))
        db.execute("UPDATE district SET d_ytd=d_ytd+? WHERE d_w_id=? AND d_id=?", (amount, w, d))
        key = (w, d, c)
        db.execute("UPDATE customer SET c_balance=c_balance-?, c_ytd_payment=c_ytd_payment+?, c_payment_cnt=c_payment_cnt+1"
                   " WHERE c_w_id=? AND c_d_id=? AND c_id=?", (amount, amount, *key))
        credit, data = db.execute("SELECT c_credit, c_data FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?", key).fetchone()
        if credit == "BC":
            data = f"{c} {d} {w} {amount:.2f} {data}"[:500]
            db.execute("UPDATE customer SET c_data=? WHERE c_w_id=? AND c_d_id=? AND c_id=?", (data, *key))
        db.execute("INSERT INTO history VALUES (?,?,?,?,?,?,?,?)", (c, d, w, d, w, NOW, amount, self.text(12, 24)))
        return True

    def order_status(self, w: int) -> bool:
        """Clause 2.6: reads only."""
        d = self.random.randint(1, DISTRICTS)
        key = (w, d, self.customer(w, d))
        order = self.db.execute("SELECT o_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_c_id=? ORDER BY o_id DESC", key).fetchone()
        if order:
            self.db.execute("SELECT * FROM order_line WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?", (w, d, order[0])).fetchall()
        return True

    def delivery(self, w: int) -> bool:
        """Clause 2.7: the oldest new order of every district."""
        db, carrier = self.db, self.random.randint(1, 10)
        for d in range(1, DISTRICTS + 1):
            (o,) = db.execute("SELECT min(no_o_id) FROM new_order WHERE no_w_id=? AND no_d_id=?", (w, d)).fetchone()
            if o is None:
                continue
            key = (w, d, o)
            db.execute("DELETE FROM new_order WHERE no_w_id=? AND no_d_id=? AND no_o_id=?", key)
            (c,) = db.execute("SELECT o_c_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_id=?", key).fetchone()
            db.execute("UPDATE orders SET o_carrier_id=? WHERE o_w_id=? AND o_d_id=? AND o_id=?", (carrier, *key))
            (total,) = db.execute("SELECT sum(ol_amount) FROM order_line WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?", key).fetchone()
            db.execute("UPDATE order_line SET ol_delivery_d=? WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?", (NOW, *key))
            db.execute("UPDATE customer SET c_balance=c_balance+?, c_delivery_cnt=c_delivery_cnt+1"
                       " WHERE c_w_id=? AND c_d_id=? AND c_id=?", (total, w, d, c))
        return True

    def stock_level(self, w: int) -> bool:
        """Clause 2.8: reads only."""
        d = self.random.randint(1, DISTRICTS)
        (o,) = self.db.execute("SELECT d_next_o_id FROM district WHERE d_w_id=? AND d_id=?", (w, d)).fetchone()
        self.db.execute(
            "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id=ol_w_id AND s_i_id=ol_i_id"
            " WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id BETWEEN ? AND ? AND s_quantity<?",
            (w, d, o - 20, o - 1, self.random.randint(10, 20)),
        ).fetchone()
        return True

    def broken(self) -> list[str]:
        """The consistency conditions that do not hold."""
        return [name for name, query in CONDITIONS if self.db.execute(query).fetchone()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="the database; it must not exist")
    parser.add_argument("--warehouses", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="size of a warehouse's tables, as a share of TPC-C's")
    parser.add_argument("--transactions", type=int, default=20_000)
    parser.add_argument("--rate", type=float, help="transactions a second, on average (default: as many as can be)")
    parser.add_argument("--journal", choices=("delete", "wal"), default="delete")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    db = sqlite3.connect(args.file, isolation_level=None)
    db.execute(f"PRAGMA journal_mode={args.journal}")
    db.execute("PRAGMA cache_size=-4096")
    bench = Warehouse(db, args.warehouses, args.scale, args.seed)
    bench.load()
    bench.run(args.transactions, args.rate)
    broken = bench.broken()
    db.close()
    print(f"transactions {bench.done}, rolled back {bench.rolled_back}", file=sys.stderr)
    for condition in broken:
        print(f"{args.file}: does not hold: {condition}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
