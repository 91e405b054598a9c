//! The board file as parsed: every key of the format. Only types are checked.
//!
//! Unknown keys are rejected. [`Spanned`] keeps the offset of a value so that later checks can
//! report its line. Keep in step with `docs/reference/boards.md`.

use crate::types::{DeviceKind, Isa, Kind, Mode, Restart, Role, Start};
use crate::units::Bytes;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub name: Spanned<String>,
    pub description: String,
    #[serde(default)]
    pub arguments: Option<Spanned<String>>,
    pub ram: RangeOf,
    pub fabric: Spanned<Fabric>,
    #[serde(default)]
    pub domain: Vec<Spanned<Domain>>,
    #[serde(default)]
    pub memory: Vec<Spanned<Memory>>,
    #[serde(default)]
    pub device: Vec<Spanned<Device>>,
    #[serde(default)]
    pub services: BTreeMap<Spanned<String>, Spanned<Service>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RangeOf {
    pub base: Spanned<u64>,
    pub size: Spanned<Bytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    pub vectors: Spanned<u32>,
    pub message: Spanned<u32>,
    pub dsm: Spanned<u32>,
    pub chip: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    pub name: Spanned<String>,
    pub isa: Isa,
    pub role: Spanned<Role>,
    pub cores: Spanned<u32>,
    pub cpu: Spanned<String>,
    #[serde(default = "yes")]
    pub mmu: Spanned<bool>,
    pub ram: RangeOf,
    pub stub: Spanned<u64>,
    pub image_max: Spanned<Bytes>,
    #[serde(default)]
    pub qemu: Option<Spanned<String>>,
    #[serde(default)]
    pub restart: Restart,
    #[serde(default)]
    pub start: Option<Spanned<Start>>,
    #[serde(default)]
    pub rest_after_ms: Option<Spanned<u32>>,
    #[serde(default = "none")]
    pub frequencies_mhz: Spanned<Vec<u32>>,
    #[serde(default)]
    pub nominal_mhz: Option<Spanned<u32>>,
    #[serde(default)]
    pub costs: BTreeMap<Spanned<String>, Spanned<Cost>>,
    #[serde(default)]
    pub power: Option<Power>,
}

fn none() -> Spanned<Vec<u32>> {
    Spanned::new(0..0, Vec::new())
}

fn yes() -> Spanned<bool> {
    Spanned::new(0..0, true)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    pub value: f64,
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    pub source: Spanned<String>,
    pub rail: String,
    pub inactive_mw: Spanned<f64>,
    #[serde(default)]
    pub off_mw: Option<Spanned<f64>>,
    #[serde(default)]
    pub cluster: Option<String>,
    #[serde(default)]
    pub points: Option<Spanned<Vec<Spanned<Point>>>>,
    #[serde(default)]
    pub estimate: Option<Spanned<Estimate>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    pub mhz: u32,
    pub active_mw: f64,
    pub idle_mw: f64,
    #[serde(default)]
    pub gated_mw: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    pub full_mw: f64,
    pub leakage: f64,
    pub idle_activity: f64,
    pub steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub mhz: u32,
    pub volts: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub kind: Kind,
    pub base: Spanned<u64>,
    pub size: Spanned<Bytes>,
    #[serde(default)]
    pub owner: Option<Spanned<String>>,
    #[serde(default)]
    #[expect(dead_code, reason = "a note is only for readers of the file")]
    pub note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: Spanned<String>,
    pub kind: DeviceKind,
    pub home: Spanned<String>,
    pub vector: Spanned<u32>,
    pub kick: Spanned<u32>,
    pub memory: Spanned<Bytes>,
    #[serde(default)]
    pub disk: Option<Spanned<Bytes>>,
    #[serde(default)]
    pub channels: Option<Spanned<Figure>>,
    #[serde(default)]
    pub bandwidth_mbps: Option<Spanned<Figure>>,
    #[serde(default)]
    pub home_weight: Option<Spanned<Figure>>,
    #[serde(default)]
    pub home_first_us: Option<Spanned<Figure>>,
    #[serde(default)]
    pub setup_ns: Option<Spanned<Figure>>,
    #[serde(default)]
    pub mac: Option<Spanned<String>>,
    #[serde(default)]
    pub address: Option<Spanned<String>>,
    #[serde(default)]
    pub gateway: Option<Spanned<String>>,
    #[serde(default)]
    pub names: Option<Spanned<String>>,
    #[serde(default)]
    pub address6: Option<Spanned<String>>,
    #[serde(default)]
    pub gateway6: Option<Spanned<String>>,
    #[serde(default)]
    pub names6: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub value: u64,
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    pub mode: Mode,
    #[serde(default)]
    pub home: Option<Spanned<String>>,
}
