//! Staging of small hand-made ELF files.

use super::*;
use std::path::Path;
use zerocopy::FromBytes;

const ENTRY: u64 = 0x10;
/// Address of the word with a relocation.
const WORD: u64 = 0x18;
const FILE: usize = 0x40;
const MEMORY: u64 = 0x1000;

fn put(bytes: &mut Vec<u8>, parts: &[(u64, usize)]) {
    for &(value, size) in parts {
        bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// Returns an ELF file with one segment of 0x40 bytes at 0, one relocation of `kind`, and e_type
/// `form`.
fn elf_file(machine: u16, form: u16, kind: u64) -> Vec<u8> {
    let (data, rela) = (64 + 56, 64 + 56 + FILE as u64);
    let sections = rela + 24;
    let mut b = b"\x7fELF\x02\x01\x01".to_vec();
    b.resize(16, 0);
    put(&mut b, &[(form.into(), 2), (machine.into(), 2), (1, 4), (ENTRY, 8), (64, 8)]);
    put(&mut b, &[(sections, 8), (0, 4), (64, 2), (56, 2), (1, 2), (64, 2), (3, 2), (2, 2)]);
    put(&mut b, &[(1, 4), (7, 4), (data, 8), (0, 8), (0, 8), (FILE as u64, 8), (MEMORY, 8)]);
    put(&mut b, &[(16, 8)]);
    b.extend((0..FILE as u8).collect::<Vec<u8>>());
    put(&mut b, &[(WORD, 8), (kind, 8), (0x123, 8)]);
    b.resize(sections as usize + 64, 0);
    // .rela.dyn, allocated; then an empty string table.
    put(&mut b, &[(0, 4), (4, 4), (2, 8), (0, 8), (rela, 8), (24, 8), (0, 4), (0, 4), (8, 8)]);
    put(&mut b, &[(24, 8)]);
    put(&mut b, &[(0, 4), (3, 4), (0, 8), (0, 8), (0, 8), (0, 8), (0, 4), (0, 4), (1, 8), (0, 8)]);
    b
}

fn duo() -> Board {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards/duo.toml");
    board::read(&path).expect("the tree's own board is good")
}

const AARCH64: u16 = 183;
const RISCV: u16 = 243;
const PIE: u16 = 3;

#[test]
fn an_image_is_placed_where_its_domain_runs_it() {
    let board = duo();
    for (domain, machine, kind) in [(0, AARCH64, 1027), (1, RISCV, 3)] {
        let domain = &board.domains[domain];
        let staged = stage(&elf_file(machine, PIE, kind), &board, domain).expect("a sound file");
        let (head, _) = ImageHeader::read_from_prefix(&staged).expect("long enough");
        assert_eq!((head.magic, head.isa), (boot::IMAGE_MAGIC, domain.isa.number()));
        assert_eq!(head.load_pa, domain.image.base);
        assert_eq!(head.entry_pa, domain.image.base + ENTRY);
        assert_eq!((head.image_size, head.memory_size), (FILE as u64, MEMORY));
        assert_eq!(head.blob_pa, board.layout.blob);
        let image = &staged[boot::IMAGE_OFFSET as usize..][..FILE];
        assert_eq!(boot::fnv(boot::FNV_START, image), head.checksum);
        let word = &image[WORD as usize..][..8];
        let value = boot::VA_OFFSET + domain.image.base + 0x123;
        assert_eq!(word, value.to_le_bytes());
        assert_eq!(image[..4], [0, 1, 2, 3]);
    }
}

#[test]
fn what_cannot_be_staged_is_refused() {
    let board = duo();
    let main = &board.domains[0];
    let refused = |elf: &[u8]| stage(elf, &board, main).expect_err("must be refused").to_string();
    assert!(refused(b"no elf").contains("not a valid ELF"));
    assert!(refused(&elf_file(RISCV, PIE, 3)).contains("machine 243"));
    assert!(refused(&elf_file(AARCH64, 2, 1027)).contains("not position-independent"));
    assert!(refused(&elf_file(AARCH64, PIE, 1025)).contains("relocation of type 1025"));
    let mut outside = elf_file(AARCH64, PIE, 1027);
    outside[64 + 56 + FILE] = 0xff;
    assert!(refused(&outside).contains("outside"));
    let mut small = main.clone();
    small.image.size = 0x800;
    let why = stage(&elf_file(AARCH64, PIE, 1027), &board, &small).expect_err("too large");
    assert!(why.to_string().contains("image_max"), "{why}");
    let mut tight = main.clone();
    tight.staging.size = 0x1000;
    let why = stage(&elf_file(AARCH64, PIE, 1027), &board, &tight).expect_err("too large");
    assert!(why.to_string().contains("staging memory"), "{why}");
}
