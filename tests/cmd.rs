//! What the command prints, word for word: the files in `tests/cmd`.

#[test]
fn the_command_prints_what_its_snapshots_say() {
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .case("tests/cmd/*.trycmd")
        .case("docs/explain.md");
}
