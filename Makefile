# Everything a newcomer or CI calls. `make test` is the whole check.

.PHONY: test fmt lint docs unit python test-slow test-arm test-mpi test-python-full bench folds results test-browser test-peers test-parquet fuzz deny book package binary wheel notes draft-release

test: fmt lint docs unit python

fmt:
	cargo fmt --all -- --check

lint:
	cargo clippy --workspace --all-targets --quiet -- -D warnings

docs:
	python3 docs/tools/check_links.py
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# The docs as a site, target/book/book/index.html, with references of the commands and of Python.
book:
	bash docs/tools/book.sh

# Unit, integration and doc tests; the integration tests drive the real binary.
unit:
	cargo test --workspace --quiet --no-fail-fast

# The Python package, in a virtual environment of its own under target/ (NumPy and pytest; PYTHON_TESTS=most adds more).
python:
	bash crates/motes-py/test.sh $(PYTHON_TESTS)

# The fit without tuning on all models whose truth is known, over 200 seeds and 400 simulated data sets: a quarter of an hour on two
# cores. It prints the tables of docs/auto.md.
test-slow:
	cargo test --release -p motes-models --test all auto:: -- --ignored --nocapture --test-threads 1

# The bits of kernels and of whole runs of every model on AArch64, emulated: they must be those of this processor.
test-arm:
	bash crates/motes-cli/tests/arm/run.sh

# The same with JAX, PyTorch, ArviZ, scikit-learn, matplotlib, Jupyter and mypy; then the wheel and the package in fresh environments.
test-python-full:
	bash crates/motes-py/test.sh full

# Motes beside its peers in one run, with ratios; installs the peers into bench/.venv.
bench:
	bash bench/run.sh

# Log loss beside scikit-learn's cross-validation, as docs/tables.md has it; TABLES is a directory of tables (bench/folds.py).
TABLES ?= .
folds:
	bash bench/folds.sh $(TABLES)

# Writes docs/results.md and its figures: the paper's number of replicates, and generators far smaller than the paper's (half an
# hour).
results:
	cargo build --release
	target/release/motes paper fig1 fig2 radii fig3 table1 table3 --full --out runs/paper
	target/release/motes paper table4 --quick --out runs/paper
	target/release/motes paper fig4 table2 --full --out runs/paper --docs docs

# Opens real reports in Chromium, which it installs if need be. Screenshots go to a temporary directory that it names.
test-browser:
	bash crates/motes-cli/tests/browser/run.sh

# The generator network against PyTorch, which it installs under target/ (bench/torch.sh).
test-peers:
	bash bench/check_peers.sh

# Tables from Parquet files, which the usual build leaves out.
test-parquet:
	cargo test --quiet -p motes-models --features parquet --test all parquet

# Runs that several processes share, by OpenMPI, which it installs if it can; else it says so.
test-mpi:
	bash crates/motes-cli/tests/mpi/run.sh

# Damaged files for every reader, FUZZ seconds for each of them in FUZZ_TARGETS (all, unless some are named). Each goes on where it
# ended the last time; what it finds is in target/fuzz.
FUZZ ?= 600
fuzz:
	cargo run --release --quiet -p motes-fuzz -- $(FUZZ_TARGETS) --seconds $(FUZZ)

# Licences, sources and known defects of all dependencies. The latter need the advisories' database from the network: without it,
# DENY="bans licenses sources".
DENY ?= advisories bans licenses sources
deny:
	@command -v cargo-deny > /dev/null || { echo "make deny needs cargo-deny; install it with: cargo install --locked cargo-deny"; exit 2; }
	cargo deny check $(DENY)

# What a registry would get of the library crates and the command line: each is built from its package alone, in the order in which
# they would be published, and nothing is uploaded.
package:
	cargo publish --dry-run --workspace --exclude motes-py --exclude motes-fuzz

# The binary as it is released, in target/dist and target/motes-NAME.tar.gz.
EXE = $(if $(filter Windows_NT,$(OS)),.exe)
binary:
	cargo build --release --locked -p motes-cli
	rm -rf target/dist && mkdir -p target/dist
	cp target/release/motes$(EXE) target/dist/
	cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE target/dist/
	tar -C target/dist -czf target/motes-$(or $(NAME),binary).tar.gz .

# The Python wheel for this machine with the command in it, in target/wheels; WHEEL="--compatibility manylinux2014 --zig" and the like
# go to maturin.
BIN = $(if $(filter Windows_NT,$(OS)),Scripts,bin)
wheel:
	python3 -m venv target/python-wheel
	target/python-wheel/$(BIN)/python -m pip install --quiet "maturin[zig]>=1.9.4,<2" cargo-zigbuild
	# The path is for zig, which maturin looks for as a module of the first Python there.
	PATH="$(CURDIR)/target/python-wheel/$(BIN):$$PATH" MATURIN_PEP517_ARGS="--locked $(WHEEL)" \
		target/python-wheel/$(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir target/wheels .

# What the changelog says of the version in Cargo.toml, for a release.
notes:
	@python3 docs/tools/notes.py

# A draft of a release of TAG on GitHub with the files below target/release-files; the release workflow calls it.
draft-release:
	$(MAKE) --silent notes > target/release-notes.md
	gh release create "$(TAG)" --draft --title "$(TAG)" --notes-file target/release-notes.md $$(find target/release-files -type f)
