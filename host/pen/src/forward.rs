//! `pen forward`: publishes ports of a running board on this host.

use anyhow::{Context, bail};
use workbench::instance::Instance;
use workbench::network::{Forward, Request};

/// What is asked of a board.
#[derive(clap::Args)]
pub struct Line {
    /// `HOST_PORT:PORT`, such as `8080:80`, `0.0.0.0:8080:80` or `8080:80/udp`. With `--list`, the
    /// board.
    ports: Option<String>,
    /// Board. Optional if only one is running.
    board: Option<String>,
    /// Publish the port no more; connections continue.
    #[arg(long, conflicts_with = "list")]
    remove: bool,
    /// List the published ports.
    #[arg(long)]
    list: bool,
}

impl Line {
    /// Returns the name of the board, if it was given.
    pub fn board(&self) -> Option<&str> {
        let first = self.ports.as_deref().filter(|_| self.list);
        self.board.as_deref().or(first)
    }
}

/// Publishes a port, publishes it no more, or lists all.
pub fn forward(instance: &Instance, line: &Line) -> anyhow::Result<()> {
    if line.list {
        if line.ports.is_some() && line.board.is_some() {
            bail!("--list takes a board, and no ports");
        }
        list(&instance.ask_gateway(&Request::List {})?);
        return Ok(());
    }
    let text = line.ports.as_deref().context("which port? such as 8080:80, or --list")?;
    let forward: Forward = text.parse()?;
    match line.remove {
        true => instance.unpublish(forward)?,
        false => instance.publish(&[forward])?,
    }
    Ok(())
}

fn list(published: &[Forward]) {
    if published.is_empty() {
        println!("no port is published");
    }
    published.iter().for_each(|forward| println!("{}", shown(forward)));
}

/// Describes a published port.
pub fn shown(forward: &Forward) -> String {
    let protocol = if forward.is_udp() { "/udp" } else { "" };
    format!("{}{protocol} -> port {} of the chip", forward.host, forward.port)
}
