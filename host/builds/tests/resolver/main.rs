//! The resolver that C programs get from `sdk/posix`, compiled for this host and run with a
//! simulated network and clock.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

#[test]
fn a_name_is_resolved_or_given_up_in_time_whatever_arrives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("resolver");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]);
    compiler.arg(root.join("sdk/posix")).arg("-o").arg(&program);
    compiler.arg(root.join("host/builds/tests/resolver/main.c"));
    assert!(compiler.status().unwrap().success(), "the resolver does not compile");
    let output = Command::new(program).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}
