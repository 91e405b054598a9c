//! A call of a compiler: compiles a prepared module for one ISA, or explains why that failed.

use super::Compiler;
use abi::program::engine;
use anyhow::{Context, bail};
use board::Isa;
use std::path::Path;
use std::process::{Command, Output};

/// Enables log lines that name each function when its compilation begins.
const LOG: &str = "wasmtime_internal_cranelift::compiler=trace";
/// Text before the function's name in those lines.
const BEGINS: &str = "compiling Wasm function: ";

/// Compiles `wasm`, prepared for `isa`, into `output`.
pub fn compile(compiler: &Compiler, isa: Isa, wasm: &Path, output: &Path) -> anyhow::Result<()> {
    let ran = run(&mut command(compiler, isa, wasm, output), compiler)?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let Some(panic) = panic_in(&said) else { bail!("{}", reasons(&said)) };
    let function = culprit(compiler, isa, wasm, output).unwrap_or("a function".to_string());
    bail!(
        "the compiler fails at {function}: {panic}. This is a bug in Cranelift {}; compiling that \
         function without optimization, or leaving it out, avoids it",
        engine::VERSION
    )
}

fn run(command: &mut Command, compiler: &Compiler) -> anyhow::Result<Output> {
    command.env("RUST_BACKTRACE", "0").env_remove("RUST_LIB_BACKTRACE");
    command.output().with_context(|| compiler.program().display().to_string())
}

fn command(compiler: &Compiler, isa: Isa, wasm: &Path, output: &Path) -> Command {
    let mut command = Command::new(compiler.program());
    match compiler {
        Compiler::Release(_) => {
            command.arg("compile").args(arguments(isa)).arg("-o").arg(output).arg(wasm);
        }
        Compiler::Own(_) => {
            command.args(["--isa", isa.name()]).arg(wasm).arg(output);
        }
    }
    command
}

/// Returns the settings of `host/compile` and of the kernels' engine as options of wasmtime's
/// command. On a mismatch a kernel rejects the code and names the setting.
pub fn arguments(isa: Isa) -> Vec<String> {
    let yes = |on: bool| if on { 'y' } else { 'n' };
    let simd = yes(engine::has_simd(isa.number()));
    let target = engine::target(isa.number()).unwrap_or_default();
    let (reservation, guard) = (engine::RESERVATION, engine::GUARD);
    let mut all = vec![
        "--target".to_string(),
        target.to_string(),
        "-O".to_string(),
        format!(
            "opt-level=2,signals-based-traps=y,memory-reservation={reservation},\
             memory-guard-size={guard},memory-reservation-for-growth={},\
             guard-before-linear-memory=n,memory-init-cow=n",
            engine::GROWTH
        ),
        "-D".to_string(),
        "address-map=n,debug-info=n".to_string(),
        "-C".to_string(),
        "native-unwind-info=n,cache=n".to_string(),
        "-W".to_string(),
        format!(
            "max-wasm-stack={},simd={simd},relaxed-simd={simd},gc=n,gc-support=n,\
             function-references=n,exceptions=n,threads=y,component-model=n,concurrency-support=n",
            engine::STACK
        ),
    ];
    for extension in engine::extensions(isa.number()) {
        all.extend(["-C".to_string(), format!("cranelift-{extension}=true")]);
    }
    all
}

/// Returns the panic message in the compiler's output.
fn panic_in(said: &str) -> Option<String> {
    let mut lines = said.lines().skip_while(|line| !line.contains(" panicked at "));
    lines.next()?;
    Some(lines.next().unwrap_or("it panicked").trim().trim_end_matches('.').to_string())
}

/// Returns the compiler's reasons, in one line.
fn reasons(said: &str) -> String {
    let lines = said.lines().take_while(|line| !line.contains("tack backtrace:"));
    let lines = lines.map(|line| line.trim().trim_start_matches("Error: "));
    let numbered = |line: &str| {
        let (number, rest) = line.split_once(": ")?;
        number.parse::<u32>().is_ok().then(|| rest.to_string())
    };
    let lines = lines.filter(|line| !line.is_empty() && *line != "Caused by:");
    let all: Vec<String> =
        lines.map(|line| numbered(line).unwrap_or_else(|| line.to_string())).collect();
    if all.is_empty() { "the compiler gives no reason".to_string() } else { all.join(": ") }
}

/// Returns the function that made the compiler fail: compiles again on one thread and logs each
/// function. Only the release supports this.
fn culprit(compiler: &Compiler, isa: Isa, wasm: &Path, output: &Path) -> Option<String> {
    if matches!(compiler, Compiler::Own(_)) {
        return None;
    }
    let mut command = command(compiler, isa, wasm, output);
    command.args(["-C", "parallel-compilation=n"]).env("WASMTIME_LOG", LOG);
    let ran = run(&mut command, compiler).ok()?;
    last_begun(&String::from_utf8_lossy(&ran.stderr))
}

/// Returns the last function whose compilation began, by its name in the module.
fn last_begun(logged: &str) -> Option<String> {
    let line = logged.lines().rfind(|line| line.contains(BEGINS))?;
    let name = line.rsplit_once(" = \"")?.1.trim_end_matches('"');
    Some(name.trim_start_matches("wasm[0]::").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_becomes_one_line() {
        let said = "Error: failed to compile: wasm[0]::function[1]::f\n\nCaused by:\n    \
                    0: WebAssembly translation error\n    1: SIMD support is not enabled\n\n\
                    Stack backtrace:\n   0: secret\n";
        assert_eq!(
            reasons(said),
            "failed to compile: wasm[0]::function[1]::f: WebAssembly translation error: \
             SIMD support is not enabled"
        );
        assert_eq!(reasons(""), "the compiler gives no reason");
        assert_eq!(panic_in(said), None);
    }

    #[test]
    fn a_panic_is_told_without_its_backtrace_and_with_the_function() {
        let said = "\nthread '<unnamed>' (1) panicked at /x/isle.rs:1:5:\nno rule matched.\n\
                    stack backtrace:\n   0: secret\n";
        assert_eq!(panic_in(said).unwrap(), "no rule matched");
        let log = "T compiling Wasm function: D(F(0)) = \"wasm[0]::function[0]::a\"\n\
                   T compiling Wasm function: D(F(1)) = \"wasm[0]::function[1]::nasty\"\nT other\n";
        assert_eq!(last_begun(log).unwrap(), "function[1]::nasty");
        assert_eq!(last_begun(""), None);
    }
}
