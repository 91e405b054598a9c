//! The sealed image of a program: its code for one ISA, and its manifest.

use crate::manifest::Manifest;
use crate::placement::{Affinity, Endpoint, Platforms, To};
use kernel_seal::{Contents, KEY, Refused};

/// The decoded contents of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Arguments.
    pub args: Vec<String>,
    /// `NAME=VALUE`.
    pub env: Vec<String>,
    /// Path, name, whether it is writable, and whether it is a grant.
    pub preopens: Vec<(String, String, bool, bool)>,
    /// Platforms that it requires or prefers.
    pub platforms: Platforms,
    /// Contracts that it uses or serves.
    pub endpoints: Vec<Endpoint>,
    /// Rules of what it may reach.
    pub net: Vec<String>,
    /// Ports of the listeners that it starts with.
    pub listen: Vec<u16>,
    /// Memory limit in bytes.
    pub memory: u64,
    /// One of [`abi::program::class`].
    pub class: u32,
    /// Maximum number of descriptors.
    pub files: u32,
    /// [`abi::program::right`]s.
    pub rights: u32,
    /// Limits of the process tree or branch that it begins; 0: the usual ones.
    pub tree_processes: u16,
    pub tree_files: u16,
    /// BLAKE3 of the .wasm.
    pub source: [u8; 32],
    /// What the engine loads.
    pub code: Vec<u8>,
}

/// Creates the image of `code`, compiled for `isa` ([`abi::boot::isa`]) from a .wasm with hash
/// `source`, and seals it with the board's program key.
pub fn seal(
    code: &[u8],
    manifest: &Manifest,
    isa: u32,
    source_hash: [u8; 32],
    key: &[u8; KEY],
) -> Result<Vec<u8>, Refused> {
    let [arguments, environment, preopens, endpoints, net, listen] = manifest.strings();
    let image = Contents {
        isa,
        class: manifest.class.number(),
        required: manifest.platforms.required,
        preferred: manifest.platforms.preferred,
        memory: manifest.memory,
        files: manifest.limits.files,
        rights: manifest.rights(),
        tree_processes: manifest.limits.tree_processes,
        tree_files: manifest.limits.tree_files,
        arguments: &arguments,
        environment: &environment,
        preopens: &preopens,
        endpoints: &endpoints,
        net: &net,
        listen: &listen,
        source: source_hash,
        code,
    };
    kernel_seal::seal(&image, key)
}

/// Decodes an image for `isa`. It is rejected as a kernel would reject it.
pub fn open(bytes: &[u8], isa: u32, key: &[u8; KEY]) -> Result<Opened, Refused> {
    let image = kernel_seal::check(bytes, isa, key)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let endpoint = |it: kernel_seal::Endpoint<'_>| Endpoint {
        to: match it.to {
            kernel_seal::To::Contract { name, hash } => To::Contract { name: text(name), hash },
            kernel_seal::To::Name(name) => To::Name(text(name)),
        },
        affinity: if it.is_own { Affinity::Own } else { Affinity::Value(it.affinity) },
    };
    Ok(Opened {
        args: image.arguments().map(text).collect(),
        env: image.environment().map(text).collect(),
        preopens: image
            .preopens()
            .map(|it| (text(it.path), text(it.name), it.write, it.grant))
            .collect(),
        platforms: Platforms { required: image.required, preferred: image.preferred },
        endpoints: image.endpoints().map(endpoint).collect(),
        net: image.net().map(text).collect(),
        listen: image.listen().collect(),
        memory: image.memory,
        class: image.class,
        files: image.files,
        rights: image.rights,
        tree_processes: image.tree_processes,
        tree_files: image.tree_files,
        source: image.source,
        code: image.code.to_vec(),
    })
}
