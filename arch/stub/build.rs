//! Passes the linker the script of the target's ISA.

fn main() {
    let isa = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("{here}/stub-{isa}.ld");
    println!("cargo::rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{script}");
    }
}
