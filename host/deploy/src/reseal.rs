//! `pen manifest`: gives an installed program another manifest. Its images are fetched from the
//! board, opened, and sealed again with the code that they have; nothing is compiled, and the
//! module need not be on this host.

use crate::install::{self, Grants, Installed, Source};
use crate::transfer::Stream;
use abi::moves::asyncify;
use abi::program::FOLDER;
use anyhow::{Context, ensure};
use board::Isa;
use builds::kernels;
use program::{KEY, Manifest, Movable};
use std::path::{Path, PathBuf};
use tree::place::Place;
use workbench::instance::Instance;

/// `pen manifest`
#[derive(clap::Args)]
pub struct Line {
    /// Name of the program on the board.
    pub program: String,
    /// Its new manifest.
    pub manifest: PathBuf,
    /// Allow the directories that the manifest lists as grants: the program gets them from
    /// any parent.
    #[arg(long)]
    pub allow_grants: bool,
    /// Board. Optional if only one is running.
    #[arg(long)]
    pub board: Option<String>,
}

/// `pen manifest`
pub fn manifest(place: &Place, instance: &Instance, line: &Line) -> anyhow::Result<()> {
    let grants = if line.allow_grants { Grants::Allowed } else { Grants::Refused };
    let name = install::named(&line.program)?;
    for image in replace(place, instance, &name, &line.manifest, grants)? {
        let kib = image.bytes.div_ceil(1024);
        println!("{kib} KiB to {}:{}, with the code that it had", instance.name, image.path);
    }
    Ok(())
}

/// Replaces the manifest of the board's program `name` by the one in `file`. Stores nothing unless
/// all of its images can be sealed again.
pub fn replace(
    place: &Place,
    instance: &Instance,
    name: &str,
    file: &Path,
    grants: Grants,
) -> anyhow::Result<Vec<Installed>> {
    let source = Source { grants, ..Source::new(Path::new(name), Some(file)) };
    let manifest = install::checked_manifest(&place.root, source)?;
    let (isas, key) = (kernels::isas(&instance.board()?), instance.program_key()?);
    let mut made = vec![];
    for isa in isas {
        let (path, mut image) = (format!("/{FOLDER}/{name}.{}", isa.name()), vec![]);
        let what = || format!("{path}: is {name} installed there? `pen install` does that");
        Stream::open(instance)?.pull(&path, &mut image).with_context(what)?;
        let sealed = resealed(&image, &manifest, isa, &key).context(path.clone())?;
        made.push((path, sealed));
    }
    let store = |(path, image): (String, Vec<u8>)| {
        let bytes = Stream::open(instance)?.push(&image[..], &path).context(path.clone())?;
        Ok(Installed { path, bytes })
    };
    made.into_iter().map(store).collect()
}

/// Returns an image with the code of `image` and another manifest.
fn resealed(
    image: &[u8],
    manifest: &Manifest,
    isa: Isa,
    key: &[u8; KEY],
) -> anyhow::Result<Vec<u8>> {
    let opened = program::open(image, isa.number(), key)?;
    ensure!(
        manifest.movable == Movable::No || can_move(&opened.code),
        "the manifest says `movable`, and the program's code was not made for that: `pen install` \
         it from its module"
    );
    Ok(program::seal(&opened.code, manifest, isa.number(), opened.source, key)?)
}

/// Returns whether compiled code exports the functions by which a program moves.
fn can_move(code: &[u8]) -> bool {
    let has = |name: &&str| code.windows(name.len()).any(|found| found == name.as_bytes());
    asyncify::ALL.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::{Affinity, Endpoint, Opened, To};

    const KEY_OF_BOARD: [u8; KEY] = [5; KEY];

    fn image(manifest: &str, code: &[u8]) -> Vec<u8> {
        let manifest = Manifest::parse("it.toml", manifest).unwrap();
        program::seal(code, &manifest, Isa::Aarch64.number(), [9; 32], &KEY_OF_BOARD).unwrap()
    }

    fn with(image: &[u8], manifest: &str) -> anyhow::Result<Opened> {
        let mut manifest = Manifest::parse("new.toml", manifest)?;
        manifest.resolve(|_| anyhow::Ok([7; 16]))?;
        let made = resealed(image, &manifest, Isa::Aarch64, &KEY_OF_BOARD)?;
        Ok(program::open(&made, Isa::Aarch64.number(), &KEY_OF_BOARD)?)
    }

    /// The code is no program, so nothing could have compiled it.
    #[test]
    fn a_manifest_changes_and_the_code_stays() {
        let code: Vec<u8> = (0..9000u32).map(|it| (it * 7) as u8).collect();
        let old = image("args = [\"-v\"]\nmemory = \"64 MiB\"", &code);
        let new = with(&old, "endpoints = [{ contract = \"ping.v1\", affinity = \"negative\" }]");
        let new = new.unwrap();
        assert_eq!((&new.code, new.source), (&code, [9; 32]));
        assert_eq!((new.args.len(), new.memory), (0, 0), "nothing is left of the old manifest");
        let to = To::Contract { name: "ping.v1".to_string(), hash: Some([7; 16]) };
        let wanted = Endpoint { to, affinity: Affinity::Value(-1) };
        assert_eq!(new.endpoints, [wanted]);
    }

    #[test]
    fn only_images_of_this_board_get_a_manifest() {
        let sealed = image("", b"code");
        let other = resealed(&sealed, &Manifest::default(), Isa::Aarch64, &[6; KEY]);
        assert!(other.unwrap_err().to_string().contains("sealed for another board"));
        let isa = resealed(&sealed, &Manifest::default(), Isa::Riscv64, &KEY_OF_BOARD);
        assert!(isa.unwrap_err().to_string().contains("another ISA"));
        assert!(with(b"no image", "").is_err());
    }

    #[test]
    fn code_that_cannot_move_is_not_called_movable() {
        let why = with(&image("", b"code"), "movable = true").unwrap_err().to_string();
        assert!(why.contains("`pen install` it from its module"), "{why}");
        let exports = asyncify::ALL.join("\0");
        assert!(with(&image("movable = true", exports.as_bytes()), "movable = true").is_ok());
        assert!(with(&image("movable = true", exports.as_bytes()), "").is_ok());
    }
}
