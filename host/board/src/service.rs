//! Checks of `[services]`: the existing services, and the modes that each supports.

use crate::error::{Place, Reason};
use crate::file;
use crate::memory::domain_index;
use crate::types::{Device, DeviceKind, Mode, Service};
use abi::boot::MAX_SERVICES;
use std::collections::BTreeMap;
use toml::Spanned;

/// Something that a board may give a mode.
struct Known {
    name: &'static str,
    modes: &'static [Mode],
    /// Why it supports no other mode.
    why: &'static str,
}

/// Why no service is partitioned. `Mode::place` would find the owner of a key, but no service's
/// requests carry one: it would always be 0, and the first kernel would own everything.
const NO_KEY: &str =
    "its requests have no key that would say which kernel owns what they are about";

/// Modes of a service with one state for all kernels, or with one per kernel.
const ANYWHERE: &[Mode] = &[Mode::Private, Mode::Independent, Mode::Shadowed, Mode::Delegated];
/// The same of one whose requests cannot be sent.
const STAYS: &[Mode] = &[Mode::Private, Mode::Independent, Mode::Shadowed];

/// Part of every kernel, and no service with requests: it cannot be shared.
const SCHEDULER: Known = Known {
    name: "scheduler",
    modes: &[Mode::Private, Mode::Independent],
    why: "a kernel that waits for another one would need it to run the thread that answers",
};

/// Everything that a board may name.
fn known() -> impl Iterator<Item = Known> {
    let services = abi::service::ALL.into_iter().map(|kind| match kind.stays {
        Some(why) => Known { name: kind.name, modes: STAYS, why },
        None => Known { name: kind.name, modes: ANYWHERE, why: NO_KEY },
    });
    services.chain([SCHEDULER])
}

/// Services in the file, by name.
pub type Written = BTreeMap<Spanned<String>, Spanned<file::Service>>;

/// Returns all services of a board; `domains` are the names of its domains.
pub fn all(written: &Written, domains: &[String], devices: &[Device]) -> Place<Vec<Service>> {
    const { assert!(abi::service::ALL.len() < MAX_SERVICES) };
    let services = written.iter().map(|(name, entry)| one(name, entry, domains));
    let services = services.collect::<Place<Vec<_>>>()?;
    for ((name, _), service) in written.iter().zip(&services) {
        driver(service, &services, devices).map_err(|why| (name.span().start, why))?;
    }
    Ok(services)
}

/// Checks that a driver's mode fits its device, and the services that use it.
fn driver(service: &Service, all: &[Service], devices: &[Device]) -> Result<(), Reason> {
    let drives = abi::service::ALL.into_iter().find(|kind| kind.name == service.name);
    let Some(kind) = drives.and_then(|kind| kind.drives) else { return Ok(()) };
    let is_its = |device: &&Device| device.kind.code() == kind && device.kind != DeviceKind::Dma;
    let Some(device) = devices.iter().find(is_its) else { return Ok(()) };
    let Device { name, home, .. } = device;
    if service.mode == Mode::Delegated && service.home.is_some_and(|other| other != *home) {
        let why = format!("the driver of \"{name}\" runs in another domain than the device's home");
        return Err(Reason::Conflict(why));
    }
    let files = all.iter().find(|other| other.name == abi::service::FS.name);
    let one_state = files.is_some_and(|fs| matches!(fs.mode, Mode::Shadowed | Mode::Delegated));
    if device.kind == DeviceKind::Block && service.mode == Mode::Shadowed && !one_state {
        let why = format!("several file services would write to \"{name}\": share fs as well");
        return Err(Reason::Conflict(why));
    }
    Ok(())
}

fn one(
    name: &Spanned<String>,
    entry: &Spanned<file::Service>,
    domains: &[String],
) -> Place<Service> {
    let (text, service) = (name.get_ref(), entry.get_ref());
    let Some(known) = known().find(|known| known.name == text) else {
        let mut names: Vec<&str> = known().map(|known| known.name).collect();
        names.sort();
        let why = format!("there is no service \"{text}\"; services: {}", names.join(", "));
        return Err((name.span().start, Reason::Missing(why)));
    };
    // Before the mode, because the description of a delegated mode contains its home.
    let home = home(entry, domains)?;
    if !known.modes.contains(&service.mode) {
        return Err((entry.span().start, refused(&known, service.mode)));
    }
    if home.is_some() && !known.modes.contains(&Mode::Delegated) {
        let why = format!("{text} cannot have a home: {}", known.why);
        return Err((entry.span().start, Reason::Conflict(why)));
    }
    Ok(Service { name: text.clone(), mode: service.mode, home })
}

fn home(entry: &Spanned<file::Service>, domains: &[String]) -> Place<Option<usize>> {
    let service = entry.get_ref();
    match (&service.home, service.mode) {
        (Some(home), Mode::Delegated | Mode::Shadowed) => Ok(Some(domain_index(home, domains)?)),
        (None, Mode::Delegated) => {
            let why = "a delegated service needs a home: home = \"DOMAIN\"; domains: ";
            Err((entry.span().start, Reason::Missing(format!("{why}{}", domains.join(", ")))))
        }
        (Some(home), _) => {
            let why = "home is for delegated and shadowed services only".to_string();
            Err((home.span().start, Reason::Conflict(why)))
        }
        (None, _) => Ok(None),
    }
}

fn refused(known: &Known, mode: Mode) -> Reason {
    let modes: Vec<&str> = known.modes.iter().map(|mode| mode.name()).collect();
    Reason::Mode {
        service: known.name,
        mode: mode.name(),
        why: known.why,
        allowed: modes.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use abi::service::{ALL, Arena};

    #[test]
    fn every_service_is_documented_with_its_arena() {
        let text = include_str!("../../../docs/design/services.md");
        for kind in ALL {
            let arena = match kind.arena {
                Arena::Bytes(bytes) => format!("{} KiB", bytes >> 10),
                Arena::Rest => "what is left of 16 MiB".to_string(),
            };
            let row = format!("| `{}` | {} | {arena} |\n", kind.name, kind.about);
            assert!(text.contains(&row), "docs/design/services.md must have\n{row}");
        }
    }
}
