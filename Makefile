# Commands, from cheap to dear:
#   make check   format, clippy, and the tests that need neither root nor clang
#   make test    all tests; those that need root run if you are, and are counted as ignored otherwise
#   make demo    two databases under capture, and what each placement scheme would make of their writes (root)
#   make setup   installs what `make test` needs; `make demo` installs what it needs itself

# Of the BPF program's compiler; on the machine of a user who only builds, a warning is no error.
test clippy lint-rest: export PCSTREAM_WERROR = 1

CARGO_BUILD = cargo build --locked --release --features capture
PCSTREAM = $(or $(CARGO_TARGET_DIR),target)/release/pcstream
# Shell scripts by their first line.
SCRIPTS = $(shell git grep -lE '^\#(!/bin/(ba)?sh| shellcheck shell=)' -- ':!*.md')
# C that clang-format lays out: all but one file of tables of comments, which would lose their columns.
C_FILES = $(shell git ls-files '*.c' '*.h' ':!crates/pcstream-capture/bpf/wire.h')

.PHONY: help setup check msrv test wheel test-python experiments demo build lint clippy lint-rest format-check package agent libpcstream bench install deb static sbom site uninstall
help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -5
	@echo '  make build | lint | package | wheel | test-python | experiments | agent | libpcstream | bench | site | sbom | deb | static | install, uninstall (PREFIX=/usr/local)'

setup:
	scripts/setup test

build:
	scripts/setup build
	$(CARGO_BUILD)

demo:
	scripts/setup demo
	$(CARGO_BUILD)
	if [ "$$(id -u)" = 0 ]; then $(PCSTREAM) demo; else sudo $(PCSTREAM) demo; fi

# All but the BPF program with the least compiler that Cargo.toml says. Needs rustup with that toolchain.
msrv:
	cargo +$(shell sed -n 's/^rust-version = "\(.*\)"$$/\1.0/p' Cargo.toml) check --locked --workspace --exclude pcstream-cost --all-targets

check: format-check
	cargo clippy --locked --all-targets -- -D warnings
	cargo test --locked --quiet

test:
	scripts/setup --missing test
	PCSTREAM_PYTHON=$(abspath $(or $(CARGO_TARGET_DIR),target))/python-venv/bin/python PCSTREAM_REQUIRE_PYTHON=1 \
	    scripts/test --locked --workspace --features pcstream/capture

# The Python package: its wheel in target/wheels, and its tests, which install a wheel of their own.
wheel:
	scripts/python-venv $(abspath $(or $(CARGO_TARGET_DIR),target))/python-venv
	cd python && $(abspath $(or $(CARGO_TARGET_DIR),target))/python-venv/bin/maturin build --locked --release \
	    --out $(abspath $(or $(CARGO_TARGET_DIR),target))/wheels

test-python:
	scripts/test-python

# The papers' figures (experiments/README.md): make experiments NAME=all QUICK=1. As root; exit code 3: something is left out.
EXPERIMENTS = $(abspath $(or $(CARGO_TARGET_DIR),target))/python-venv
experiments: wheel build
	$(EXPERIMENTS)/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	    $(abspath $(or $(CARGO_TARGET_DIR),target))/wheels/pcstream-*.whl
	PCSTREAM_BINARY=$(abspath $(PCSTREAM)) $(EXPERIMENTS)/bin/python -m experiments $(if $(QUICK),--quick) $(if $(RECORDINGS),--recordings $(RECORDINGS)) $(if $(AGAIN),--again) $(if $(PUBLISH),--publish) $(if $(OUT),--out $(OUT)) $(or $(NAME),--list)

format-check:
	cargo fmt --all --check

# What `check` leaves out: the code that needs clang, documentation, Java, shell scripts, licences of dependencies.
lint: format-check clippy lint-rest
clippy:
	cargo clippy --locked --workspace --all-targets --features pcstream/capture -- -D warnings
# What needs neither rustfmt nor clippy.
lint-rest:
	PCSTREAM_TIDY=strict cargo test --locked --quiet --workspace --features pcstream/capture --test tidy
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --exclude pcstream --features pcstream-capture/bpf --no-deps --quiet
	if command -v mvn >/dev/null; then mvn -q -B -f jvm/pom.xml spotless:check; \
	    else echo 'mvn is not installed: the format of Java sources was not checked'; fi
	if command -v shellcheck >/dev/null; then shellcheck --severity=warning $(SCRIPTS); \
	    else echo 'shellcheck is not installed: shell scripts were not checked'; fi
	if command -v clang-format-14 >/dev/null; then clang-format-14 --dry-run -Werror $(C_FILES); \
	    else echo 'clang-format-14 is not installed: the format of C was not checked'; fi
	scripts/dependencies

# The crates as they would be published: packed, and each built from its package. Needs Cargo 1.90 or newer.
package:
	cargo publish --locked --workspace --dry-run --features pcstream/capture --target-dir target/packages

# The Debian package: target/deb/pcstream_VERSION_ARCHITECTURE.deb. It is built in a directory of its own, without the paths of
# this machine in the binary, so that the same commit and compilers give the same bytes. `scripts/package-check` tries it.
AGENT = jvm/target/pcstream-agent.jar
REMAP = --remap-path-prefix=$(CURDIR)=/pcstream --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo
DEB = $(abspath $(or $(CARGO_TARGET_DIR),target))/deb
deb:
	scripts/setup --missing deb || scripts/setup deb
	RUSTFLAGS='$(REMAP)' CARGO_TARGET_DIR=$(DEB)/target $(CARGO_BUILD)
	mvn -q -B -f jvm/pom.xml package
	packaging/deb $(DEB)/target/release/pcstream $(AGENT) $(DEB)

# One file that needs no library where it runs: target/static/pcstream (docs/howto/static.md). `scripts/static-check` tries it. The GNU
# linker, because what rust-lld makes of a static program with link-time optimisation crashes as it starts. Random numbers are the
# kernel's own: the crate would look for glibc's function, which a static program cannot do, and then read /dev/urandom.
STATIC = $(abspath $(or $(CARGO_TARGET_DIR),target))/static
STATIC_FLAGS = -C target-feature=+crt-static -C link-arg=-fuse-ld=bfd --cfg getrandom_backend="linux_getrandom"
STATIC_TARGET = $(shell uname -m)-unknown-linux-gnu
static:
	scripts/setup --missing build || scripts/setup build
	RUSTFLAGS='$(STATIC_FLAGS) $(REMAP)' CARGO_TARGET_DIR=$(STATIC)/target $(CARGO_BUILD) -p pcstream --target $(STATIC_TARGET)
	strip --strip-debug -o $(STATIC)/pcstream $(STATIC)/target/$(STATIC_TARGET)/release/pcstream

# What is compiled in, with versions and licences: target/pcstream.spdx.json.
sbom:
	mkdir -p target
	scripts/sbom > target/pcstream.spdx.json

# The documentation as a web site in target/site/html. Where mdbook is not installed, it is built into target/, in two minutes.
MDBOOK = $(abspath $(or $(CARGO_TARGET_DIR),target))/mdbook
site:
	command -v mdbook >/dev/null || [ -x $(MDBOOK)/bin/mdbook ] || \
		cargo install --quiet --locked --no-default-features --version 0.4.40 --root $(MDBOOK) mdbook
	PATH="$$PATH:$(MDBOOK)/bin" scripts/site target/site

# Writes its results to bench/results/.
bench:
	scripts/bench

# The Java agent: jvm/target/pcstream-agent.jar.
agent:
	scripts/setup agent
	mvn -q -B -f jvm/pom.xml package

# pcstream.h as functions, for languages that call C. A program that is linked with it looks for the name that ends in .0.
libpcstream: target/libpcstream.so target/libpcstream.so.0
target/libpcstream.so: libpcstream/pcstream.c libpcstream/pcstream.h libpcstream/answers.h
	mkdir -p target
	$(CC) -O2 -Wall -Wextra $(if $(filter 1,$(PCSTREAM_WERROR)),-Werror) -shared -fPIC -fvisibility=hidden -Wl,-soname,libpcstream.so.0 -o $@ libpcstream/pcstream.c
target/libpcstream.so.0: target/libpcstream.so
	ln -sf libpcstream.so $@

PREFIX ?= /usr/local
# The kernel module, as DKMS takes it.
MODULE_FILES = Kbuild Makefile README.md dkms.conf pcstream_bio.c
MODULE_SOURCE = src/pcstream-bio-$(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"$$/\1/p' kmod/pcstream_bio/dkms.conf)
install:
	@$(PCSTREAM) --version 2>&1 | grep -q '^capture: compiled in' && [ -e target/libpcstream.so ] || \
	    { echo 'no $(PCSTREAM) with capture, or no target/libpcstream.so; first, as the user who builds: make build libpcstream' >&2; exit 1; }
	install -D -m 755 $(PCSTREAM) $(DESTDIR)$(PREFIX)/bin/pcstream
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(PCSTREAM) man --output $(DESTDIR)$(PREFIX)/share/man/man1
	$(PCSTREAM) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pcstream
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	for unit in pcstream-place@ pcstream-serve@; do \
		sed 's,@BINDIR@,$(PREFIX)/bin,' packaging/systemd/$$unit.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit.service || exit; \
	done
	install -D -m 644 libpcstream/pcstream.h $(DESTDIR)$(PREFIX)/include/pcstream.h
	install -D -m 755 target/libpcstream.so $(DESTDIR)$(PREFIX)/lib/libpcstream.so.0
	ln -sf libpcstream.so.0 $(DESTDIR)$(PREFIX)/lib/libpcstream.so
	install -D -m 644 packaging/grafana/pcstream.json $(DESTDIR)$(PREFIX)/share/pcstream/grafana/pcstream.json
	install -d $(DESTDIR)$(PREFIX)/$(MODULE_SOURCE)
	install -m 644 $(addprefix kmod/pcstream_bio/, $(MODULE_FILES)) $(DESTDIR)$(PREFIX)/$(MODULE_SOURCE)

# What `make install` brought.
uninstall:
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/, bin/pcstream share/man/man1/pcstream.1 share/man/man1/pcstream-*.1 \
		share/bash-completion/completions/pcstream lib/systemd/system/pcstream-place@.service \
		lib/systemd/system/pcstream-serve@.service include/pcstream.h lib/libpcstream.so lib/libpcstream.so.0 \
		share/pcstream/grafana/pcstream.json $(addprefix $(MODULE_SOURCE)/, $(MODULE_FILES)))
	for directory in $(addprefix $(DESTDIR)$(PREFIX)/, share/pcstream/grafana share/pcstream $(MODULE_SOURCE)); do \
		[ ! -d $$directory ] || rmdir --ignore-fail-on-non-empty $$directory; \
	done
