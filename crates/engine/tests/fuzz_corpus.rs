//! Replays what the fuzzer keeps: every file of `fuzz/corpus/plan` goes through the same code as
//! under `cargo fuzz run plan`.

mod wild;

use std::path::Path;

#[test]
fn the_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/plan");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds nothing", folder.display());
    for file in files {
        let data = std::fs::read(&file).unwrap();
        let found = std::panic::catch_unwind(|| wild::survive(&data));
        assert!(found.is_ok(), "{}", file.display());
    }
}
