# The commands of every day; `just --list` tells them.

# Everything that CI runs, on this checkout.
ci:
    bash .ci/run

# All tests.
test:
    cargo test --locked --all-targets
    cargo test --locked --doc

# Formatting, lints, docs.
lint:
    cargo fmt --check
    cargo clippy --locked --all-targets -- -D warnings
    cargo clippy --locked --all-targets --features cuda -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

# The benches that speed claims rest on.
bench:
    cargo bench --locked

# The book of docs/, into target/book; `just book serve --open` shows it while you write.
book command="build" *args:
    python3 -m venv target/book-venv
    target/book-venv/bin/pip install --quiet -r docs/requirements.txt
    target/book-venv/bin/mdbook {{command}} docs {{args}}

# Makes the table of docs/fidelity.md anew.
fidelity:
    VRAMLAB_UPDATE=1 cargo test --test fidelity the_table

# Runs the notebooks and compares them with what is committed; `just notebooks --update` writes them anew.
notebooks *args:
    cargo build --release --locked
    python3 -m venv target/notebooks
    target/notebooks/bin/pip install --quiet -r notebooks/requirements.txt
    target/notebooks/bin/python notebooks/run.py {{args}}

# Opens the pages of `report` in Chromium and uses them.
browser:
    cargo build --release --locked
    cd tests/browser && npm ci --no-audit --no-fund && npm test
