//! Checks of the `[[device]]` tables: vectors, memory, and keys of one kind of device only.

use crate::block::Block;
use crate::error::{Place, Reason};
use crate::file;
use crate::memory::{domain_index, range};
use crate::net;
use crate::types::{Device, DeviceKind, Dma, Fabric, Figure};
use crate::units::shown;
use crate::value::{count, sourced, take, unique};
use crate::window::Layout;
use abi::boot::MAX_DEVICES;
use abi::dma::{
    MAX_BANDWIDTH_MBPS, MAX_CHANNELS, MAX_HOME_FIRST_NS, MAX_SETUP_NS, MAX_WEIGHT, MIN_CHANNELS,
    RING_BYTES,
};
use std::ops::RangeInclusive;
use toml::Spanned;

/// The vector at the soc that signals a request of a domain.
const REQUEST_KICK: u32 = 0;

/// Returns all devices with their addresses in the window.
pub fn all(
    raw: &[Spanned<file::Device>],
    fabric: &Fabric,
    layout: &Layout,
    names: &[String],
) -> Place<Vec<Device>> {
    let ours = [(fabric.message, "message"), (fabric.dsm, "dsm"), (fabric.chip, "chip")];
    let mut vectors: Vec<_> = ours.iter().map(|(v, n)| (*v, format!("fabric.{n}"))).collect();
    let mut kicks = vec![(REQUEST_KICK, "the domains' requests to the soc".to_string())];
    let (mut taken, mut devices, mut next) = (Vec::new(), Vec::new(), layout.memory);
    for entry in raw {
        let d = entry.get_ref();
        unique("device", &d.name, &mut taken)?;
        count("devices", taken.len(), MAX_DEVICES, entry.span().start)?;
        let who = format!("device \"{}\"", d.name.get_ref());
        let size = d.memory.get_ref().0;
        if size == 0 || !size.is_multiple_of(4096) {
            let at = d.memory.span().start;
            return Err((at, range("device memory", &format!("{size} B"), "whole pages")));
        }
        devices.push(Device {
            name: d.name.get_ref().clone(),
            kind: d.kind,
            home: domain_index(&d.home, names)?,
            vector: take(&d.vector, fabric.vectors, who.clone(), &mut vectors)?,
            kick: take(&d.kick, fabric.vectors, who, &mut kicks)?,
            registers: layout.registers_of(devices.len()),
            memory: Block { base: next, size },
            disk: disk(d, entry.span().start)?,
            dma: dma(d, names.len())?,
            net: net::net(d)?,
        });
        next += size;
    }
    Ok(devices)
}

fn disk(device: &file::Device, at: usize) -> Place<u64> {
    match (device.kind, &device.disk) {
        (DeviceKind::Block, Some(size)) => {
            let bytes = size.get_ref().0;
            if bytes == 0 || !bytes.is_multiple_of(512) {
                let shown = format!("{bytes} B");
                return Err((size.span().start, range("disk", &shown, "whole 512 B sectors")));
            }
            Ok(bytes)
        }
        (DeviceKind::Block, None) => {
            Err((at, Reason::Missing("a block device needs `disk`, its size".to_string())))
        }
        (_, Some(size)) => {
            let why = "`disk` is for block devices only".to_string();
            Err((size.span().start, Reason::Conflict(why)))
        }
        (_, None) => Ok(0),
    }
}

/// Defaults for missing keys, with their sources.
mod default {
    pub const CHANNELS: &str = "default: the fewest an engine has, and one for every domain";
    pub const BANDWIDTH_MBPS: (u64, &str) =
        (43, "default: OMAP4, K2 table 6: 43.1 MB/s while two kernels keep the engine busy");
    pub const HOME_WEIGHT: (u64, &str) = (1, "default: all channels are equal");
    pub const HOME_FIRST_US: (u64, &str) = (0, "default: nothing waits for the home");
    pub const SETUP_NS: (u64, &str) = (1000, "default: estimate, nothing is published");
}

fn dma(device: &file::Device, domains: usize) -> Place<Option<Dma>> {
    let figures = [
        &device.channels,
        &device.bandwidth_mbps,
        &device.home_weight,
        &device.home_first_us,
        &device.setup_ns,
    ];
    if device.kind != DeviceKind::Dma {
        return match figures.into_iter().flatten().next() {
            None => Ok(None),
            Some(other) => {
                let why = "`channels`, `bandwidth_mbps`, `home_weight`, `home_first_us` and \
                           `setup_ns` are for dma devices only";
                Err((other.span().start, Reason::Conflict(why.to_string())))
            }
        };
    }
    let [channels, bandwidth, weight, first, setup] = figures;
    let fewest = MIN_CHANNELS.max(domains) as u64;
    let most = MAX_CHANNELS as u64;
    let (bandwidths, setups) = (1..=MAX_BANDWIDTH_MBPS, 0..=MAX_SETUP_NS);
    let (weights, waits) = (1..=MAX_WEIGHT, 0..=MAX_HOME_FIRST_NS / 1000);
    let dma = Dma {
        channels: figure("channels", channels, (fewest, default::CHANNELS), fewest..=most)?,
        bandwidth_mbps: figure("bandwidth_mbps", bandwidth, default::BANDWIDTH_MBPS, bandwidths)?,
        home_weight: figure("home_weight", weight, default::HOME_WEIGHT, weights)?,
        home_first_us: figure("home_first_us", first, default::HOME_FIRST_US, waits)?,
        setup_ns: figure("setup_ns", setup, default::SETUP_NS, setups)?,
    };
    let (need, memory) = (dma.channels.value * RING_BYTES, device.memory.get_ref().0);
    if memory < need {
        let must = format!("at least {} for {} rings", shown(need), dma.channels.value);
        return Err((device.memory.span().start, range("device memory", &shown(memory), &must)));
    }
    Ok(Some(dma))
}

/// Returns a figure from the file, or its default.
fn figure(
    what: &'static str,
    written: &Option<Spanned<file::Figure>>,
    (value, source): (u64, &str),
    allowed: RangeInclusive<u64>,
) -> Place<Figure> {
    let Some(written) = written else {
        return Ok(Figure { value, source: source.to_string() });
    };
    let (at, figure) = (written.span().start, written.get_ref());
    if !allowed.contains(&figure.value) {
        let must = format!("{} to {}", allowed.start(), allowed.end());
        return Err((at, range(what, &figure.value.to_string(), &must)));
    }
    sourced(at, &figure.source)?;
    Ok(Figure { value: figure.value, source: figure.source.clone() })
}
