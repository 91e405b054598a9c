//! The calls of compilers that make a program.
//!
//! Debian has no Rust target for WASI: std is built from its source, and linked by `wasm-ld`
//! against Debian's wasi-libc. A toolchain of rustup with the target brings all that itself.
//! Programs with threads are linked against a libc that is built once ([`libc`]).

use super::{App, AppError, Debian, Published, Source, go, libc, port, sources};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tree::place::Place;
use tree::progress::{self, Step};

/// The target of all programs, as rustc calls it.
const TRIPLE: &str = "wasm32-wasip1";
/// The same of programs that use the sockets of std, which only this std of WASI has. It calls the
/// C library for them, and ours has them ([`POSIX`]).
const TRIPLE_SOCKETS: &str = "wasm32-wasip2";
/// The same of programs with threads.
const TRIPLE_THREADS: &str = "wasm32-wasip1-threads";
/// As Debian's clang calls it.
const CLANG_TRIPLE: &str = "wasm32-wasi";
const CLANG: &str = "clang-19";
const LINKER: &str = "wasm-ld-19";
/// Debian's wasi-libc.
const LIBC: &str = "/usr/lib/wasm32-wasi";
/// How programs are compiled: small, since each ISA's image is made of all of it; with the names of
/// functions, by which a kernel tells where one trapped.
const PROFILE: &str = "app";
const PROFILE_SETTINGS: &[&str] = &[
    "profile.app.inherits=\"release\"",
    "profile.app.opt-level=\"s\"",
    // With it std is built twice: once for the programs that depend on a crate which is also a
    // library for C, once for the others.
    "profile.app.lto=\"off\"",
    "profile.app.codegen-units=4",
    "profile.app.panic=\"abort\"",
    "profile.app.strip=\"debuginfo\"",
];

/// The same for clang, which also compiles what each program begins with.
const CLANG_SETTINGS: &[&str] = &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Isdk/c"];

/// Where the headers and functions of POSIX are that WASI's C library lacks.
pub const POSIX: &str = "sdk/posix";
/// Where the functions are that this std expects of a component's surroundings.
pub const STD: &str = "sdk/std";
/// What C of a program is compiled with in addition, so that it finds them.
const CLANG_POSIX: &[&str] = &["-Isdk/posix/include", "-Isdk/posix"];

/// Further settings for a program that computes: unrolled loops, more inlining, functions
/// specialised for constant arguments, jump threading in state machines. The program is larger.
const CLANG_SPEED: &[&str] = &[
    "-O3",
    "-mllvm",
    "-unroll-threshold=2000",
    "-mllvm",
    "-unroll-partial-threshold=2000",
    "-mllvm",
    "-inline-threshold=1000",
    "-mllvm",
    "-force-specialization",
    "-mllvm",
    "-enable-dfa-jump-thread",
];

/// What a program with threads has in addition, compiled and linked. Its instances share a memory
/// that the kernel gives them, so the module imports it; it has a limit, which costs nothing.
const CLANG_THREADS: &[&str] = &["-pthread", "-matomics", "-mbulk-memory"];
const LINKS_THREADS: &[&str] = &["-Wl,--import-memory,--export-memory,--shared-memory"];
const MOST_MEMORY: &str = "--max-memory=1073741824";

/// How C is linked: with nothing for debuggers, libc's neither, but with names.
const LINKS: &[&str] = &["-Wl,--strip-debug"];
/// With nothing but code. Without a level of optimisation, clang calls no `wasm-opt` when it links:
/// a program is the same wherever it is built.
const LINKS_NAMELESS: &[&str] = &["-s"];

/// What `sdk/c/start.c` does in libc's place.
const WRAPPED: &str = "--wrap=linkat";
/// What `sdk/std` does between std and the C library.
const WRAPPED_FOR_STD: &[&str] = &["--wrap=recv", "--wrap=recvfrom"];

const fn links(app: &App) -> &'static [&'static str] {
    if app.names { LINKS } else { LINKS_NAMELESS }
}

/// How a program is compiled, for keys.
pub fn settings(app: &App) -> String {
    let all = PROFILE_SETTINGS.iter().chain(CLANG_SETTINGS).chain(CLANG_SPEED);
    let all = all.chain(CLANG_THREADS).chain(LINKS_THREADS);
    let all = all.chain(links(app)).chain(&[WRAPPED, MOST_MEMORY]);
    let all = all.chain(WRAPPED_FOR_STD.iter().filter(|_| app.source.has_sockets()));
    let all = all.chain(CLANG_POSIX.iter().filter(|_| app.source.is_c()));
    all.copied().collect::<Vec<&str>>().join(" ")
}

/// The compilers, found and ready.
pub struct Tools {
    /// Linked into every program without threads.
    start: PathBuf,
    /// What clang says it is.
    clang: String,
    /// What they say they are, for keys.
    pub versions: String,
}

impl Tools {
    /// Looks for all that is needed, and compiles what every program begins with.
    pub fn find(place: &Place) -> Result<Tools, AppError> {
        if !Path::new(LIBC).join("libc.a").exists() {
            return Err(AppError::Missing("wasi-libc".to_string()));
        }
        let rustc = place.rustc.clone().unwrap_or_else(|| PathBuf::from("rustc"));
        let clang = version(Path::new(CLANG))?;
        let others = [version(Path::new(LINKER))?, version(&rustc)?];
        let versions = [&clang, &others[0], &others[1]].map(String::as_str).join("\n");
        let start = start(place, "start.o", &[])?;
        Ok(Tools { start, clang, versions })
    }
}

/// Compiles what programs begin with.
fn start(place: &Place, name: &str, flags: &[OsString]) -> Result<PathBuf, AppError> {
    let folder = place.target.join("apps");
    std::fs::create_dir_all(&folder).map_err(|e| AppError::File(folder.clone(), e))?;
    let object = folder.join(name);
    let mut clang = clang(place);
    clang.args(flags).args(["-c", "sdk/c/start.c", "-o"]).arg(&object);
    run(clang, "sdk/c/start.c")?;
    Ok(object)
}

fn version(tool: &Path) -> Result<String, AppError> {
    let output = Command::new(tool).arg("--version").output();
    let output = output.map_err(|_| AppError::Missing(tool.display().to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_string())
}

fn run(mut command: Command, what: &str) -> Result<(), AppError> {
    let program = PathBuf::from(command.get_program());
    let status = command.status().map_err(|e| AppError::Tool(program, e))?;
    if status.success() { Ok(()) } else { Err(AppError::Failed(what.to_string())) }
}

fn run_cargo(cargo: Command, what: &str, step: &Step) -> Result<(), AppError> {
    let program = PathBuf::from(cargo.get_program());
    let status = progress::cargo::run(cargo, step).map_err(|e| AppError::Tool(program, e))?;
    if status.success() { Ok(()) } else { Err(AppError::Failed(what.to_string())) }
}

/// Builds a program; where it is then.
pub fn compile(place: &Place, tools: &Tools, app: &App, step: &Step) -> Result<PathBuf, AppError> {
    match &app.source {
        Source::Rust { package, folder, threads, sockets } => {
            let target = match (threads, sockets) {
                (true, true) => return Err(AppError::ThreadsAndSockets(app.name.clone())),
                (true, false) => threaded_target(place, tools)?,
                (false, true) => target_with_sockets(place, tools)?,
                (false, false) => target(tools),
            };
            let mut cargo = cargo(place, &target, "build");
            cargo.args(["--bin", package]);
            let folder = super::crate_folder(package, folder.as_deref());
            match place.root.join(&folder).join("Cargo.lock").exists() {
                true => cargo.arg("--locked").arg("--manifest-path").arg(folder.join("Cargo.toml")),
                false => cargo.args(["--package", package]),
            };
            run_cargo(cargo, &app.name, step)?;
            let folder = place.target.join(target.triple).join(PROFILE);
            Ok(folder.join(format!("{package}.wasm")))
        }
        Source::Crate { package, version, bin, sockets, .. } => {
            let target = if *sockets { target_with_sockets(place, tools)? } else { target(tools) };
            let bin = bin.as_ref().unwrap_or(package);
            let root = place.target.join("apps").join(format!("{package}-{version}"));
            let mut cargo = cargo(place, &target, "install");
            cargo.args([package, "--version", &format!("={version}"), "--bin", bin]);
            cargo.args(["--locked", "--force", "--no-track", "--no-default-features"]);
            cargo.args(["--features", &app.features().join(",")]).arg("--root").arg(&root);
            run_cargo(cargo, &app.name, step)?;
            Ok(root.join("bin").join(format!("{bin}.wasm")))
        }
        Source::Published(published) => published_c(place, tools, app, published),
        Source::Debian(debian) => debian_c(place, tools, app, debian),
        Source::Go { folder } => go::build(place, app, folder),
        Source::C { folder, defines, libraries, speed, threads } => {
            let files = c_files(&place.root.join(folder))?;
            let flags = flags(defines, *speed);
            let variant = if *threads { with_threads(place, tools)? } else { plain(place, tools)? };
            c(place, app, &variant, &files, &flags, libraries)
        }
    }
}

fn flags(defines: &[String], speed: bool) -> Vec<OsString> {
    let defined = defines.iter().map(|define| format!("-D{define}").into());
    let speed = CLANG_SPEED.iter().filter(|_| speed).map(OsString::from);
    defined.chain(speed).collect()
}

/// C of a crate, with what of ours makes a program of it. Warnings about it are its authors'.
fn published_c(
    place: &Place,
    tools: &Tools,
    app: &App,
    published: &Published,
) -> Result<PathBuf, AppError> {
    let root = sources::of(place, &published.package, &published.version)?;
    let folder = root.join(&published.folder);
    let mut flags = flags(&published.defines, published.speed);
    for ours in published.ours.iter().filter_map(|file| file.parent()) {
        flags.extend(["-I".into(), ours.join("include").into()]);
    }
    flags.extend(["-w".into(), "-I".into(), folder.clone().into()]);
    let mut files = published.ours.clone();
    match &published.files[..] {
        [] => files.extend(c_files(&folder)?),
        named => files.extend(named.iter().map(|file| folder.join(file))),
    }
    c(place, app, &plain(place, tools)?, &files, &flags, &published.libraries)
}

/// C of a source package. Warnings about it are its authors'.
fn debian_c(place: &Place, tools: &Tools, app: &App, debian: &Debian) -> Result<PathBuf, AppError> {
    let prepared = port::prepare(place, &app.name, &debian.port)?;
    let mut flags = flags(&debian.defines, debian.speed);
    flags.push("-w".into());
    // What assertions and logs say of a file is the same wherever it is built.
    flags.push(prepared.prefix);
    for folder in prepared.headers {
        flags.extend(["-I".into(), folder.into()]);
    }
    c(place, app, &plain(place, tools)?, &prepared.files, &flags, &debian.libraries)
}

/// What differs between programs with threads and without.
struct Variant {
    /// Of clang, compiling and linking.
    flags: Vec<OsString>,
    /// Of clang, linking.
    links: Vec<String>,
    /// Linked first.
    start: PathBuf,
    /// The functions of [`POSIX`], before the C library.
    posix: PathBuf,
}

fn plain(place: &Place, tools: &Tools) -> Result<Variant, AppError> {
    let posix = posix(place, "posix", &[])?;
    Ok(Variant { flags: vec![], links: vec![], start: tools.start.clone(), posix })
}

/// Makes a library of the functions of [`POSIX`].
fn posix(place: &Place, name: &str, flags: &[OsString]) -> Result<PathBuf, AppError> {
    let objects = objects(place, POSIX, name, flags)?;
    let library = place.target.join("apps").join(format!("{name}.objects/libposix.a"));
    let mut archive = Command::new("ar");
    archive.arg("rcs").arg(&library).args(objects);
    run(archive, POSIX)?;
    Ok(library)
}

/// Compiles the C of a folder of the SDK.
fn objects(
    place: &Place,
    folder: &str,
    name: &str,
    flags: &[OsString],
) -> Result<Vec<PathBuf>, AppError> {
    let into = place.target.join("apps").join(format!("{name}.objects"));
    std::fs::create_dir_all(&into).map_err(|e| AppError::File(into.clone(), e))?;
    let files = c_files(&place.root.join(folder))?.into_iter();
    let compiled = files.map(|file| {
        let object = into.join(file.with_extension("o").file_name().unwrap_or_default());
        let mut clang = clang(place);
        clang.args(CLANG_POSIX).args(flags).arg("-c").arg(&file).arg("-o").arg(&object);
        run(clang, folder).map(|()| object)
    });
    compiled.collect()
}

fn with_threads(place: &Place, tools: &Tools) -> Result<Variant, AppError> {
    let mut flags: Vec<OsString> = CLANG_THREADS.iter().map(OsString::from).collect();
    flags.push("--sysroot".into());
    flags.push(libc::sysroot(place, CLANG, &tools.clang)?.into());
    let mut links: Vec<String> = LINKS_THREADS.iter().map(|link| (*link).to_string()).collect();
    links.push(format!("-Wl,{MOST_MEMORY}"));
    let start = start(place, "start-threads.o", &flags)?;
    let posix = posix(place, "posix-threads", &flags)?;
    Ok(Variant { flags, links, start, posix })
}

/// A program of these files.
fn c(
    place: &Place,
    app: &App,
    variant: &Variant,
    files: &[PathBuf],
    flags: &[OsString],
    libraries: &[String],
) -> Result<PathBuf, AppError> {
    let folder = place.target.join("apps").join(format!("{}.objects", app.name));
    std::fs::create_dir_all(&folder).map_err(|e| AppError::File(folder.clone(), e))?;
    let mut link = Command::new(CLANG);
    link.current_dir(&place.root).arg(format!("--target={CLANG_TRIPLE}"));
    link.args(&variant.flags).args(&variant.links);
    link.args(links(app)).arg(format!("-Wl,{WRAPPED}")).arg(&variant.start);
    for (number, file) in files.iter().enumerate() {
        let object = folder.join(format!("{number}.o"));
        let mut clang = clang(place);
        clang
            .args(CLANG_POSIX)
            .args(&variant.flags)
            .args(flags)
            .arg("-c")
            .arg(file)
            .arg("-o")
            .arg(&object);
        run(clang, &app.name)?;
        link.arg(object);
    }
    let made = place.target.join("apps").join(format!("{}.unnamed.wasm", app.name));
    // A program's own libraries first: those of WASI's emulations run elsewhere, too.
    link.args(libraries.iter().map(|library| format!("-l{library}"))).arg(&variant.posix);
    link.arg("-o").arg(&made);
    run(link, &app.name)?;
    Ok(made)
}

fn c_files(folder: &Path) -> Result<Vec<PathBuf>, AppError> {
    let entries = std::fs::read_dir(folder).map_err(|e| AppError::File(folder.into(), e))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    Ok(files)
}

/// clang in the root of the tree, for C of ours.
fn clang(place: &Place) -> Command {
    let mut clang = Command::new(CLANG);
    clang.current_dir(&place.root);
    clang.arg(format!("--target={CLANG_TRIPLE}"));
    clang.args(CLANG_SETTINGS);
    clang
}

/// What Rust is compiled for, and what it is linked with.
struct Target {
    triple: &'static str,
    /// Of the linker: what comes before the program and its libraries, and the rest.
    before: Vec<String>,
    links: Vec<String>,
    /// Where the libc is, for a toolchain that brings none.
    libc: PathBuf,
}

fn target(tools: &Tools) -> Target {
    let links = vec![WRAPPED.to_string(), tools.start.display().to_string()];
    Target { triple: TRIPLE, before: Vec::new(), links, libc: LIBC.into() }
}

/// The C library's own `accept` and others would be found first, if ours came after it.
fn target_with_sockets(place: &Place, tools: &Tools) -> Result<Target, AppError> {
    let mut first = objects(place, STD, "std", &[])?;
    first.push(plain(place, tools)?.posix);
    let before = first.iter().map(|file| file.display().to_string()).collect();
    let mut target = Target { triple: TRIPLE_SOCKETS, before, ..target(tools) };
    target.links.extend(WRAPPED_FOR_STD.iter().map(|link| (*link).to_string()));
    Ok(target)
}

fn threaded_target(place: &Place, tools: &Tools) -> Result<Target, AppError> {
    let start = with_threads(place, tools)?.start.display().to_string();
    let libc = libc::sysroot(place, CLANG, &tools.clang)?.join(libc::LIBRARIES);
    let links = vec![WRAPPED.to_string(), start, MOST_MEMORY.to_string()];
    Ok(Target { triple: TRIPLE_THREADS, before: Vec::new(), links, libc })
}

fn cargo(place: &Place, target: &Target, verb: &str) -> Command {
    let mut cargo = place.cargo();
    cargo.args([verb, "--target", target.triple, "--profile", PROFILE]);
    for setting in PROFILE_SETTINGS {
        cargo.args(["--config", setting]);
    }
    let before = target.before.iter().map(|what| format!("-Zpre-link-arg={what}"));
    let links = target.links.iter().map(|what| format!("-Clink-arg={what}"));
    let mut flags: Vec<String> = before.chain(links).collect();
    if place.build_std {
        cargo.arg("-Zbuild-std=std,panic_abort");
    }
    // A toolchain's own linker for wasm32-wasip2 makes components.
    if place.build_std || target.triple == TRIPLE_SOCKETS {
        let libc = target.libc.display();
        cargo.env("RUSTC_BOOTSTRAP", "1");
        flags.push(format!("-Clinker={LINKER}"));
        flags.push("-Clinker-flavor=wasm-ld".to_string());
        flags.push("-Clink-self-contained=no".to_string());
        flags.push(format!("-L{libc}"));
        flags.push(format!("-Clink-arg={libc}/crt1-command.o"));
    }
    let triple = target.triple.to_uppercase().replace('-', "_");
    cargo.env(format!("CARGO_TARGET_{triple}_RUSTFLAGS"), flags.join(" "));
    cargo
}
