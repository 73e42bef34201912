# Everything a newcomer or CI calls. `make test` is the whole check.

.PHONY: test fmt lint docs unit bench test-browser test-peers

test: fmt lint docs unit

fmt:
	cargo fmt --all -- --check

lint:
	cargo clippy --workspace --all-targets --quiet -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# Unit, integration and doc tests; the integration tests drive the real binary.
unit:
	cargo test --workspace --quiet

# Motes beside its peers in one run, with ratios; installs the peers into bench/.venv.
bench:
	bash bench/run.sh

# Opens real reports in Chromium; needs node, npm and chromium. Screenshots go to a temporary directory that it names.
test-browser:
	bash crates/motes-cli/tests/browser/run.sh

# The generator network against PyTorch, which it installs under target/ (bench/torch.sh).
test-peers:
	bash bench/check_peers.sh
