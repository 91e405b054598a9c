//! Generates `layout.h` of the guest's DMA driver: the constants of `abi::dma` for C, so that the
//! two cannot diverge.

use abi::dma::{
    Control, Descriptor, Engine, MAGIC, MAX_BYTES, MAX_CHANNELS, RING, Registers, Status, flag,
    status,
};
use std::fmt::Write;
use std::mem::offset_of;

/// Returns the header's text.
pub fn header() -> String {
    let mut text = String::from(
        "/* Made by `./pen lab linux setup` from abi/src/dma.rs. Offsets are bytes: PD_ENGINE_*,\n \
         * PD_CONTROL and PD_STATUS in the register block, the rest in their lines. */\n",
    );
    for (name, value) in numbers() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "#define PD_{name} {value:#x}UL");
    }
    text
}

fn numbers() -> Vec<(&'static str, u64)> {
    let engine = offset_of!(Registers, engine);
    let offsets = [
        ("ENGINE_MAGIC", engine + offset_of!(Engine, magic)),
        ("ENGINE_CHANNELS", engine + offset_of!(Engine, channels)),
        ("ENGINE_BANDWIDTH_MBPS", engine + offset_of!(Engine, bandwidth_mbps)),
        ("CONTROL", offset_of!(Registers, control)),
        ("CONTROL_SUBMITTED", offset_of!(Control, submitted)),
        ("STATUS", offset_of!(Registers, status)),
        ("STATUS_OWNER", offset_of!(Status, owner)),
        ("STATUS_COMPLETED", offset_of!(Status, completed)),
        ("STATUS_FAULT", offset_of!(Status, fault)),
        ("DESCRIPTOR", size_of::<Descriptor>()),
        ("DESCRIPTOR_SOURCE", offset_of!(Descriptor, source)),
        ("DESCRIPTOR_DESTINATION", offset_of!(Descriptor, destination)),
        ("DESCRIPTOR_BYTES", offset_of!(Descriptor, bytes)),
        ("DESCRIPTOR_FLAGS", offset_of!(Descriptor, flags)),
        ("DESCRIPTOR_POSITION", offset_of!(Descriptor, position)),
        ("DESCRIPTOR_STATUS", offset_of!(Descriptor, status)),
        ("LINE", abi::soc::LINE),
        ("RING", RING),
        ("MAX_CHANNELS", MAX_CHANNELS),
    ];
    let mut all: Vec<_> = offsets.into_iter().map(|(name, at)| (name, at as u64)).collect();
    all.extend([
        ("MAGIC", MAGIC),
        ("MAX_BYTES", MAX_BYTES),
        ("FLAG_COPY", flag::COPY),
        ("STATUS_DONE", u64::from(status::DONE)),
    ]);
    all
}

// The driver addresses channels and the chip page in lines of this size.
const _: () = assert!(size_of::<Control>() == abi::soc::LINE);
const _: () = assert!(size_of::<Status>() == abi::soc::LINE);
const _: () = assert!(size_of::<abi::soc::DomainStatus>() == abi::soc::LINE);

#[cfg(test)]
mod tests {
    use super::*;
    use abi::dma::{Position, pack_status};

    /// The header defines every name that the driver uses, and no other.
    #[test]
    fn driver_and_header_name_the_same_things() {
        let driver = include_str!("../../../../lab/linux/dma/penumbra_dma.c");
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let used: Vec<&str> =
            driver.split(|c| !word(c)).filter_map(|w| w.strip_prefix("PD_")).collect();
        for (name, _) in numbers() {
            assert!(used.contains(&name), "PD_{name} is not used");
        }
        for name in used {
            assert!(numbers().iter().any(|(n, _)| *n == name), "PD_{name} is not defined");
        }
    }

    /// The driver packs words in the same way as these functions.
    #[test]
    fn words_are_packed_as_the_driver_packs_them() {
        let position = Position { epoch: 3, generation: 7, index: 0x8000_0001 };
        let session = 3u64 << 48 | 7 << 32;
        assert_eq!(position.pack(), session | 0x8000_0001);
        let status = u64::from(status::DONE) << 48 | session & 0xffff_0000_0000 | 0x8000_0001;
        assert_eq!(pack_status(position, status::DONE), status);
        assert_eq!(abi::soc::pack_state(3, 1) >> 8, 3);
    }

    #[test]
    fn numbers_are_those_of_the_abi() {
        let text = header();
        assert!(text.contains("#define PD_STATUS 0x440UL\n"), "{text}");
        assert!(text.contains("#define PD_MAGIC 0x414d444d554e4550UL\n"), "{text}");
        assert!(text.contains("#define PD_DESCRIPTOR_STATUS 0x28UL\n"), "{text}");
    }
}
