//! Compiles programs for each ISA, with a cache in `target/programs/`.
//!
//! ```text
//!   module -> passes -> a compiler -> target/programs/HASH.ISA
//! ```
//! Two compilers generate the same code. The official wasmtime release takes seconds to download
//! ([`release`]). If it is not available, or with `PEN_COMPILER=own`, `pen-compile`
//! (`host/compile`) is used, which takes minutes to build. The hash covers the module, the ISA, the
//! engine and its settings, the passes, and the compiler; so a program is compiled once for each
//! ISA, whatever board it is installed on. The folder may be removed at any time.

mod call;
mod movable;
pub mod release;

use crate::apps::{sum, sums};
use crate::building;
use anyhow::{Context, bail};
use board::Isa;
pub use movable::movable;
use std::path::{Path, PathBuf};
use tree::place::Place;
use tree::progress::Step;

/// The sources of the passes, and those of `pen-compile`.
const PASSES: &str = "host/passes/src";
const OWN: &str = "host/compile/src";
/// The environment variable that selects the compiler, and its value for `pen-compile`.
const CHOICE: &str = "PEN_COMPILER";
const CHOOSES_OWN: &str = "own";

/// An available compiler.
pub enum Compiler {
    /// wasmtime's command.
    Release(PathBuf),
    /// `pen-compile`.
    Own(PathBuf),
}

impl Compiler {
    fn program(&self) -> &Path {
        let (Compiler::Release(program) | Compiler::Own(program)) = self;
        program
    }
}

/// The kind of compiler. Code of each kind is cached separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Release,
    Own,
}

/// Returns the compiler that the environment selects.
pub fn chosen() -> Kind {
    let own = std::env::var_os(CHOICE).is_some_and(|choice| choice == CHOOSES_OWN);
    if own { Kind::Own } else { Kind::Release }
}

/// Returns the code of `wasm`, which was read from `file`, for each of `isas` in their order. If
/// the release is `wanted` but not available, `pen-compile` is used.
pub fn code(
    place: &Place,
    wanted: Kind,
    file: &Path,
    wasm: &[u8],
    isas: &[Isa],
) -> anyhow::Result<Vec<Vec<u8>>> {
    let store = Store { place, wasm };
    let kinds = if wanted == Kind::Own { &[Kind::Own][..] } else { &[Kind::Release, Kind::Own] };
    for &kind in kinds {
        if let Some(codes) = store.kept(kind, isas)? {
            return Ok(codes);
        }
        if kind == Kind::Release && release::fetched(place).is_some() {
            break;
        }
    }
    let _alone = building::alone();
    let compiler = ready(place, wanted)?;
    let each = isas.iter().map(|&isa| store.made(&compiler, isa, file));
    each.collect()
}

/// Returns the compiler; downloads or builds it first if necessary.
fn ready(place: &Place, wanted: Kind) -> anyhow::Result<Compiler> {
    if wanted == Kind::Release {
        match release::fetch(place) {
            Ok(program) => return Ok(Compiler::Release(program)),
            Err(why) => eprintln!(
                "pen: the official wasmtime release cannot be had ({why:#}); \
                 building our own compiler of programs instead"
            ),
        }
    }
    let what = "building the compiler of programs (minutes, once)";
    Ok(Compiler::Own(helper(place, "compile", "pen-compile", what)?))
}

/// The cached code of one module.
struct Store<'a> {
    place: &'a Place,
    wasm: &'a [u8],
}

impl Store<'_> {
    fn path(&self, kind: Kind, isa: Isa) -> anyhow::Result<PathBuf> {
        let mut maker = sums(self.place, std::iter::once(PASSES.into()))?;
        match kind {
            Kind::Release => {
                let arguments = call::arguments(isa).join(" ");
                maker.push_str(&format!("release {:016x}", sum(arguments.as_bytes())));
            }
            Kind::Own => maker.push_str(&sums(self.place, std::iter::once(OWN.into()))?),
        }
        let name = program::cache_name(self.wasm, isa.name(), &maker);
        Ok(self.place.target.join("programs").join(format!("{name}.{}", isa.name())))
    }

    /// Returns the code for all ISAs, if all of it is cached.
    fn kept(&self, kind: Kind, isas: &[Isa]) -> anyhow::Result<Option<Vec<Vec<u8>>>> {
        let mut codes = Vec::with_capacity(isas.len());
        for &isa in isas {
            match std::fs::read(self.path(kind, isa)?) {
                Ok(code) => codes.push(code),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(codes))
    }

    /// Returns the code for one ISA, compiling it if it is not cached.
    fn made(&self, compiler: &Compiler, isa: Isa, file: &Path) -> anyhow::Result<Vec<u8>> {
        let kind = match compiler {
            Compiler::Release(_) => Kind::Release,
            Compiler::Own(_) => Kind::Own,
        };
        let kept = self.path(kind, isa)?;
        if !kept.exists() {
            let what = || format!("{} for {}", file.display(), isa.name());
            self.compile(compiler, isa, file, &kept).with_context(what)?;
        }
        std::fs::read(&kept).context(kept.display().to_string())
    }

    fn compile(
        &self,
        compiler: &Compiler,
        isa: Isa,
        file: &Path,
        kept: &Path,
    ) -> anyhow::Result<()> {
        let prepared = passes::prepare(self.wasm, isa.number())?;
        if prepared.trapping > 0 {
            eprintln!(
                "pen: {} functions of {} use SIMD, which {} does not have, and have no plain \
                 version: they trap when called (docs/howto/use-simd.md)",
                prepared.trapping,
                file.display(),
                isa.name()
            );
        }
        let folder = kept.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).context(folder.display().to_string())?;
        let step = Step::begin(&format!("compiling {} for {}", file.display(), isa.name()));
        let part = |end| kept.with_extension(format!("{}{}.{end}", isa.name(), std::process::id()));
        let (input, output) = (part("wasm"), part("part"));
        std::fs::write(&input, &prepared.wasm).context(input.display().to_string())?;
        let result = call::compile(compiler, isa, &input, &output);
        let result = result.map_err(|why| match passes::used(&prepared.wasm) {
            Some(what) => anyhow::Error::from(what.clone()),
            None => why,
        });
        let removed = std::fs::remove_file(&input).context(input.display().to_string());
        result?;
        removed?;
        let code = std::fs::read(&output).context(output.display().to_string())?;
        let code = passes::packed(&code).context("the compiler's output is not an ELF file")?;
        std::fs::write(&output, code).context(output.display().to_string())?;
        std::fs::rename(&output, kept).context(kept.display().to_string())?;
        step.done();
        Ok(())
    }
}

/// Builds the binary `name` of a package that is not built together with `pen`.
pub fn helper(place: &Place, package: &str, name: &str, what: &str) -> anyhow::Result<PathBuf> {
    let step = Step::begin(what);
    let mut cargo = place.cargo();
    cargo.args(["build", "-q", "--package", package, "--bin", name]);
    let status = cargo.status().with_context(|| {
        format!("cannot run {}; `./pen setup` installs what is missing", place.cargo.display())
    })?;
    if !status.success() {
        bail!("{name} does not build; see the messages above");
    }
    step.done();
    Ok(place.target.join("debug").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Path) -> Place {
        Place {
            root: root.to_path_buf(),
            target: root.join("target"),
            cargo: root.join("no-cargo-here"),
            rustc: None,
            build_std: false,
            linker: None,
        }
    }

    /// Uses `pen-compile` without building it.
    #[test]
    fn kept_code_is_not_compiled_again_until_module_or_compiler_change() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let file = folder.path().join("it.wasm");
        let isas = [Isa::Riscv64, Isa::Aarch64];
        for sources in [PASSES, OWN] {
            std::fs::create_dir_all(place.root.join(sources)).unwrap();
            std::fs::write(place.root.join(sources).join("lib.rs"), "").unwrap();
        }
        std::fs::create_dir_all(place.target.join("programs")).unwrap();
        let wasm = b"\0asm\x01\0\0\0";
        let store = Store { place: &place, wasm };
        for isa in isas {
            std::fs::write(store.path(Kind::Own, isa).unwrap(), isa.name()).unwrap();
        }
        let code = |wasm: &[u8]| code(&place, Kind::Own, &file, wasm, &isas);
        assert_eq!(code(wasm).unwrap(), [b"riscv64".to_vec(), b"aarch64".to_vec()]);
        let refused = |wasm: &[u8]| {
            let why = code(wasm).unwrap_err();
            assert!(format!("{why:#}").contains("pen setup"), "{why:#}");
        };
        refused(b"\0asn");
        for sources in [PASSES, OWN] {
            let source = place.root.join(sources).join("lib.rs");
            std::fs::write(&source, "fn other() {}").unwrap();
            refused(wasm);
            std::fs::write(&source, "").unwrap();
            assert!(code(wasm).is_ok());
        }
    }

    #[test]
    fn code_of_each_compiler_has_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        for sources in [PASSES, OWN] {
            std::fs::create_dir_all(place.root.join(sources)).unwrap();
        }
        let store = Store { place: &place, wasm: b"" };
        let path = |kind, isa| store.path(kind, isa).unwrap();
        assert_ne!(path(Kind::Own, Isa::Aarch64), path(Kind::Release, Isa::Aarch64));
        assert_ne!(path(Kind::Release, Isa::Riscv64), path(Kind::Release, Isa::Aarch64));
    }
}
