//! Converts a board to the form that kernels read: [`abi::boot::Blob`].

use crate::types::{Board, Kind, Mode, Power, Role};
use abi::boot::{self, Blob, BlobError, BootSecrets};
use abi::power::{MAX_POINTS, PowerPoint};
use zerocopy::{FromZeros, IntoBytes};

/// Returns `text`, truncated to fit, and padded with NUL (the last byte is always NUL).
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from;
    }
    bytes
}

fn owner(index: Option<usize>) -> u32 {
    index.map_or(boot::NOBODY, |i| i as u32)
}

fn microwatts(mw: f64) -> u32 {
    (mw * 1000.0).round() as u32
}

/// Returns the powers of the first frequencies of a table, each at the lowest voltage that it has.
fn power_points(table: &Power) -> [PowerPoint; MAX_POINTS] {
    let mut points = [PowerPoint::default(); MAX_POINTS];
    let mut used = 0;
    for point in &table.points {
        let lowest = table.points.iter().filter(|other| other.mhz == point.mhz).map(|p| p.mv).min();
        if used < points.len() && lowest == Some(point.mv) {
            points[used] = PowerPoint {
                mhz: point.mhz,
                active_uw: microwatts(point.active_mw),
                idle_uw: microwatts(point.idle_mw),
                gated_uw: microwatts(point.gated_mw),
            };
            used += 1;
        }
    }
    points
}

impl Board {
    /// Returns the blob, checked with the kernels' own check.
    pub fn blob(&self) -> Result<Blob, BlobError> {
        self.blob_with(&self.arguments, &BootSecrets::default())
    }

    /// Returns the blob with a different kernel command line, and with the secrets of this start.
    pub fn blob_with(&self, arguments: &str, given: &BootSecrets) -> Result<Blob, BlobError> {
        let mut blob = Blob::new_zeroed();
        blob.magic = boot::BLOB_MAGIC;
        blob.version = boot::VERSION;
        blob.size = size_of::<Blob>() as u32;
        blob.name = padded(&self.name);
        blob.soc_slot = Board::SOC_SLOT;
        blob.vectors = self.fabric.vectors;
        blob.vector_msg = self.fabric.message;
        blob.vector_dsm = self.fabric.dsm;
        blob.vector_chip = self.fabric.chip;
        blob.flags = 1;
        blob.given = *given;
        blob.arguments = padded(arguments);
        self.fill_window(&mut blob);
        self.fill_domains(&mut blob);
        self.fill_regions(&mut blob);
        self.fill_devices(&mut blob);
        self.fill_services(&mut blob);
        blob.checksum = boot::fnv(boot::FNV_START, blob.as_bytes());
        blob.check(blob.checksum)?;
        Ok(blob)
    }

    fn fill_window(&self, blob: &mut Blob) {
        let layout = &self.layout;
        blob.window = boot::Window {
            base: layout.window.base,
            size: layout.window.size,
            chip: layout.chip,
            domains: layout.domains,
            blocks: layout.blocks,
            links: layout.links,
            link_size: layout.link_size,
            dsm: layout.dsm,
            dsm_link_size: layout.dsm_link_size,
        };
    }

    fn fill_domains(&self, blob: &mut Blob) {
        blob.domain_count = self.domains.len() as u32;
        for (to, from) in blob.domains.iter_mut().zip(&self.domains) {
            *to = boot::Domain {
                name: padded(&from.name),
                isa: from.isa.number(),
                role: match from.role {
                    Role::Main => boot::role::MAIN,
                    Role::Shadow => boot::role::SHADOW,
                    Role::Proxy => boot::role::PROXY,
                },
                slot: from.slot,
                cores: from.cores,
                flags: boot::HAS_MMU,
                khz: from.nominal_mhz * 1000,
                rest_after_ms: from.rest_after_ms.unwrap_or(boot::NEVER_RESTS),
                inactive_uw: from.power.as_ref().map_or(0, |table| microwatts(table.inactive_mw)),
                ram_base: from.ram.base,
                ram_size: from.ram.size,
                image_pa: from.image.base,
                image_max: from.image.size,
                staging_pa: from.staging.base,
                staging_size: from.staging.size,
                powers: from.power.as_ref().map(power_points).unwrap_or_default(),
            };
        }
    }

    fn fill_regions(&self, blob: &mut Blob) {
        blob.region_count = self.regions.len() as u32;
        for (to, from) in blob.regions.iter_mut().zip(&self.regions) {
            let kind = match from.kind {
                Kind::Reserved => boot::kind::RESERVED,
                Kind::Staging => boot::kind::STAGING,
                Kind::Uncached => boot::kind::UNCACHED,
                Kind::Local => boot::kind::LOCAL,
                Kind::Global => boot::kind::GLOBAL,
                Kind::Bulk => boot::kind::BULK,
                Kind::Disk => boot::kind::DISK,
            };
            *to = boot::Region {
                base: from.block.base,
                size: from.block.size,
                kind,
                owner: owner(from.owner),
            };
        }
    }

    fn fill_devices(&self, blob: &mut Blob) {
        blob.device_count = self.devices.len() as u32;
        for (to, from) in blob.devices.iter_mut().zip(&self.devices) {
            *to = boot::Device {
                name: padded(&from.name),
                kind: from.kind.code(),
                home: from.home as u32,
                vector: from.vector,
                kick: from.kick,
                registers: from.registers,
                memory: from.memory.base,
                memory_size: from.memory.size,
            };
        }
    }

    fn fill_services(&self, blob: &mut Blob) {
        blob.service_count = self.services.len() as u32;
        for (to, from) in blob.services.iter_mut().zip(&self.services) {
            let mode = match from.mode {
                Mode::Private => boot::mode::PRIVATE,
                Mode::Independent => boot::mode::INDEPENDENT,
                Mode::Shadowed => boot::mode::SHADOWED,
                Mode::Partitioned => boot::mode::PARTITIONED,
                Mode::Delegated => boot::mode::DELEGATED,
            };
            *to = boot::Service { name: padded(&from.name), mode, home: owner(from.home) };
        }
    }
}
