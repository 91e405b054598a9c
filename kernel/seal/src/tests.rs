//! A sealed image passes the check; any other file is refused with the right reason.

use crate::{Contents, Endpoint, Preferences, Preopen, Refused, To, check, seal};
use abi::boot::isa;
use abi::platform;
use abi::program::{IMAGE_ALIGN, IMAGE_STRINGS, ImageHead, class, right};
use core::mem::offset_of;

const ENDPOINTS: &[u8] = b"-5 echo.v1 00112233445566778899aabbccddeeff\x000 disk\0\
    self own.v1 ffffffffffffffffffffffffffffffff\x007 /service/net\0";
const KEY: [u8; 32] = [7; 32];

fn code() -> Vec<u8> {
    (0..10_000u32).map(|it| ((it * 31) >> 3) as u8).collect()
}

fn image(code: &[u8]) -> Contents<'_> {
    Contents {
        isa: isa::AARCH64,
        class: class::LIGHT,
        required: platform::STRONG,
        preferred: 0x12,
        memory: 64 << 20,
        files: 12,
        rights: right::SIGNALS,
        tree_processes: 8,
        tree_files: 100,
        arguments: b"-v\0two words\0",
        environment: b"HOME=/\0",
        preopens: b"rw /data=/data\0r /bin=tools=old\0+rw /etc=/etc\0",
        endpoints: ENDPOINTS,
        net: b"",
        listen: b"",
        source: [9; 32],
        code,
    }
}

#[test]
fn a_sealed_image_passes_the_check() {
    let code = code();
    let file = seal(&image(&code), &KEY).unwrap();
    let found = check(&file, isa::AARCH64, &KEY).unwrap();
    assert_eq!(*found, image(&code));
    assert_eq!(file.len() % IMAGE_ALIGN as usize, code.len() % IMAGE_ALIGN as usize);
    assert!(found.arguments().eq([&b"-v"[..], b"two words"]));
    assert!(found.environment().eq([b"HOME=/"]));
    let preopens = [
        Preopen { grant: false, write: true, path: b"/data", name: b"/data" },
        Preopen { grant: false, write: false, path: b"/bin", name: b"tools=old" },
        Preopen { grant: true, write: true, path: b"/etc", name: b"/etc" },
    ];
    assert!(found.preopens().eq(preopens));
    let contract = |name, hash| To::Contract { name, hash };
    let echo = contract(b"echo.v1", Some(core::array::from_fn(|at| 0x11 * at as u8)));
    let endpoints = [
        Endpoint { affinity: -5, is_own: false, to: echo },
        // As older tools wrote it.
        Endpoint { affinity: 0, is_own: false, to: contract(b"disk", None) },
        Endpoint { affinity: -1, is_own: true, to: contract(b"own.v1", Some([0xff; 16])) },
        Endpoint { affinity: 7, is_own: false, to: To::Name(b"service/net") },
    ];
    assert!(found.endpoints().eq(endpoints));
    let (none, code) = (b"", &code[..]);
    let bare = Contents {
        arguments: none,
        environment: none,
        preopens: none,
        endpoints: none,
        net: b"",
        listen: b"",
        ..image(code)
    };
    let file = seal(&bare, &KEY).unwrap();
    assert_eq!(check(&file, isa::AARCH64, &KEY).map(|found| *found), Ok(bare));
}

#[test]
fn an_image_may_lie_at_any_address() {
    let code = code();
    let file = seal(&image(&code), &KEY).unwrap();
    let moved = [&[0; 3][..], &file].concat();
    assert_eq!(check(&moved[3..], isa::AARCH64, &KEY).map(|found| *found), Ok(image(&code)));
}

#[test]
fn every_changed_bit_is_detected() {
    let code = code();
    let mut file = seal(&image(&code), &KEY).unwrap();
    let head = size_of::<ImageHead>() + 64;
    for place in (0..head).chain((head..file.len()).step_by(131)).chain([file.len() - 1]) {
        for bit in 0..8 {
            file[place] ^= 1 << bit;
            assert!(check(&file, isa::AARCH64, &KEY).is_err(), "bit {bit} of byte {place}");
            file[place] ^= 1 << bit;
        }
    }
    assert!(check(&file, isa::AARCH64, &KEY).is_ok());
}

#[test]
fn every_other_length_is_refused() {
    let code = code();
    let mut file = seal(&image(&code), &KEY).unwrap();
    for length in (0..300).chain((300..file.len()).step_by(97)) {
        assert!(check(&file[..length], isa::AARCH64, &KEY).is_err(), "{length}");
    }
    file.push(0);
    assert_eq!(check(&file, isa::AARCH64, &KEY), Err(Refused::Size));
}

#[test]
fn each_defect_has_its_own_error() {
    let code = code();
    let file = seal(&image(&code), &KEY).unwrap();
    let with = |place: usize, value: u8| {
        let mut other = file.clone();
        other[place] = value;
        check(&other, isa::AARCH64, &KEY).map(|_| ())
    };
    assert_eq!(with(0, 0), Err(Refused::Magic));
    assert_eq!(with(offset_of!(ImageHead, version), 200), Err(Refused::Version));
    assert_eq!(with(offset_of!(ImageHead, isa), 9), Err(Refused::Isa));
    assert_eq!(with(offset_of!(ImageHead, bytes), 1), Err(Refused::Size));
    assert_eq!(with(offset_of!(ImageHead, source), 1), Err(Refused::Seal));
    assert_eq!(check(&file, isa::RISCV64, &KEY), Err(Refused::Isa));
    let mut other = KEY;
    other[31] ^= 1;
    assert_eq!(check(&file, isa::AARCH64, &other), Err(Refused::Seal));
    assert_eq!(check(b"\0asm", isa::AARCH64, &KEY), Err(Refused::Magic));
    assert!(Refused::Version.text().contains("`pen install` it again"));
}

/// The seal covers the ISA in the head, so an image cannot be relabelled for another one.
#[test]
fn the_words_before_the_seal_are_sealed() {
    let code = code();
    let mut file = seal(&image(&code), &KEY).unwrap();
    file[offset_of!(ImageHead, isa)] = isa::RISCV64 as u8;
    assert_eq!(check(&file, isa::RISCV64, &KEY), Err(Refused::Seal));
}

/// Images that are sealed with the right key but invalid.
#[test]
fn an_invalid_image_with_a_valid_seal_is_refused() {
    let code = code();
    let file = seal(&image(&code), &KEY).unwrap();
    let defects: [(usize, &[u8]); 11] = [
        (offset_of!(ImageHead, code), &[1, 0, 0, 0, 0, 0, 0, 0]),
        (offset_of!(ImageHead, code), &[0; 8]),
        (offset_of!(ImageHead, code), &[0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        (offset_of!(ImageHead, code_bytes), &[0xff; 8]),
        (offset_of!(ImageHead, class), &[3, 0, 0, 0]),
        (offset_of!(ImageHead, rights), &[8, 0, 0, 0]),
        (offset_of!(ImageHead, net), &[1, 0, 0, 0]),
        (offset_of!(ImageHead, listen), &[1, 0, 0, 0]),
        (offset_of!(ImageHead, arguments), &[0xff; 4]),
        (offset_of!(ImageHead, preopens), &[2, 0, 0, 0]),
        (offset_of!(ImageHead, endpoints), &[2, 0, 0, 0]),
    ];
    for (place, bytes) in defects {
        let mut other = file.clone();
        other[place..place + bytes.len()].copy_from_slice(bytes);
        let mut hasher = blake3::Hasher::new_keyed(&KEY);
        let seal = *hasher.update(&other[..16]).update(&other[48..]).finalize().as_bytes();
        other[16..48].copy_from_slice(&seal);
        let found = check(&other, isa::AARCH64, &KEY);
        assert_eq!(found, Err(Refused::Shape), "at {place}: {bytes:?}");
    }
}

#[test]
fn invalid_contents_are_not_sealed() {
    let code = code();
    let long = [b'a'; IMAGE_STRINGS + 1];
    let image = image(&code);
    for wrong in [
        Contents { class: 0, ..image },
        Contents { rights: 1 << 31, ..image },
        Contents { net: b"bind:80\0", ..image },
        Contents { listen: b"udp:80\0", ..image },
        Contents { net: b"listen:80\0", rights: right::NET, ..image },
        Contents { code: b"", ..image },
        Contents { arguments: b"no end", ..image },
        Contents { arguments: &long, ..image },
        Contents { preopens: b"x /data=/data\0", ..image },
        Contents { preopens: b"++r /data=/data\0", ..image },
        Contents { preopens: b"+ /data=/data\0", ..image },
        Contents { preopens: b"r data=/data\0", ..image },
        Contents { preopens: b"r /data=\0", ..image },
        Contents { preopens: b"r /data\0", ..image },
        Contents { endpoints: b"101 far\0", ..image },
        Contents { endpoints: b"near\0", ..image },
        Contents { endpoints: b"5 \0", ..image },
        Contents { endpoints: b"5 no end", ..image },
        Contents { endpoints: b"5 echo.v1 00112233\0", ..image },
        Contents { endpoints: b"5 echo.v1 00112233445566778899AABBCCDDEEFF\0", ..image },
        Contents { endpoints: b"5 echo.v1 00112233445566778899aabbccddeeff0\0", ..image },
        Contents { endpoints: b"own echo.v1\0", ..image },
        Contents { endpoints: b"5 /\0", ..image },
        Contents { endpoints: b"5 /a//b\0", ..image },
        Contents { endpoints: b"5 /a 00112233445566778899aabbccddeeff\0", ..image },
        Contents { endpoints: b"self /a\0", ..image },
        Contents { required: platform::AARCH64 | platform::RISCV64, ..image },
        Contents { required: 1 << 4, ..image },
        Contents { preferred: 0x11, ..image },
        Contents { preferred: 3, ..image },
    ] {
        assert_eq!(seal(&wrong, &KEY), Err(Refused::Shape), "{wrong:?}");
    }
}

/// Preferences are read from the head alone, which may be invalid otherwise.
#[test]
fn preferences_are_read_from_the_head() {
    let code = code();
    for class in [class::NORMAL, class::LIGHT] {
        let whole = seal(&Contents { class, ..image(&code) }, &KEY).unwrap();
        let head = &whole[..size_of::<ImageHead>()];
        let found = Preferences::of(head).unwrap();
        let said = (found.class, found.required, found.preferred);
        assert_eq!(said, (class, platform::STRONG, 0x12));
        assert_eq!(&whole[found.endpoints], ENDPOINTS);
        assert_eq!(Preferences::of(&head[..head.len() - 1]), None);
        let with = |at: usize, bytes: &[u8]| {
            let mut head = head.to_vec();
            head[at..at + bytes.len()].copy_from_slice(bytes);
            Preferences::of(&head)
        };
        assert_eq!(with(offset_of!(ImageHead, class), &[9]), None);
        assert_eq!(with(offset_of!(ImageHead, required), &[0x10]), None);
        assert_eq!(with(offset_of!(ImageHead, preferred), &[0x11]), None);
        assert_eq!(with(offset_of!(ImageHead, endpoints), &[0xff; 4]), None);
        assert_eq!(with(offset_of!(ImageHead, arguments), &[0xff; 4]), None);
        assert_eq!(with(offset_of!(ImageHead, version), &[200]), None);
    }
    assert_eq!(Preferences::of(&[0; 200]), None);
}

/// The class had four bytes, of which the upper three were 0.
#[test]
fn images_of_older_tools_have_no_platforms() {
    let code = code();
    let none = Contents { required: 0, preferred: 0, ..image(&code) };
    let file = seal(&none, &KEY).unwrap();
    let class = offset_of!(ImageHead, class);
    assert_eq!(file[class..class + 4], class::LIGHT.to_le_bytes());
    assert_eq!(*check(&file, isa::AARCH64, &KEY).unwrap(), none);
}
