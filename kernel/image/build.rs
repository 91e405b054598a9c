//! Links the kernel as a position-independent executable at 0; `pen` places it.

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("{here}/../../arch/kernel.ld");
    println!("cargo::rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        for argument in ["-pie", "--no-dynamic-linker", "-znorelro", &format!("-T{script}")] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
