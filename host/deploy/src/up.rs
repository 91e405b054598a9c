//! `pen up`: builds what a board needs, and starts it, with the options of a start.

use crate::{disks, system};
use anyhow::{anyhow, bail};
use board::Board;
use builds::apps;
use builds::kernels::{self, Built, Profile};
use std::path::PathBuf;
use tree::place::Place;
use tree::progress::Step;
use workbench::instance::{BORROWED, Instance, InstanceError};
use workbench::network::{self, Forward, Network};
use workbench::prepare::{find, plugin, soc_binary};
use workbench::{machine, model};

/// The kernels to build.
#[derive(clap::Args, Clone)]
pub struct Which {
    /// Board: a name from boards/, or a path to a .toml file.
    #[arg(default_value = "duo")]
    pub board: String,
    /// How the kernels are built.
    #[arg(long, value_enum, default_value = "kernel")]
    pub profile: Profile,
}

/// Options of a start.
#[derive(clap::Args, Clone)]
pub struct How {
    /// The kernels.
    #[command(flatten)]
    pub which: Which,
    /// Name of this instance and of its folder under run/. By default, the board's name.
    #[arg(long)]
    name: Option<String>,
    /// Count instructions (boards with one domain and one core).
    #[arg(long)]
    icount: bool,
    /// Run in the lab: exact chip time and energy (boards with one core per domain).
    #[arg(long)]
    lab: bool,
    /// In the lab: what is measured: `time`, `energy`, `sanitizer` (any board) or `full`.
    #[arg(long, value_parser = model::mode, default_value = "energy", requires = "lab")]
    mode: lab::model::Mode,
    /// In the lab: how far a domain may run past another; 0 is the slow reference.
    #[arg(long, default_value_t = 1000, value_name = "NS")]
    quantum: u64,
    /// In the lab: set every cost but the instruction's to zero.
    #[arg(long)]
    no_costs: bool,
    /// Command line of the kernels, instead of the board's.
    #[arg(long)]
    arguments: Option<String>,
    /// Use no system disk: the console is the kernels' monitor.
    #[arg(long)]
    bare: bool,
    /// The network: `none`, `user` (this host's, as far as its user may use it), the path of a
    /// unix socket with frames, such as passt's, or with --lab `script:FILE`, a peer that does what
    /// the file says. By default, `user`, and `none` in exact runs.
    #[arg(long, value_parser = network::parse, value_name = "NET")]
    net: Option<Network>,
    /// Publish a port of the chip on this host: `8080:80`, `0.0.0.0:8080:80` or `8080:80/udp`.
    /// Without an address, only this host reaches it. May be repeated.
    #[arg(long, value_name = "PORTS")]
    publish: Vec<Forward>,
    /// Write all frames of the network to this file, which Wireshark reads.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// The board ends with one program, and its disk is a copy. Whether that needs all programs.
    #[arg(skip)]
    lent: Option<bool>,
}

impl How {
    /// Options of a board for one program: one of its system (`programs`), or a file.
    pub fn lent(board: &str, name: String, programs: bool) -> How {
        How {
            which: Which { board: board.to_string(), profile: Profile::Kernel },
            name: Some(name),
            icount: false,
            lab: false,
            mode: lab::model::Mode::Energy,
            quantum: 1000,
            no_costs: false,
            arguments: None,
            bare: false,
            net: None,
            publish: Vec::new(),
            pcap: None,
            lent: Some(programs),
        }
    }

    /// Returns the network, which an exact run cannot have.
    fn network(&self) -> anyhow::Result<Network> {
        let is_exact = self.lab || self.icount;
        let network = match &self.net {
            Some(network) => network.clone(),
            None if is_exact => Network::None,
            None => Network::User,
        };
        let is_scripted = matches!(network, Network::Script(_));
        if is_scripted && !self.lab {
            bail!("--net: a script has the times of the chip, which only --lab has");
        }
        if is_exact && !is_scripted && network != Network::None {
            bail!("--net: an exact run (--lab, --icount) has no network outside; leave it out");
        }
        if !self.publish.is_empty() && network != Network::User {
            bail!("--publish needs the network of this host: `--net user`, and no exact run");
        }
        Ok(network)
    }

    /// Returns the options for QEMU and soc.
    fn options(&self) -> anyhow::Result<machine::Options> {
        let choice = model::Choice {
            quantum_ns: self.quantum,
            no_costs: self.no_costs,
            mode: self.mode,
            profile: false,
        };
        let lab = if self.lab { Some((choice, plugin()?)) } else { None };
        Ok(machine::Options {
            icount: self.icount,
            lab,
            arguments: self.arguments.clone(),
            network: self.network()?,
            pcap: self.pcap.as_ref().map(std::path::absolute).transpose()?,
            outlives: self.lent.is_none(),
            ..machine::Options::default()
        })
    }
}

/// Builds a board's kernels, and at the same time the system's programs if it has them: neither
/// needs the other, and each build leaves cores idle while its last crates are compiled.
fn build_all(
    place: &Place,
    board: &Board,
    profile: Profile,
    has_programs: bool,
) -> anyhow::Result<(Vec<Built>, Option<Vec<apps::Built>>)> {
    std::thread::scope(|scope| {
        let programs = scope.spawn(|| has_programs.then(|| apps::build(place, &[])).transpose());
        let kernels = kernels::build(place, &kernels::isas(board), profile)?;
        let programs = programs.join();
        let programs = programs.map_err(|_| anyhow!("the build of the programs panicked"))??;
        Ok((kernels, programs))
    })
}

/// `pen up`
pub fn up(place: &Place, how: &How) -> anyhow::Result<Instance> {
    let file = find(place, &how.which.board)?;
    let name = how.name.clone().map_or_else(|| board::read(&file).map(|b| b.name), Ok)?;
    let instance = Instance::named(place, &name)?;
    if instance.soc().is_some() {
        return Err(InstanceError::Running(name).into());
    }
    let board = board::read(&file)?;
    let mut options = how.options()?;
    let has_system = !how.bare && !options.is_exact() && system::fits(&board);
    let has_programs = has_system && how.lent != Some(false);
    let (kernels, programs) = build_all(place, &board, how.which.profile, has_programs)?;
    if has_system {
        options.arguments = Some(if how.lent.is_some() {
            let own = Instance::named(place, &board.name)?;
            system::lend(place, &own, &instance, &board, programs.as_deref())?
        } else {
            let (programs, key) = (programs.unwrap_or_default(), instance.lasting_key()?);
            system::prepare(place, &instance, &board, &programs, &key)?;
            system::arguments(options.arguments.as_deref().unwrap_or(&board.arguments))
        });
    }
    disks::mend_all(&instance, &board, has_system.then_some(system::DISK));
    let step = Step::begin(&format!("starting {}", instance.name));
    instance.start(&soc_binary()?, &file, &kernels, &options)?;
    step.done();
    if let Err(why) = instance.publish(&how.publish) {
        instance.stop()?;
        return Err(why.into());
    }
    if how.lent.is_some() {
        return Ok(instance);
    }
    eprintln!("pen: {} is up: ./pen console {0}, ./pen down {0}", instance.name);
    Ok(instance)
}

/// Returns the only running board, if there is one. A board that ends with its program does not
/// count.
pub fn only(place: &Place) -> anyhow::Result<Option<Instance>> {
    let free = |i: &Instance| i.soc().is_some() && !i.name.starts_with(BORROWED);
    let mut running: Vec<Instance> = Instance::all(place).into_iter().filter(free).collect();
    match (running.pop(), running.len()) {
        (one, 0) => Ok(one),
        (_, _) => bail!("several boards are running: say which (`./pen ps` lists them)"),
    }
}
