//! What a release build says of its sources, in a clone, an archive and a package.

#[path = "../identity.rs"]
mod identity;

use std::fs;
use std::path::Path;
use std::process::Command;

fn git(directory: &Path, words: &[&str]) -> String {
    let author = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"];
    let output =
        Command::new("git").args(author).args(words).current_dir(directory).output().expect("git runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn builds_have_their_commit_and_their_changes() {
    let place = tempfile::tempdir().unwrap();
    let (root, package) = (place.path(), place.path().join("crates/some"));
    let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
    fs::create_dir_all(package.join("src")).unwrap();
    write("crates/some/src/lib.rs", "fn f() {}");
    write("README.md", "Read me.");

    let archive = identity::of(&package);
    assert!(archive.starts_with("sources."), "{archive}");
    write("crates/some/src/lib.rs", "fn g() {}");
    assert_ne!(identity::of(&package), archive);
    write("crates/some/src/lib.rs", "fn f() {}");
    assert_eq!(identity::of(&package), archive, "the same sources");

    git(root, &["init", "--quiet"]);
    git(root, &["add", "."]);
    git(root, &["commit", "--quiet", "-m", "first"]);
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"]);
    assert_eq!(identity::of(&package), commit);
    write("README.md", "Is not compiled.");
    assert_eq!(identity::of(&package), commit);
    assert!(identity::watched(&package).contains(&package.join("../../.git/logs/HEAD")), "a commit is seen");
    write("crates/some/src/more.rs", "fn more() {}");
    let more = identity::of(&package);
    write("crates/some/src/more.rs", "fn less() {}");
    let less = identity::of(&package);
    assert!(more.starts_with(&format!("{commit}.")) && less.starts_with(&format!("{commit}.")));
    assert_ne!(more, less);

    // An archive that was unpacked inside this clone is not of its commit.
    let inner = root.join("other/crates/some");
    fs::create_dir_all(&inner).unwrap();
    assert!(identity::of(&inner).starts_with("sources."));

    let packed = "{\n  \"git\": {\n    \"sha1\": \"0123456789abcdef0123456789abcdef01234567\"\n  }\n}";
    fs::write(inner.join(".cargo_vcs_info.json"), packed).unwrap();
    assert_eq!(identity::of(&inner), "0123456789ab");
}
