# Two commands do everything on a fresh Debian or Ubuntu machine:
#   make demo   RocksDB under capture, and what each scheme would make of its writes (root)
#   make test   all tests; those that need root run if you are, and are counted as ignored otherwise
# Neither needs anything but this checkout: what is missing is installed first.

# Of the BPF program's compiler; on the machine of a user who only builds, a warning is no error.
test lint: export PCSTREAM_WERROR = 1

CARGO_BUILD = cargo build --locked --release --features capture
PCSTREAM = $(or $(CARGO_TARGET_DIR),target)/release/pcstream

.PHONY: demo test build agent libpcstream lint bench install help
help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -4
	@echo '  make build | agent | libpcstream | lint | bench | install (PREFIX=/usr/local)'

build:
	scripts/setup build
	$(CARGO_BUILD)

demo:
	scripts/setup demo
	$(CARGO_BUILD)
	scripts/demo $(PCSTREAM)

test:
	scripts/setup test
	mvn -q -B -f jvm/pom.xml verify
	PCSTREAM_PYTHON=$(CURDIR)/target/venv/bin/python PCSTREAM_REQUIRE_PYTHON=1 \
	    cargo test --locked --workspace --features pcstream/capture

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --features pcstream/capture -- -D warnings

bench:
	cargo bench --locked

# The Java agent: jvm/target/pcstream-agent.jar.
agent:
	scripts/setup agent
	mvn -q -B -f jvm/pom.xml package

# pcstream.h as functions, for languages that call C.
libpcstream: target/libpcstream.so
target/libpcstream.so: libpcstream/pcstream.c libpcstream/pcstream.h
	mkdir -p target
	$(CC) -O2 -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden -Wl,-soname,libpcstream.so.0 -o $@ libpcstream/pcstream.c

PREFIX ?= /usr/local
install: build libpcstream
	install -D -m 755 $(PCSTREAM) $(DESTDIR)$(PREFIX)/bin/pcstream
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(PCSTREAM) man --output $(DESTDIR)$(PREFIX)/share/man/man1
	$(PCSTREAM) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pcstream
	install -D -m 644 libpcstream/pcstream.h $(DESTDIR)$(PREFIX)/include/pcstream.h
	install -D -m 755 target/libpcstream.so $(DESTDIR)$(PREFIX)/lib/libpcstream.so.0
	ln -sf libpcstream.so.0 $(DESTDIR)$(PREFIX)/lib/libpcstream.so
