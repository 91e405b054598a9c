//! System tests: each boots a board and checks its behaviour as a user would.
//!
//! ```text
//!   ALL, found() --> pen test --> Rig (workbench): a board in its own folder
//!                                  |
//!                    scenario: types at its console, runs programs on it (deploy)
//! ```
//! - `boot`, `machine`, `clock`, `peers`, `calls`, `debug`, `dma`, `hangs`, `lives`, `taken`:
//!   kernels and the chip
//! - `services`, `overlap`, `twins`, `statics`, `balloon`, `net`, `trio`: what kernels share
//! - `disk`, `files`, `host`, `reboot`, `weak`: files, and what is left of them
//! - `programs`, `affinity`, `allowed`, `crowd`, `edge`, `file`, `folders`, `forged`, `hostile`,
//!   `versions`: programs
//! - `channels`, `windows`: programs that talk by contracts, and that share memory
//! - `corpus`, `generated`: programs of others, and generated ones, compared with wasmtime on this
//!   host (`reference`)
//! - `outside`, `servers`: the network, with the host as the other side; `linux`: with its stack at
//!   the other end of the cable; `floods`: with strangers
//! - `watts`: what kernels say of their power
//! - `system`, `alone`, `left`, `found`: the board as a person starts it, and the rest
//!
//! Contract: a scenario is a function of a [`Rig`], listed in [`ALL`]. No retries, and no assertion
//! about host time except time limits that only a hang exceeds.

mod affinity;
mod allowed;
mod alone;
mod balloon;
mod boot;
mod calls;
mod channels;
mod clock;
mod corpus;
mod crowd;
mod debug;
mod disk;
mod dma;
mod edge;
mod file;
mod files;
mod floods;
mod folders;
mod forged;
mod found;
mod generated;
mod hangs;
mod homes;
mod host;
mod hostile;
mod left;
mod light;
mod linux;
mod lives;
mod machine;
mod moves;
mod net;
mod outside;
mod overlap;
mod peers;
mod pipes;
mod programs;
mod reboot;
mod reference;
mod rest;
mod servers;
mod services;
mod sockets;
mod statics;
mod system;
mod taken;
mod threads;
mod trio;
mod twins;
mod versions;
mod watts;
mod weak;
mod windows;

pub use found::found;
use services::Ends;
pub use workbench::rig::{Failure, PATIENCE, Rig};

/// A system test.
pub struct Scenario {
    /// Its name: `subject.what-it-shows`.
    pub name: &'static str,
    /// Name of its board.
    pub board: &'static str,
    /// Why it runs only under `--nightly`; `None`: it runs daily.
    pub nightly: Option<&'static str>,
    /// Whether its board is attached to the host's network.
    pub is_attached: bool,
    /// The test itself.
    pub run: Run,
}

type Run = fn(&mut Rig) -> Result<(), Failure>;

const fn on(name: &'static str, board: &'static str, run: Run) -> Scenario {
    Scenario { name, board, nightly: None, is_attached: false, run }
}

/// A board that is attached to the host's network.
const fn attached(name: &'static str, board: &'static str, run: Run) -> Scenario {
    Scenario { name, board, nightly: None, is_attached: true, run }
}

const fn nightly(name: &'static str, board: &'static str, why: &'static str, run: Run) -> Scenario {
    Scenario { name, board, nightly: Some(why), is_attached: false, run }
}

const fn attached_nightly(
    name: &'static str,
    board: &'static str,
    why: &'static str,
    run: Run,
) -> Scenario {
    Scenario { name, board, nightly: Some(why), is_attached: true, run }
}

const CUTS: &str = "200 power cuts, each with two boots, instead of 12; the number so far is in \
                    `target/disk-cuts`, so an interrupted run continues and each run makes others";
const MOVES: &str = "100 deaths, each with a boot, instead of 6";
const KILLS: &str = "50 kills under load, each with a boot, instead of 15";
const HANGS: &str = "204 hangs under load, two thirds of them with a boot, instead of 6";
const LOST: &str = "200 rounds instead of 8; a quarter of an hour";
const ASLEEP: &str = "50 rounds instead of 4";
const STRONG: &str = "50 rounds instead of 2";
const MOVED_ALSO: &str = "another scenario, while services move";
const MOVED: &str = "200 rounds instead of 5";
const STOPPED: &str = "200 rounds instead of 6";
const TRIO_LOST: &str = "200 rounds instead of 3";
const REST: &str = "100 rounds instead of 3, and 50 kills";
const RESTS: &str = "what duo does daily, with domains that rest at every pause";
const TRIO: &str = "what duo does daily, on three kernels";
const TRIO_PNG: &str = "what `servers.png` shows daily, on three kernels";
const LIVES: &str = "200 kills instead of 5; the number so far is in `target/lives`, so an \
                     interrupted run continues and each run makes others";
const LIVES_TRIO: &str = "what `lives` does daily, on three kernels";
const LINUX: &str = "needs network namespaces and `/dev/net/tun`, which a container may not have";
const FLOODS: &str = "its server makes room by dropping the connection that was idle for longest, \
                      which on a loaded host can be the fetching host's";
const BROWSER: &str = "needs Chromium, 100 MB to fetch, which `./pen setup browser` installs";
const SERVERS: &str = "1,000 kills instead of 3; the number so far is in `target/servers-killed`, \
                       so an interrupted run continues";
const REBOOT: &str = "builds and boots the whole system; `disk.reboot` restarts a board daily";
const HOSTILE: &str = "500 modules of nonsense instead of 20, and bombs across kernels";
const GENERATED: &str = "500 generated modules instead of 24";
const COMPILERS: &str = "builds `pen-compile`; every program of the corpus by both compilers";
const HEAVY: &str = "megabytes to sort and a proof to find: minutes of emulation";

/// All of them, in order.
pub const ALL: &[Scenario] = &[
    on("boot.solo", "solo", boot::to_prompt),
    on("boot.solo-1", "solo-1", boot::to_prompt),
    on("boot.duo", "duo", boot::to_prompt),
    on("boot.duo-1x1", "duo-1x1", boot::to_prompt),
    on("boot.twin", "twin", boot::to_prompt),
    on("tests.left", "duo-1x1", left::nothing),
    on("memory.protection", "duo", machine::protection),
    on("memory.balloon", "duo", balloon::to_and_fro),
    on("cores.threads", "solo", machine::threads),
    on("cores.shootdown", "twin", machine::shootdown),
    on("cores.bench", "duo", machine::bench),
    on("devices.solo-1", "solo-1", machine::devices),
    on("devices.dma-solo-1", "solo-1", dma::solo),
    on("devices.dma-shadowed", "duo", dma::shared),
    on("devices.dma-delegated", "duo-delegated", dma::shared),
    on("devices.dma-apart", "rpx", dma::apart),
    on("domain.sleepers", "duo", clock::sleepers),
    on("domain.clock", "duo", clock::wakes),
    on("rpc.storm", "duo", peers::storm),
    on("rpc.nested", "duo", calls::nested),
    on("rpc.hung-peer", "duo", calls::hung),
    on("disk.ext2", "duo", |rig| disk::kept(rig, 1024)),
    on("disk.ext2-delegated", "duo-delegated", |rig| disk::kept(rig, 4096)),
    on("disk.ext2-solo", "solo", disk::alone),
    on("disk.root", "duo", disk::root),
    on("disk.cuts", "duo", disk::cuts),
    nightly("disk.cuts-often", "duo", CUTS, disk::cuts_often),
    on("disk.lost", "duo", disk::lost),
    on("disk.reboot", "solo", reboot::kept),
    on("files.dev", "duo", |rig| files::dev(rig, &["main", "shadow"])),
    on("files.dev-solo", "solo", |rig| files::dev(rig, &["main"])),
    on("files.proc", "duo", files::proc),
    on("disk.weak-lost", "duo", weak::lost),
    on("disk.strong-off", "duo", weak::alone),
    on("services.off-woken", "duo", weak::wakes),
    on("host.others-die", "duo", host::others_die),
    on("host.files", "duo", host::files),
    on("host.files-delegated", "duo-delegated", host::files),
    on("services.solo", "solo", services::alone),
    on("services.delegated", "duo-delegated", services::together),
    on("services.shadowed", "duo", services::shared),
    on("services.harts", "duo-1x3", services::shared),
    on("services.placed", "duo", homes::placed),
    on("services.delegated-stays", "duo-delegated", homes::impossible),
    on("services.moved", "duo", |rig| homes::under_load(rig, 5)),
    on("services.moved-programs", "duo", |rig| {
        homes::while_moved(rig, |rig| programs::exec(rig, &["main", "shadow"]))
    }),
    on("services.moved-host", "duo", |rig| homes::while_moved(rig, host::files)),
    on("services.moved-net", "duo", |rig| homes::while_moved(rig, net::shared)),
    on("services.moved-disk", "duo", disk::kept_while_moved),
    nightly("services.moved-sockets", "duo", MOVED_ALSO, |rig| {
        homes::while_moved(rig, sockets::together)
    }),
    nightly("services.moved-channels", "duo", MOVED_ALSO, |rig| {
        homes::while_moved(rig, channels::across)
    }),
    nightly("services.moved-often", "duo", MOVED, |rig| homes::under_load(rig, 200)),
    on("services.home-lost", "duo", |rig| homes::lost(rig, 4)),
    on("services.overlap", "duo", overlap::explained),
    on("services.overlap-delegated", "duo-delegated", overlap::explained),
    on("services.death", "duo-delegated", services::survives),
    on("services.lost", "duo", |rig| services::loses(rig, Ends::Killed, 8)),
    on("services.cold", "duo", |rig| services::loses(rig, Ends::Cold, 6)),
    on("services.asleep", "duo", |rig| services::sleeps(rig, 4)),
    on("services.strong-asleep", "duo", |rig| services::strong_sleeps(rig, 2)),
    on("services.stopped", "duo", |rig| services::stopped(rig, 6)),
    on("rest.wakes", "duo-rest", |rig| rest::wakes(rig, 3)),
    on("rest.lost", "duo-rest", |rig| rest::lost(rig, 3)),
    on("rest.killed", "duo-rest", rest::killed),
    on("rest.devices", "duo-rest", |rig| rest::devices(rig, 3)),
    on("rest.streams", "duo-rest", |rig| rest::streams(rig, 3)),
    on("rest.cores", "duo-rest", |rig| rest::cores(rig, 20)),
    on("rest.prompt", "duo-rest", |rig| rest::prompt(rig, 2)),
    on("rest.timers", "duo-rest", |rig| rest::timers(rig, 2)),
    on("rest.services", "duo-rest", services::shared),
    on("rest.power", "duo-rest", watts::counts),
    on("rest.top", "duo-rest", watts::tools),
    nightly("rest.wakes-often", "duo-rest", REST, |rig| rest::wakes(rig, 100)),
    nightly("rest.lost-often", "duo-rest", REST, |rig| rest::lost(rig, 50)),
    nightly("rest.overlap", "duo-rest", RESTS, overlap::explained),
    nightly("rest.services.lost", "duo-rest", RESTS, |rig| services::loses(rig, Ends::Killed, 8)),
    nightly("rest.services.stopped", "duo-rest", RESTS, |rig| services::stopped(rig, 6)),
    nightly("rest.net", "duo-rest", RESTS, net::shared),
    nightly("rest.dma", "duo-rest", RESTS, dma::shared),
    nightly("rest.disk", "duo-rest", RESTS, |rig| disk::kept(rig, 1024)),
    nightly("rest.host", "duo-rest", RESTS, host::files),
    nightly("rest.programs", "duo-rest", RESTS, |rig| programs::exec(rig, &["main", "shadow"])),
    nightly("rest.balloon", "duo-rest", RESTS, balloon::to_and_fro),
    on("services.twins", "duo-twins", twins::followed),
    on("services.strays", "duo", twins::refused),
    nightly("services.lost-often", "duo", LOST, |rig| services::loses(rig, Ends::Killed, 200)),
    nightly("services.asleep-often", "duo", ASLEEP, |rig| services::sleeps(rig, 50)),
    nightly("services.strong-asleep-often", "duo", STRONG, |rig| services::strong_sleeps(rig, 50)),
    nightly("services.stopped-often", "duo", STOPPED, |rig| services::stopped(rig, 200)),
    on("trio.shadowed", "trio", trio::together),
    on("trio.lost", "trio", |rig| trio::lost(rig, 3)),
    nightly("trio.stopped", "trio", TRIO, |rig| trio::stopped(rig, 3)),
    nightly("trio.lost-often", "trio", TRIO_LOST, |rig| trio::lost(rig, 200)),
    nightly("trio.services.shadowed", "trio", TRIO, services::shared),
    nightly("trio.services.overlap", "trio", TRIO, overlap::explained),
    nightly("trio.services.lost", "trio", TRIO, |rig| services::loses(rig, Ends::Killed, 8)),
    nightly("trio.services.cold", "trio", TRIO, |rig| services::loses(rig, Ends::Cold, 6)),
    nightly("trio.services.asleep", "trio", TRIO, |rig| services::sleeps(rig, 4)),
    nightly("trio.services.strong-asleep", "trio", TRIO, |rig| services::strong_sleeps(rig, 2)),
    nightly("trio.services.stopped", "trio", TRIO, |rig| services::stopped(rig, 6)),
    nightly("trio.services.placed", "trio", TRIO, homes::placed),
    nightly("trio.services.moved", "trio", TRIO, |rig| homes::under_load(rig, 5)),
    nightly("trio.services.moved-programs", "trio", TRIO, |rig| {
        homes::while_moved(rig, |rig| programs::exec(rig, &["main", "shadow", "umbra"]))
    }),
    nightly("trio.services.moved-disk", "trio", TRIO, disk::kept_while_moved),
    nightly("trio.services.home-lost", "trio", TRIO, |rig| homes::lost(rig, 4)),
    nightly("trio.net", "trio", TRIO, net::shared),
    nightly("trio.files", "trio", TRIO, |rig| files::dev(rig, &["main", "shadow", "umbra"])),
    nightly("trio.dma", "trio", TRIO, dma::shared),
    nightly("trio.disk", "trio", TRIO, |rig| disk::kept(rig, 1024)),
    nightly("trio.disk-lost", "trio", TRIO, disk::lost),
    nightly("trio.disk-cuts", "trio", TRIO, disk::cuts),
    nightly("trio.disk-weak-lost", "trio", TRIO, weak::lost),
    nightly("trio.host", "trio", TRIO, host::files),
    nightly("trio.programs", "trio", TRIO, |rig| programs::exec(rig, &["main", "shadow", "umbra"])),
    nightly("trio.sockets", "trio", TRIO, sockets::together),
    nightly("trio.channels", "trio", TRIO, channels::across),
    nightly("trio.channels.lost", "trio", TRIO, channels::lost),
    nightly("trio.domain.hangs", "trio", TRIO, |rig| hangs::weak(rig, 1)),
    nightly("trio.domain.hangs-loaded", "trio", TRIO, |rig| hangs::loaded(rig, 1)),
    nightly("trio.domain.kills", "trio", TRIO, |rig| peers::kills(rig, 15)),
    nightly("trio.domain.power", "trio", TRIO, peers::power),
    attached_nightly("trio.png", "trio", TRIO_PNG, servers::png_trio),
    nightly("trio.balloon", "trio", TRIO, balloon::to_and_fro),
    on("programs.solo", "solo", |rig| programs::exec(rig, &["main"])),
    on("programs.shadowed", "duo", |rig| programs::exec(rig, &["main", "shadow"])),
    on("programs.delegated", "duo-delegated", |rig| programs::exec(rig, &["main", "shadow"])),
    on("programs.traps", "duo", programs::traps),
    on("programs.forged", "duo", forged::refused),
    on("programs.killed", "duo", programs::killed),
    on("programs.lost", "duo", programs::lost),
    on("exec.dir", "duo", folders::served),
    on("exec.file", "duo", file::executed),
    on("exec.alone", "duo", alone::started),
    on("system.shell", "duo", system::shell),
    on("pipes.delegated", "duo", pipes::delegated),
    on("pipes.lost", "duo", pipes::lost),
    on("pipes.rests", "duo-rest", pipes::rests),
    on("system.down", "duo", system::down),
    nightly("system.reboot", "duo", REBOOT, system::restarted),
    on("programs.hostile", "duo", |rig| hostile::endured(rig, 1, 20)),
    nightly("programs.hostile-often", "duo", HOSTILE, |rig| hostile::endured(rig, 2, 500)),
    on("corpus.light", "duo", corpus::light),
    on("corpus.sqlite", "duo", corpus::database),
    on("corpus.postmark", "duo", corpus::postmark),
    on("corpus.generated", "duo", |rig| generated::agree(rig, 24)),
    nightly("corpus.generated-often", "duo", GENERATED, |rig| generated::agree(rig, 500)),
    nightly("corpus.heavy", "duo", HEAVY, corpus::heavy),
    nightly("corpus.compilers", "duo", COMPILERS, corpus::compilers),
    on("programs.many", "duo", crowd::many),
    on("programs.placed", "duo", crowd::placed),
    on("programs.platforms", "duo", affinity::platforms),
    on("programs.on-demand", "duo-on-demand", affinity::on_demand),
    on("programs.allowed", "duo", allowed::manifests),
    on("programs.authority", "duo", allowed::authority),
    on("programs.stack", "duo", edge::of_stack),
    on("programs.threads", "duo", threads::together),
    on("programs.threads-harm", "duo", threads::harmful),
    on("programs.versions", "duo", versions::selected),
    on("light.threads", "duo", light::threads),
    on("light.ends", "duo", light::ends),
    on("light.lost", "duo", |rig| light::lost(rig, 2)),
    on("light.rest", "duo-rest", light::rests),
    on("moves.programs", "duo", moves::programs),
    on("moves.delegated", "duo-delegated", moves::impossible),
    on("moves.others", "duo", moves::others),
    on("moves.lost", "duo", |rig| moves::lost(rig, 3)),
    nightly("moves.lost-often", "duo", MOVES, |rig| moves::lost(rig, 50)),
    on("programs.signals", "duo", allowed::signals),
    on("programs.short", "duo", allowed::short),
    on("net.solo", "solo", net::alone),
    on("net.delegated", "duo-delegated", net::together),
    on("net.shadowed", "duo", net::shared),
    attached("net.outside", "duo", outside::both_ways),
    attached_nightly("net.linux", "duo", LINUX, linux::interoperates),
    attached_nightly("net.floods", "duo", FLOODS, floods::floods),
    attached("servers.lighttpd", "duo", servers::lighttpd),
    attached("servers.go", "duo", servers::files_of_go),
    attached("servers.mail", "duo", servers::mail),
    attached("servers.mail-lost", "duo-delegated", servers::mail_lost),
    attached("servers.png", "duo", servers::png),
    attached("servers.png-lost", "duo-delegated", servers::png_lost),
    on("servers.index", "duo", servers::index),
    attached("servers.store", "duo", servers::store),
    attached("servers.wrk", "duo", servers::loaded),
    attached_nightly("servers.browser", "duo", BROWSER, servers::browser),
    attached("servers.killed", "duo-delegated", |rig| servers::killed(rig, 3)),
    attached_nightly("servers.killed-often", "duo-delegated", SERVERS, servers::killed_often),
    on("sockets.solo", "solo", sockets::alone),
    on("sockets.delegated", "duo-delegated", sockets::together),
    on("sockets.shadowed", "duo", sockets::together),
    on("sockets.allowed", "duo", sockets::allowed),
    on("sockets.lost", "duo", sockets::lost),
    on("channels.together", "duo", channels::together),
    on("channels.across", "duo", channels::across),
    on("channels.names", "duo", channels::names),
    on("channels.names-as-files", "duo", |rig| {
        channels::files(rig, "shadowed", &["main", "shadow"])
    }),
    on("channels.names-delegated", "duo-delegated", |rig| {
        channels::files(rig, "delegated", &["main"])
    }),
    on("channels.lost", "duo", channels::lost),
    on("channels.windows", "duo", windows::together),
    on("channels.windows-single", "solo", windows::single),
    on("channels.windows-lost", "duo", windows::lost),
    on("channels.tutorial", "duo", channels::tutorial),
    on("domain.debug", "duo-1x1", debug::seen),
    on("domain.debug-held", "duo", debug::held),
    on("domain.power", "duo", peers::power),
    on("domain.off-twice", "duo", peers::off_twice),
    on("domain.off-busy", "duo-1x3", peers::off_busy),
    on("domain.panic", "duo", peers::panic),
    on("domain.kills", "duo", |rig| peers::kills(rig, 15)),
    nightly("domain.kills-often", "duo", KILLS, |rig| peers::kills(rig, 50)),
    on("domain.hangs", "duo", |rig| hangs::weak(rig, 1)),
    nightly("domain.hangs-often", "duo", HANGS, |rig| hangs::loaded(rig, 34)),
    on("domain.hangs-loaded", "duo", |rig| hangs::loaded(rig, 1)),
    on("domain.hangs-own", "duo", hangs::own),
    on("domain.main-hangs", "duo-1x1", hangs::strong),
    on("domain.main-hangs-loaded", "duo", |rig| hangs::main_loaded(rig, 1)),
    on("domain.held", "duo", hangs::held),
    on("domain.main-killed", "duo-1x1", peers::main_killed),
    on("lives.idle", "duo", lives::idle),
    on("lives.all", "duo", lives::all),
    on("lives.programs", "duo", lives::programs),
    on("lives.programs-disk", "duo", lives::programs_with_disk),
    on("lives.loaded", "duo", |rig| lives::loaded(rig, 5)),
    nightly("lives.three", "trio", LIVES_TRIO, |rig| lives::three(rig, 4)),
    nightly("lives.loaded-often", "duo", LIVES, lives::loaded_often),
    on("lives.disk", "duo", lives::disk),
    on("lives.disk-in-memory", "duo", lives::disk_in_memory),
    on("lives.hangs", "duo", lives::hangs),
    on("lives.exec", "duo", lives::exec),
    on("lives.taken", "duo", |rig| taken::over(rig, 3)),
    on("lives.shell", "duo", lives::shell),
    on("domain.soc-killed", "duo", peers::soc_killed),
];
